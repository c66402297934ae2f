// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers expressions, buffers, nodes and kernels, and writes the commands in their order.

#include "lib/Package/ProgramWriter.h"
#include "lib/Analysis/Phases.h"
#include "program_generated.h"
#include "trainc/Location.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
namespace fb = trainrt::fb;
using flatbuffers::Offset;

static std::optional<fb::DType> dtypeOf(Type type) {
  if (type.isF32())
    return fb::DType::f32;
  if (type.isF64())
    return fb::DType::f64;
  if (type.isF16())
    return fb::DType::f16;
  if (type.isBF16())
    return fb::DType::bf16;
  if (type.isInteger(1))
    return fb::DType::bool8;
  if (type.isInteger(8))
    return fb::DType::i8;
  if (type.isInteger(16))
    return fb::DType::i16;
  if (type.isInteger(32))
    return fb::DType::i32;
  if (type.isInteger(64))
    return fb::DType::i64;
  return std::nullopt;
}

StringRef trainc::getDTypeName(Type elementType) {
  std::optional<fb::DType> dtype = dtypeOf(elementType);
  return dtype ? StringRef(fb::EnumNameDType(*dtype)) : StringRef();
}

namespace {
class Writer {
public:
  Writer(ModuleOp module, const PackageInterface &interface, bool cuda)
      : module(module), interface(interface), cuda(cuda) {
    for (auto symbol : module.getOps<SymbolOp>())
      symbolIndex[symbol.getSymName()] = symbols.size(), symbols.push_back(symbol);
  }

  FailureOr<std::vector<char>> run() {
    for (auto function : module.getOps<plan::FunctionOp>())
      if (failed(addFunction(function)))
        return failure();
    std::vector<Offset<fb::Symbol>> symbolTable;
    for (SymbolOp symbol : symbols) {
      int input =
          symbol.getInput() ? PackageInterface::find(interface.inputs, *symbol.getInput()) : -1;
      if (input < 0)
        return symbol.emitError("size symbol '") << symbol.getSymName() << "' has no input";
      if (symbol.getDiffers() && failed(checkCount(symbol)))
        return failure();
      symbolTable.push_back(fb::CreateSymbol(
          out, out.CreateString(symbol.getSymName().str()), symbol.getMin(),
          symbol.getMax() ? int64_t(*symbol.getMax()) : INT64_MAX, symbol.getDivisor(), input,
          symbol.getDiffers() ? -1 : int32_t(symbol.getAxis().value_or(0)),
          symbol.getDiffers().has_value(), symbol.getDiffers().value_or(0),
          static_cast<fb::CountKind>(symbol.getCounts())));
    }
    std::vector<Offset<fb::ValueRule>> rules;
    for (const InputRule &rule : interface.rules) {
      // Lower bounds are minus the extent where indices may count from the end.
      std::optional<int64_t> min = rule.rule.min.getConstant();
      rules.push_back(fb::CreateValueRule(
          out, PackageInterface::find(interface.inputs, rule.input), min.value_or(INT64_MIN),
          expression(rule.rule.max), rule.rule.except.has_value(), rule.rule.except.value_or(0),
          node(getNodeName(rule.node))));
    }
    auto tensors = [&](const std::vector<InterfaceTensor> &table) {
      std::vector<Offset<fb::Tensor>> entries;
      for (const InterfaceTensor &tensor : table)
        entries.push_back(fb::CreateTensor(
            out, out.CreateString(tensor.name),
            tensor.isUnsigned ? fb::DType::u8 : *dtypeOf(tensor.type.getElementType()),
            out.CreateVector(expressions(getDims(tensor.type)))));
      return out.CreateVector(entries);
    };
    for (auto *table : {&interface.parameters, &interface.state, &interface.inputs,
                        &interface.hypers, &interface.outputs})
      for (const InterfaceTensor &tensor : *table)
        if (!dtypeOf(tensor.type.getElementType()))
          return module.emitError("tensor '")
                 << tensor.name << "' has element type " << tensor.type.getElementType()
                 << ", which packages do not hold";
    auto parameters = tensors(interface.parameters), state = tensors(interface.state),
         inputs = tensors(interface.inputs), hypers = tensors(interface.hypers),
         outputs = tensors(interface.outputs);
    std::vector<Offset<fb::Kernel>> kernelTable;
    for (auto &[name, counts] : kernels)
      kernelTable.push_back(
          fb::CreateKernel(out, out.CreateString(name), counts.first, counts.second));
    std::vector<Offset<flatbuffers::String>> nodeTable;
    for (auto &[name, index] : nodes)
      nodeTable.push_back(out.CreateString(name));
    auto symbolVector = out.CreateVector(symbolTable);
    auto exprVector = out.CreateVectorOfStructs(exprs);
    auto constantVector = out.CreateVector(constants);
    auto kernelVector = out.CreateVector(kernelTable);
    auto nodeVector = out.CreateVector(nodeTable);
    auto functionVector = out.CreateVector(functions);
    auto ruleVector = out.CreateVector(rules);
    auto sizeRules = out.CreateVector(std::vector<Offset<fb::SizeRule>>());
    out.Finish(fb::CreateProgram(out, 1, 1, symbolVector, exprVector, parameters, state, inputs,
                                 hypers, outputs, constantVector, kernelVector, nodeVector,
                                 functionVector, ruleVector, sizeRules,
                                 cuda ? fb::Target::cuda : fb::Target::cpu),
               fb::ProgramIdentifier());
    auto *data = reinterpret_cast<const char *>(out.GetBufferPointer());
    return std::vector<char>(data, data + out.GetSize());
  }

private:
  /// Of a symbol that counts, what a runtime refuses.
  LogicalResult checkCount(SymbolOp symbol) {
    auto name = [&] { return "count '" + symbol.getSymName().str() + "'"; };
    if (symbol.getAxis())
      return symbol.emitError(name()) << " has an axis as well";
    int64_t divisor = symbol.getDivisor();
    if (divisor < 1 || symbol.getMin() % divisor || symbol.getMax().value_or(0) % divisor)
      return symbol.emitError(name())
             << " has bounds that are no multiples of its divisor " << divisor;
    const InterfaceTensor &input =
        interface.inputs[PackageInterface::find(interface.inputs, *symbol.getInput())];
    if (symbol.getCounts() != CountKind::elements &&
        (input.type.getRank() != 2 || isa<FloatType>(input.type.getElementType())))
      return symbol.emitError(name())
             << " is of runs, which only integers [rows, columns] have, not '" << input.name << "'";
    if (isa<FloatType>(input.type.getElementType()) && *symbol.getDiffers() != 0)
      return symbol.emitError(name())
             << " of the floats '" << input.name << "' can only be of those that differ from 0";
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Tables
  //===--------------------------------------------------------------------===//

  uint32_t expr(fb::ExprKind kind, int32_t a, int32_t b, int64_t value) {
    auto [it, isNew] = exprIndex.try_emplace({int(kind), a, b, value}, exprs.size());
    if (isNew)
      exprs.emplace_back(kind, a, b, value);
    return it->second;
  }
  uint32_t constant(int64_t value) { return expr(fb::ExprKind::constant, -1, -1, value); }
  uint32_t symbol(StringRef name) {
    return expr(fb::ExprKind::symbol, symbolIndex.lookup(name), -1, 0);
  }
  uint32_t expression(DimAttr dim) {
    auto known = dims.find(dim);
    if (known != dims.end())
      return known->second;
    std::optional<uint32_t> sum;
    for (auto [coefficient, monomial] : llvm::zip(dim.getCoefficients(), dim.getMonomials())) {
      std::optional<uint32_t> term;
      if (coefficient != 1 || monomial.empty())
        term = constant(coefficient);
      for (Attribute atom : monomial) {
        uint32_t factor = atomExpression(atom);
        term = term ? expr(fb::ExprKind::mul, *term, factor, 0) : factor;
      }
      sum = sum ? expr(fb::ExprKind::add, *sum, *term, 0) : *term;
    }
    uint32_t index = sum ? *sum : constant(0);
    dims[dim] = index;
    return index;
  }
  uint32_t atomExpression(Attribute atom) {
    if (auto name = dyn_cast<StringAttr>(atom))
      return symbol(name.getValue());
    auto fn = cast<DimFnAttr>(atom);
    uint32_t a = expression(cast<DimAttr>(fn.getLhs())), b = expression(cast<DimAttr>(fn.getRhs()));
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
    std::vector<Offset<fb::Command>> commandTable;
    for (Operation *op : lifetimes.commands)
      commandTable.push_back(command(op, lifetimes.index));
    std::vector<Offset<fb::Buffer>> bufferTable;
    std::vector<uint32_t> outputs;
    for (const BufferLifetime &life : lifetimes.buffers) {
      plan::BufferOp buffer = life.buffer;
      FailureOr<int> index = tableIndex(buffer);
      if (failed(index))
        return failure();
      if (life.space == plan::Space::output)
        outputs.push_back(*index);
      bufferTable.push_back(fb::CreateBuffer(
          out, fb::Space(unsigned(life.space)), *index, expression(life.bytes), life.first,
          life.last, out.CreateString(getNodeName(buffer.getLoc()).str()),
          int8_t(dtypeOf(getElementTypeOrSelf(buffer.getType())).value_or(fb::DType(-1)))));
    }
    FailureOr<std::vector<Offset<fb::Condition>>> conditions = conditionTable(function);
    if (failed(conditions))
      return failure();
    auto base = function->getAttrOfType<StringAttr>(train::kVariantOfAttr);
    auto flops = function->getAttrOfType<DimAttr>(train::kFlopsAttr);
    if ((!base && function->hasAttr(train::kVariantOfAttr)) ||
        (!flops && function->hasAttr(train::kFlopsAttr)))
      return function.emitError("train.variant_of takes a string, train.flops a #train.dim");
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

  FailureOr<int> tableIndex(plan::BufferOp buffer) {
    const std::vector<InterfaceTensor> *table = nullptr;
    switch (buffer.getSpace()) {
    case plan::Space::arena:
    case plan::Space::host:
      return -1;
    case plan::Space::constant: {
      std::optional<fb::DType> dtype = dtypeOf(getElementTypeOrSelf(buffer.getType()));
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
    int index = PackageInterface::find(*table, buffer.getName().value_or(""));
    if (index < 0)
      return buffer.emitError("unknown name '") << buffer.getName().value_or("") << "'";
    return index;
  }

  Offset<fb::Command> command(Operation *op, const DenseMap<Value, uint32_t> &bufferIndex) {
    std::vector<uint32_t> where = nodesOf(op->getLoc());
    auto ref = [&](Value buffer, uint32_t offset) {
      return fb::Ref(bufferIndex.lookup(buffer), offset);
    };
    fb::Op kind;
    Offset<void> body;
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      std::vector<fb::Ref> args;
      for (Value buffer : launch.getBuffers())
        args.push_back(ref(buffer, constant(0)));
      unsigned members = launch.getGroup() ? launch.getGroup()->getDims().size() : 1;
      auto kernel = [&](StringRef name) -> uint32_t {
        auto it = kernels.insert({name.str(),
                                  {unsigned(args.size()) / members,
                                   unsigned(launch.getDims().getDims().size()) / members}});
        return it.first - kernels.begin();
      };
      uint32_t number = kernel(launch.getKernel());
      std::vector<Offset<fb::Variant>> variants;
      if (launch.getVariants())
        for (auto [name, work, grain] :
             llvm::zip_equal(launch.getVariants()->getAsValueRange<StringAttr>(),
                             launch.getVariantWork()->getDims(), *launch.getVariantGrain()))
          variants.push_back(
              fb::CreateVariant(out, kernel(name), expression(work), constant(grain)));
      auto variantVector = variants.empty() ? Offset<flatbuffers::Vector<Offset<fb::Variant>>>()
                                            : out.CreateVector(variants);
      auto group = launch.getGroup() ? out.CreateVector(expressions(*launch.getGroup()))
                                     : Offset<flatbuffers::Vector<uint32_t>>();
      kind = fb::Op::Launch;
      body = fb::CreateLaunch(out, number, out.CreateVectorOfStructs(args),
                              out.CreateVector(expressions(launch.getDims())),
                              expression(launch.getWork()), constant(launch.getGrain()),
                              expression(launch.getScratch()), group,
                              int32_t(launch.getNumInputs()), variantVector)
                 .Union();
    } else if (auto gemm = dyn_cast<plan::GemmOp>(op)) {
      kind = fb::Op::Gemm;
      body = gemmTable(gemm, ref).Union();
    } else if (auto attention = dyn_cast<plan::AttentionOp>(op)) {
      kind = fb::Op::Attention;
      body = attentionTable(attention, ref).Union();
    } else {
      auto copy = cast<plan::CopyOp>(op);
      fb::Ref from = ref(copy.getFrom(), constant(0)), to = ref(copy.getTo(), constant(0));
      kind = fb::Op::Copy;
      body = fb::CreateCopy(out, &from, &to, expression(copy.getBytes())).Union();
    }
    return fb::CreateCommand(out, kind, body, out.CreateVector(where));
  }

  Offset<fb::Gemm> gemmTable(plan::GemmOp gemm, llvm::function_ref<fb::Ref(Value, uint32_t)> ref) {
    const int64_t size = gemm.getElementType().getIntOrFloatBitWidth() / 8;
    auto bytes = [&](DimAttr elements, int64_t size) {
      return expression(elements * DimAttr::constant(gemm.getContext(), size));
    };
    ArrayRef<DimAttr> offsets = gemm.getOffsets().getDims();
    fb::Ref a = ref(gemm.getA(), bytes(offsets[0], size)),
            b = ref(gemm.getB(), bytes(offsets[1], size)),
            c = ref(gemm.getC(), bytes(offsets[2], gemm.getWide() ? 4 : size));
    std::vector<uint32_t> sizes = expressions(gemm.getSizes()),
                          batch = expressions(gemm.getBatch());
    std::vector<uint32_t> as = expressions(gemm.getAStrides()),
                          bs = expressions(gemm.getBStrides()),
                          cs = expressions(gemm.getCStrides());
    size_t n = batch.size();
    auto head = [&](std::vector<uint32_t> &strides) { return out.CreateVector(strides.data(), n); };
    auto batchVector = out.CreateVector(batch), aBatch = head(as), bBatch = head(bs),
         cBatch = head(cs);
    // Train's enum has no case for "none", which is 0.
    static_assert(int(Epilogue::bias) == int(fb::GemmEpilogue::bias) &&
                  int(Epilogue::gelu_aux) == int(fb::GemmEpilogue::gelu_aux) &&
                  int(Epilogue::gelu_aux_bias) == int(fb::GemmEpilogue::gelu_aux_bias) &&
                  int(Epilogue::dgelu) == int(fb::GemmEpilogue::dgelu) &&
                  int(Epilogue::dgelu_bgrad) == int(fb::GemmEpilogue::dgelu_bgrad));
    auto epilogue =
        gemm.getEpilogue() ? fb::GemmEpilogue(*gemm.getEpilogue()) : fb::GemmEpilogue::none;
    fb::Ref bias, aux;
    if (gemm.getBias())
      bias = ref(gemm.getBias(), constant(0));
    if (gemm.getAux())
      aux = ref(gemm.getAux(), constant(0));
    return fb::CreateGemm(
        out, *dtypeOf(gemm.getElementType()), &a, &b, &c, sizes[0], sizes[1], sizes[2], as[n],
        as[n + 1], bs[n], bs[n + 1], cs[n], cs[n + 1], batchVector, aBatch, bBatch, cBatch, 1.0f,
        gemm.getAccumulate() ? 1.0f : 0.0f, gemm.getTf32(), epilogue,
        gemm.getBias() ? &bias : nullptr, gemm.getAux() ? &aux : nullptr, gemm.getWide());
  }

  Offset<fb::Attention> attentionTable(plan::AttentionOp op,
                                       llvm::function_ref<fb::Ref(Value, uint32_t)> ref) {
    ArrayRef<DimAttr> offsets = op.getOffsets().getDims();
    // Places of the operands that are there, in the op's order.
    std::vector<fb::Ref> places;
    auto place = [&](Value buffer, Type element) -> int {
      if (!buffer)
        return -1;
      DimAttr size = DimAttr::constant(op.getContext(), element.getIntOrFloatBitWidth() / 8);
      places.push_back(ref(buffer, expression(offsets[places.size()] * size)));
      return places.size() - 1;
    };
    Type element = op.getElementType(), f32 = Float32Type::get(op.getContext()),
         i64 = IntegerType::get(op.getContext(), 64), i32 = IntegerType::get(op.getContext(), 32);
    Type biasType = op.getBiasType().value_or(element);
    int q = place(op.getQ(), element), k = place(op.getK(), element), v = place(op.getV(), element),
        o = place(op.getO(), element), stats = place(op.getStats(), f32),
        bias = place(op.getBias(), biasType), seed = place(op.getSeed(), i64),
        dO = place(op.getDO(), element), dQ = place(op.getDQ(), element),
        dK = place(op.getDK(), element), dV = place(op.getDV(), element),
        segments = place(op.getSegments(), i32), positions = place(op.getPositions(), i32);
    std::vector<uint32_t> segmentSizes = {0, 0};
    if (op.getSegmentSizes())
      segmentSizes = expressions(*op.getSegmentSizes());
    auto at = [&](int index) { return index < 0 ? nullptr : &places[index]; };
    auto strides = [&](std::optional<DimsAttr> list) {
      return list ? out.CreateVector(expressions(*list)) : Offset<flatbuffers::Vector<uint32_t>>();
    };
    auto sizes = out.CreateVector(expressions(op.getSizes()));
    auto qStrides = strides(op.getQStrides()), kStrides = strides(op.getKStrides()),
         vStrides = strides(op.getVStrides()), oStrides = strides(op.getOStrides()),
         biasStrides = strides(op.getBiasStrides()), dOStrides = strides(op.getDOStrides()),
         dQStrides = strides(op.getDQStrides()), dKStrides = strides(op.getDKStrides()),
         dVStrides = strides(op.getDVStrides());
    return fb::CreateAttention(
        out, dO >= 0, *dtypeOf(element), sizes, at(q), at(k), at(v), at(o), at(stats), at(bias),
        at(seed), at(dO), at(dQ), at(dK), at(dV), qStrides, kStrides, vStrides, oStrides,
        biasStrides, dOStrides, dQStrides, dKStrides, dVStrides, *dtypeOf(biasType),
        op.getScale().convertToDouble(), op.getDropout().convertToDouble(), op.getCausal(),
        at(segments), at(positions), segmentSizes[0], segmentSizes[1],
        segments >= 0 ? op.getDropout().convertToDouble() : 0);
  }

  ModuleOp module;
  const PackageInterface &interface;
  bool cuda;
  flatbuffers::FlatBufferBuilder out;
  SmallVector<SymbolOp> symbols;
  llvm::StringMap<int> symbolIndex;
  std::vector<fb::Expr> exprs;
  std::map<std::tuple<int, int32_t, int32_t, int64_t>, uint32_t> exprIndex;
  DenseMap<Attribute, uint32_t> dims;
  llvm::MapVector<std::string, unsigned, std::map<std::string, unsigned>> nodes;
  llvm::MapVector<std::string, std::pair<unsigned, unsigned>, std::map<std::string, unsigned>>
      kernels;
  std::vector<Offset<fb::Constant>> constants;
  std::vector<Offset<fb::Function>> functions;
};
} // namespace

FailureOr<std::vector<char>> trainc::writeProgram(ModuleOp module,
                                                  const PackageInterface &interface, bool cuda) {
  return Writer(module, interface, cuda).run();
}
