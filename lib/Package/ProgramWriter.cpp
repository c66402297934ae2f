// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers expressions, buffers, nodes and kernels, and writes the commands in their order.

#include "trainc/Package/ProgramWriter.h"
#include "dialects/Plan/TableBuilder.h"
#include "dialects/Train/Collectives/Shards.h"
#include "format/program.h"
#include "trainc/Analysis/Phases.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
namespace fb = trainrt::fb;
using flatbuffers::Offset;

StringRef trainc::getDTypeName(Type elementType) {
  std::optional<fb::DType> dtype = plan::getDType(elementType);
  return dtype ? StringRef(fb::EnumNameDType(*dtype)) : StringRef();
}

namespace {
class Writer {
public:
  Writer(ModuleOp module, const PackageInterface &interface, fb::Target target)
      : module(module), interface(interface), target(target) {
    // Symbols are numbered in the order of the module.
    for (auto symbol : module.getOps<SymbolOp>())
      symbolIndex[symbol.getSymName()] = symbols.size(), symbols.push_back(symbol);
  }

  FailureOr<std::vector<char>> run() {
    // Functions first: they fill the tables of expressions, nodes, kernels and constants.
    for (auto function : module.getOps<plan::FunctionOp>())
      if (failed(addFunction(function)))
        return failure();
    std::vector<Offset<fb::Symbol>> symbolTable;
    for (SymbolOp symbol : symbols) {
      int input =
          symbol.getInput() ? PackageInterface::find(interface.inputs, *symbol.getInput()) : -1;
      // A size that neither the run nor an input tells could never be known.
      if (input < 0 && !isOfRun(symbol))
        return symbol.emitError("size symbol '") << symbol.getSymName() << "' has no input";
      if (symbol.getDiffers() && failed(checkCount(symbol)))
        return failure();
      // The runtime has no "none": the largest number stands for no maximum.
      symbolTable.push_back(fb::CreateSymbol(
          out, out.CreateString(symbol.getSymName().str()), symbol.getMin(),
          symbol.getMax() ? int64_t(*symbol.getMax()) : INT64_MAX, symbol.getDivisor(), input,
          symbol.getDiffers() || input < 0 ? -1 : int32_t(symbol.getAxis().value_or(0)),
          symbol.getDiffers().has_value(), symbol.getDiffers().value_or(0),
          static_cast<fb::CountKind>(symbol.getCounts()), runSymbol(symbol)));
    }
    std::vector<Offset<fb::ValueRule>> rules;
    auto list = [&](ArrayRef<DimAttr> dims) {
      return dims.empty() ? 0 : out.CreateVector(expressions(dims));
    };
    for (const InputRule &rule : interface.rules) {
      // Lower bounds are minus the extent where indices may count from the end.
      std::optional<int64_t> min = rule.rule.min.getConstant();
      rules.push_back(fb::CreateValueRule(
          out, PackageInterface::find(interface.inputs, rule.input), min.value_or(INT64_MIN),
          expression(rule.rule.max), rule.rule.except.has_value(), rule.rule.except.value_or(0),
          node(getNodeName(rule.node)), list(rule.begin), list(rule.end)));
    }
    auto tensors = [&](const std::vector<InterfaceTensor> &table) {
      std::vector<Offset<fb::Tensor>> entries;
      for (const InterfaceTensor &tensor : table)
        entries.push_back(fb::CreateTensor(
            out, out.CreateString(tensor.name),
            tensor.isUnsigned ? fb::DType::u8 : *plan::getDType(tensor.type.getElementType()),
            out.CreateVector(expressions(getDims(tensor.type))), tensor.shardUnit,
            tensor.gradientUnit));
      return out.CreateVector(entries);
    };
    for (auto *table : {&interface.parameters, &interface.state, &interface.inputs,
                        &interface.hypers, &interface.outputs, &interface.derived})
      for (const InterfaceTensor &tensor : *table)
        if (!plan::getDType(tensor.type.getElementType()))
          return module.emitError("tensor '")
                 << tensor.name << "' has element type " << tensor.type.getElementType()
                 << ", which packages do not hold";
    // Expressions of shapes go into the table as well, so that it is written behind them.
    auto parameters = tensors(interface.parameters), state = tensors(interface.state),
         inputs = tensors(interface.inputs), hypers = tensors(interface.hypers),
         outputs = tensors(interface.outputs);
    Offset<flatbuffers::Vector<Offset<fb::Tensor>>> derived;
    if (!interface.derived.empty()) {
      derived = tensors(interface.derived);
      version = std::max(version, trainrt::programMajorDerived);
    }
    std::vector<Offset<fb::Kernel>> kernelTable;
    for (auto &[name, counts] : kernels)
      kernelTable.push_back(
          fb::CreateKernel(out, out.CreateString(name), counts.first, counts.second));
    std::vector<Offset<fb::ExternalFunction>> externalTable;
    for (auto &[names, index] : externals)
      externalTable.push_back(fb::CreateExternalFunction(out, out.CreateString(names.first),
                                                         out.CreateString(names.second)));
    std::vector<Offset<flatbuffers::String>> nodeTable;
    for (auto &[name, index] : nodes)
      nodeTable.push_back(out.CreateString(name));
    // A flat buffer is built from the inside out.
    auto symbolVector = out.CreateVector(symbolTable);
    auto exprVector = out.CreateVectorOfStructs(exprs);
    auto constantVector = out.CreateVector(constants);
    auto kernelVector = out.CreateVector(kernelTable);
    auto externalVector = externals.empty()
                              ? Offset<flatbuffers::Vector<Offset<fb::ExternalFunction>>>()
                              : out.CreateVector(externalTable);
    auto nodeVector = out.CreateVector(nodeTable);
    auto functionVector = out.CreateVector(functions);
    auto ruleVector = out.CreateVector(rules);
    // Rules on sizes are made by the runtime's own checks.
    auto sizeRules = out.CreateVector(std::vector<Offset<fb::SizeRule>>());
    out.Finish(fb::CreateProgram(out, version, 0, symbolVector, exprVector, parameters, state,
                                 inputs, hypers, outputs, constantVector, kernelVector, nodeVector,
                                 functionVector, ruleVector, sizeRules, target, externalVector,
                                 derived),
               fb::ProgramIdentifier());
    auto *data = reinterpret_cast<const char *>(out.GetBufferPointer());
    return std::vector<char>(data, data + out.GetSize());
  }

private:
  static fb::RunSymbol runSymbol(SymbolOp symbol) {
    return !isOfRun(symbol)                      ? fb::RunSymbol::none
           : symbol.getSymName() == kWorldSymbol ? fb::RunSymbol::world
                                                 : fb::RunSymbol::rank;
  }

  /// Of a symbol that counts, what a runtime refuses.
  LogicalResult checkCount(SymbolOp symbol) {
    auto name = [&] { return "count '" + symbol.getSymName().str() + "'"; };
    // Either an axis or a count.
    if (symbol.getAxis())
      return symbol.emitError(name()) << " has an axis as well";
    int64_t divisor = symbol.getDivisor();
    // A count is rounded up to multiples: bounds have to be ones.
    if (divisor < 1 || symbol.getMin() % divisor || symbol.getMax().value_or(0) % divisor)
      return symbol.emitError(name())
             << " has bounds that are no multiples of its divisor " << divisor;
    const InterfaceTensor &input =
        interface.inputs[PackageInterface::find(interface.inputs, *symbol.getInput())];
    if (symbol.getCounts() != CountKind::elements &&
        (input.type.getRank() != 2 || isa<FloatType>(input.type.getElementType())))
      return symbol.emitError(name())
             << " is of runs, which only integers [rows, columns] have, not '" << input.name << "'";
    // Equality of floats is asked only for the padding value.
    if (isa<FloatType>(input.type.getElementType()) && *symbol.getDiffers() != 0)
      return symbol.emitError(name())
             << " of the floats '" << input.name << "' can only be of those that differ from 0";
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Tables
  //===--------------------------------------------------------------------===//

  uint32_t expr(fb::ExprKind kind, int32_t a, int32_t b, int64_t value) {
    assert((kind == fb::ExprKind::symbol || std::max(a, b) < int32_t(exprs.size())) &&
           "operands come before their users");
    // Equal ones are one entry.
    auto [it, isNew] = exprIndex.try_emplace({int(kind), a, b, value}, exprs.size());
    if (isNew)
      exprs.emplace_back(kind, a, b, value);
    return it->second;
  }
  uint32_t constant(int64_t value) { return expr(fb::ExprKind::constant, -1, -1, value); }
  uint32_t symbol(StringRef name) {
    assert(symbolIndex.count(name) && "every size is made of the module's symbols");
    return expr(fb::ExprKind::symbol, symbolIndex.lookup(name), -1, 0);
  }
  /// A sum of products, as the attribute has it; each expression is written once.
  uint32_t expression(DimAttr dim) {
    auto known = dims.find(dim);
    if (known != dims.end())
      return known->second;
    std::optional<uint32_t> sum;
    for (auto [coefficient, monomial] :
         llvm::zip_equal(dim.getCoefficients(), dim.getMonomials())) {
      std::optional<uint32_t> term;
      // A coefficient of 1 is not written, unless it is all there is.
      if (coefficient != 1 || monomial.empty())
        term = constant(coefficient);
      for (Attribute atom : monomial) {
        uint32_t factor = atomExpression(atom);
        term = term ? expr(fb::ExprKind::mul, *term, factor, 0) : factor;
      }
      sum = sum ? expr(fb::ExprKind::add, *sum, *term, 0) : *term;
    }
    // The empty sum.
    uint32_t index = sum ? *sum : constant(0);
    dims[dim] = index;
    return index;
  }
  uint32_t atomExpression(Attribute atom) {
    if (auto name = dyn_cast<StringAttr>(atom))
      return symbol(name.getValue());
    auto fn = cast<DimFnAttr>(atom);
    uint32_t a = expression(cast<DimAttr>(fn.getLhs())), b = expression(cast<DimAttr>(fn.getRhs()));
    assert(unsigned(fn.getKind()) < 4 && "one kind for each");
    static constexpr fb::ExprKind kinds[] = {fb::ExprKind::floordiv, fb::ExprKind::mod,
                                             fb::ExprKind::max, fb::ExprKind::min};
    return expr(kinds[unsigned(fn.getKind())], a, b, 0);
  }
  std::vector<uint32_t> expressions(ArrayRef<DimAttr> list) {
    std::vector<uint32_t> result;
    for (DimAttr dim : list)
      result.push_back(expression(dim));
    return result;
  }
  std::vector<uint32_t> expressions(DimsAttr list) { return expressions(list.getDims()); }

  /// Names of nodes, each once.
  uint32_t node(StringRef name) {
    return nodes.insert({name.str(), unsigned(nodes.size())}).first->second;
  }
  std::vector<uint32_t> nodesOf(Location loc) {
    SmallVector<StringRef> names;
    collectNodeNames(loc, names);
    std::vector<uint32_t> list;
    for (StringRef name : names)
      list.push_back(node(name));
    return list;
  }

  /// Row-major bytes of a constant; booleans take one byte.
  static std::vector<uint8_t> constantBytes(ElementsAttr value) {
    auto dense = cast<DenseElementsAttr>(value);
    std::vector<uint8_t> bytes;
    if (value.getElementType().isInteger(1)) {
      for (bool b : dense.getValues<bool>())
        bytes.push_back(b);
      return bytes;
    }
    ArrayRef<char> raw = dense.getRawData();
    // A splat is written out: the runtime reads elements where they lie.
    int64_t copies = dense.isSplat() ? dense.getNumElements() : 1;
    for (int64_t i = 0; i < copies; ++i)
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    return bytes;
  }

  //===--------------------------------------------------------------------===//
  // Functions
  //===--------------------------------------------------------------------===//

  LogicalResult addFunction(plan::FunctionOp function) {
    FunctionLifetimes lifetimes(function);
    // Commands first: they say which buffers they use by their index.
    std::vector<Offset<fb::Command>> commandTable;
    for (Operation *op : lifetimes.commands)
      commandTable.push_back(command(cast<plan::PlanCommandOpInterface>(op), lifetimes.index));
    std::vector<Offset<fb::Buffer>> bufferTable;
    std::vector<uint32_t> outputs;
    for (const BufferLifetime &life : lifetimes.buffers) {
      plan::BufferOp buffer = life.buffer;
      FailureOr<int> index = tableIndex(buffer);
      if (failed(index))
        return failure();
      // Outputs in the order of their buffers.
      if (life.space == plan::Space::output)
        outputs.push_back(*index);
      // A type that the runtime does not know is -1: nothing depends on it.
      bufferTable.push_back(fb::CreateBuffer(
          out, fb::Space(unsigned(life.space)), *index, expression(life.bytes), life.first,
          life.last, out.CreateString(getNodeName(buffer.getLoc()).str()),
          int8_t(plan::getDType(getElementTypeOrSelf(buffer.getType())).value_or(fb::DType(-1)))));
    }
    FailureOr<std::vector<Offset<fb::Condition>>> conditions = conditionTable(function);
    if (failed(conditions))
      return failure();
    // Text forms of IR may have anything there.
    auto base = function->getAttrOfType<StringAttr>(train::kVariantOfAttr);
    auto flops = function->getAttrOfType<DimAttr>(train::kFlopsAttr);
    if ((!base && function->hasAttr(train::kVariantOfAttr)) ||
        (!flops && function->hasAttr(train::kFlopsAttr)))
      return function.emitError("train.variant_of takes a string, train.flops a #train.dim");
    // Where forward and backward end, for reports and profiles.
    const Phases phases = getPhases(lifetimes, interface.loss());
    auto name = out.CreateString(function.getSymName().str());
    auto buffersAt = out.CreateVector(bufferTable);
    auto commandsAt = out.CreateVector(commandTable);
    auto outputsAt = out.CreateVector(outputs);
    auto baseAt = base ? out.CreateString(base.str()) : Offset<flatbuffers::String>();
    auto conditionsAt = conditions->empty() ? Offset<flatbuffers::Vector<Offset<fb::Condition>>>()
                                            : out.CreateVector(*conditions);
    functions.push_back(fb::CreateFunction(out, name, buffersAt, commandsAt, outputsAt, baseAt,
                                           conditionsAt, flops ? int32_t(expression(flops)) : -1,
                                           phases.forwardEnd, phases.backwardEnd));
    return success();
  }

  /// What a batch must be like for a variant.
  FailureOr<std::vector<Offset<fb::Condition>>> conditionTable(plan::FunctionOp function) {
    std::vector<Offset<fb::Condition>> table;
    Attribute list = function->getAttr(train::kConditionsAttr);
    if (!list)
      return table;
    // Attributes come from IR that anybody may have written: everything is checked.
    if (!isa<ArrayAttr>(list))
      return function.emitError("train.conditions is no list");
    for (auto [number, entry] : llvm::enumerate(cast<ArrayAttr>(list))) {
      auto fail = [&]() {
        return function.emitError("train.conditions, number ") << number << ": ";
      };
      auto fields = dyn_cast<DictionaryAttr>(entry);
      auto kind = fields ? fields.getAs<StringAttr>("kind") : StringAttr();
      if (!kind)
        return fail() << "has no kind";
      std::optional<fb::ConditionKind> known;
      for (fb::ConditionKind candidate : fb::EnumValuesConditionKind())
        if (kind == fb::EnumNameConditionKind(candidate))
          known = candidate;
      if (!known)
        return fail() << "kind '" << kind.getValue() << "' is unknown";
      // -1: none.
      int32_t inputs[2] = {-1, -1};
      int64_t numbers[4] = {};
      static constexpr StringLiteral inputNames[] = {"mask", "input"};
      static constexpr StringLiteral numberNames[] = {"padding", "shift", "value", "index"};
      for (NamedAttribute field : fields) {
        StringRef name = field.getName();
        auto *input = llvm::find(inputNames, name);
        auto *number = llvm::find(numberNames, name);
        if (auto text = dyn_cast<StringAttr>(field.getValue());
            text && input != std::end(inputNames))
          inputs[input - inputNames] = PackageInterface::find(interface.inputs, text.getValue());
        else if (auto value = dyn_cast<IntegerAttr>(field.getValue());
                 value && number != std::end(numberNames))
          numbers[number - numberNames] = value.getInt();
        else if (name != "kind")
          return fail() << "field '" << name << "' is unknown or of another type";
      }
      // Which inputs the kind asks for.
      const bool needsMask = *known != fb::ConditionKind::binary;
      const bool needsInput =
          *known == fb::ConditionKind::binary || *known == fb::ConditionKind::fixed_where_padded;
      if (needsMask != (inputs[0] >= 0) || needsInput != (inputs[1] >= 0))
        return fail() << "'" << kind.getValue() << "' needs "
                      << (needsMask ? needsInput ? "'mask' and 'input'" : "'mask'" : "'input'")
                      << ", inputs of the model, and no other";
      table.push_back(fb::CreateCondition(out, *known, inputs[0], numbers[0], inputs[1], numbers[1],
                                          numbers[2], numbers[3]));
    }
    return table;
  }

  /// The row of a buffer's table; constants get theirs here.
  FailureOr<int> tableIndex(plan::BufferOp buffer) {
    const std::vector<InterfaceTensor> *table = nullptr;
    switch (buffer.getSpace()) {
    // They have no table: memory is planned for them.
    case plan::Space::arena:
    case plan::Space::host:
      return -1;
    case plan::Space::constant: {
      std::optional<fb::DType> dtype = plan::getDType(getElementTypeOrSelf(buffer.getType()));
      if (!dtype)
        return buffer.emitError("constant of a type that packages do not hold");
      constants.push_back(
          fb::CreateConstant(out, *dtype, out.CreateVector(expressions(getDims(buffer.getType()))),
                             out.CreateVector(constantBytes(*buffer.getValue()))));
      return int(constants.size()) - 1;
    }
    case plan::Space::parameter:
    case plan::Space::gradient:
      table = &interface.parameters;
      break;
    case plan::Space::state:
      table = &interface.state;
      break;
    case plan::Space::derived:
      table = &interface.derived;
      break;
    case plan::Space::input:
      table = &interface.inputs;
      break;
    case plan::Space::hyper:
      table = &interface.hypers;
      break;
    case plan::Space::output:
      table = &interface.outputs;
      break;
    }
    // By name: every function of the package has the same tables.
    int index = PackageInterface::find(*table, buffer.getName().value_or(""));
    if (index < 0)
      return buffer.emitError("unknown name '") << buffer.getName().value_or("") << "'";
    return index;
  }

  Offset<fb::Command> command(plan::PlanCommandOpInterface op,
                              const DenseMap<Value, uint32_t> &bufferIndex) {
    // Names of nodes before offsets of this command's own tables.
    std::vector<uint32_t> where = nodesOf(op->getLoc()), kernelIndices;
    std::vector<fb::Operand> operands;
    // A hole stays a hole, so that places have fixed numbers.
    for (const plan::CommandSlot &slot : op.getSlots())
      if (slot.operand)
        operands.emplace_back(bufferIndex.lookup(slot.operand->get()),
                              slot.offset ? expression(slot.offset) : constant(0),
                              plan::getAccess(*slot.operand));
      else
        operands.emplace_back(0, 0, fb::Access::none);
    const plan::CommandKernels used = op.getKernels();
    // A kernel may be used by many commands, always with the same numbers.
    for (StringRef name : used.names) {
      auto it = kernels.insert({name.str(), {unsigned(used.args), unsigned(used.dims)}});
      kernelIndices.push_back(it.first - kernels.begin());
    }
    std::vector<uint32_t> sizes;
    for (DimAttr size : op.getCommandSizes())
      sizes.push_back(expression(size));
    std::vector<uint32_t> costs;
    for (DimAttr cost : op.getCosts())
      costs.push_back(expression(cost));
    auto externalFunction = [&](StringRef plugin, StringRef name) {
      const External names(plugin.str(), name.str());
      return uint32_t(externals.insert({names, unsigned(externals.size())}).first->second);
    };
    plan::TableBuilder builder{out, externalFunction, version};
    // The kind's own table, then the vectors; the command comes last.
    const plan::CommandTable table = op.buildTable(builder);
    auto operandVector = out.CreateVectorOfStructs(operands);
    auto sizeVector = out.CreateVector(sizes);
    auto kernelVector = kernelIndices.empty() ? Offset<flatbuffers::Vector<uint32_t>>()
                                              : out.CreateVector(kernelIndices);
    auto costVector =
        costs.empty() ? Offset<flatbuffers::Vector<uint32_t>>() : out.CreateVector(costs);
    return fb::CreateCommand(out, fb::Op(table.kind), Offset<void>(table.offset), operandVector,
                             sizeVector, kernelVector, out.CreateVector(where), costVector);
  }

  ModuleOp module;
  const PackageInterface &interface;
  fb::Target target;
  flatbuffers::FlatBufferBuilder out;
  uint32_t version = trainrt::programMajor;
  SmallVector<SymbolOp> symbols;
  llvm::StringMap<int> symbolIndex;
  std::vector<fb::Expr> exprs;
  std::map<std::tuple<int, int32_t, int32_t, int64_t>, uint32_t> exprIndex;
  DenseMap<Attribute, uint32_t> dims;
  llvm::MapVector<std::string, unsigned, std::map<std::string, unsigned>> nodes;
  llvm::MapVector<std::string, std::pair<unsigned, unsigned>, std::map<std::string, unsigned>>
      kernels;
  /// Functions of plug-ins, each once.
  using External = std::pair<std::string, std::string>;
  llvm::MapVector<External, unsigned, std::map<External, unsigned>> externals;
  std::vector<Offset<fb::Constant>> constants;
  std::vector<Offset<fb::Function>> functions;
};
} // namespace

FailureOr<std::vector<char>>
trainc::writeProgram(ModuleOp module, const PackageInterface &interface, StringRef target) {
  // The schema has the list.
  for (fb::Target known : fb::EnumValuesTarget())
    if (fb::EnumNameTarget(known) == target)
      return Writer(module, interface, known).run();
  return module.emitError("packages have no target '")
         << target << "' (runtime/schema/program.fbs)";
}
