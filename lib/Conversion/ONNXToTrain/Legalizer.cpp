// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From `onnx.graph` to `func.func @forward`. Only nodes that reach an output are looked at; a
// value's tensor is emitted when an op first needs it, so shape arithmetic leaves nothing behind.

#include "Legalizer.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using trainc::train::getTensorType;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

Legalizer::Legalizer(onnx::GraphOp graph, const LegalizeOptions &options, LegalizeResult &result,
                     Learned &learned)
    : graph(graph), result(result), learned(learned), builder(graph) {
  this->options = &options;
  registerMath(table);
  registerShape(table);
  registerIndex(table);
  registerSequence(table);
  registerLinear(table);
  registerNorm(table);
  registerAttention(table);
  registerReduce(table);
  registerLoss(table);
  registerRandom(table);
}

InFlightDiagnostic Legalizer::error(const Twine &message) {
  return emitError(graph.getLoc(), message);
}

//===- Values -------------------------------------------------------------===//

LegalValue &Legalizer::newValue(Location loc) { return storage.emplace_back(loc); }

LegalValue &Legalizer::valueOf(Value onnxValue) {
  LegalValue *&entry = values[onnxValue];
  if (!entry)
    entry = &newValue(onnxValue.getLoc());
  return *entry;
}

Value Legalizer::tensorOf(LegalValue &value) {
  if (!value.tensor) {
    TrainBuilder tb(builder, value.loc);
    if (value.constant)
      value.tensor = materialize(tb, value.constant);
    else
      value.tensor = materialize(tb, *value.content);
  }
  return value.tensor;
}

const Content *Legalizer::contentOf(LegalValue &value) {
  if (!value.content && value.constant)
    value.content = legalize::contentOf(value.constant);
  return value.content ? &*value.content : nullptr;
}

Value Legalizer::addArgument(Type type, DictionaryAttr attrs, Location loc) {
  argumentAttrs.push_back(attrs);
  return function.getBody().front().addArgument(type, loc);
}

DictionaryAttr Legalizer::role(StringRef role, StringRef name) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(train::kRoleAttr, builder.getStringAttr(role)),
       builder.getNamedAttr(train::kNameAttr, builder.getStringAttr(name))});
}

Value Legalizer::rngArgument(unsigned index) {
  static constexpr StringLiteral names[] = {"seed", "step", "micro_batch", "rank"};
  // All four at once, so that their order never depends on the graph.
  if (!rng[0])
    for (auto [i, name] : llvm::enumerate(names))
      rng[i] = addArgument(getTensorType({}, builder.getI64Type()), role("hyper", name),
                           NameLoc::get(builder.getStringAttr(name)));
  return rng[index];
}

//===- Arguments ----------------------------------------------------------===//

void Legalizer::findLive() {
  SmallVector<Value> work(graph.getBody().front().getTerminator()->getOperands());
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !live.insert(op).second)
      continue;
    llvm::append_range(work, op->getOperands());
    for (Region &region : op->getRegions())
      region.walk([&](Operation *inner) { llvm::append_range(work, inner->getOperands()); });
  }
}

Attribute Legalizer::weightOf(onnx::WeightAttr weight) {
  bool blob = weight.getBlob() >= 0;
  return train::WeightAttr::get(
      builder.getContext(), builder.getStringAttr(blob ? StringRef() : weight.getFile()),
      blob ? weight.getBlob() : weight.getOffset(), weight.getLength(), weight.getAbsent());
}

LogicalResult Legalizer::addInitializers() {
  for (auto op : graph.getOps<onnx::InitializerOp>()) {
    Type element = cast<RankedTensorType>(op.getType()).getElementType();
    bool isFloat = isa<FloatType>(element);
    std::string reason = isFloat ? rule.reasonAgainst(op.getName()) : "not a float";
    // What the list names stays a parameter even if nothing uses it: its gradient is zero.
    bool wanted = reason.empty() && !rule.isDefault();
    if (!isLive(op) && !wanted)
      continue;
    LegalValue &value = valueOf(op.getResult());
    value.element = element;
    for (int64_t size : cast<RankedTensorType>(op.getType()).getShape())
      value.dims.push_back(DimAttr::constant(builder.getContext(), size));
    auto dense = dyn_cast_or_null<DenseElementsAttr>(op.getValueAttr());
    bool supported =
        (isFloat && element.getIntOrFloatBitWidth() >= 16) || element.isSignlessInteger();
    if (!supported) {
      return error("initializer '" + op.getName() + "': its element type is not supported");
    }
    if (dense && !reason.empty()) {
      value.constant = dense;
      if (isFloat)
        result.excluded.push_back({op.getName().str(), dense.getNumElements(), reason});
      continue;
    }
    NamedAttrList attrs(role("parameter", op.getName()));
    attrs.set(train::kWeightAttr, weightOf(op.getWeight()));
    parameters.push_back({op, unsigned(argumentAttrs.size()), reason});
    value.tensor =
        addArgument(op.getType(), attrs.getDictionary(builder.getContext()), op.getLoc());
  }
  return success();
}

DimAttr Legalizer::declareDim(StringRef name, StringRef input, int64_t axis) {
  std::string own = name.empty() ? (input + "_dim" + Twine(axis)).str() : name.str();
  const DimBound *bound = nullptr;
  for (const DimBound &candidate : options->dims)
    if (candidate.name == own)
      bound = &candidate;
  if (bound && bound->max == bound->min)
    return DimAttr::constant(builder.getContext(), bound->min);
  auto [it, added] = bounds.symbols.insert({builder.getStringAttr(own), SymbolInfo()});
  if (added) {
    it->second.input = input;
    it->second.axis = axis;
    if (bound) {
      it->second.min = std::max<int64_t>(1, bound->min);
      it->second.max = bound->max;
    }
    if (auto known = learned.find(own); known != learned.end())
      it->second.max = std::min(it->second.max.value_or(known->second), known->second);
  }
  return DimAttr::symbol(builder.getContext(), own);
}

LogicalResult Legalizer::addInputs() {
  for (auto [i, argument] : llvm::enumerate(graph.getBody().getArguments())) {
    StringRef name = graph.getInputName(i);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return error("input '" + name + "' is not a tensor of known rank");
    Type element = type.getElementType();
    if (!(isa<FloatType>(element) && element.getIntOrFloatBitWidth() >= 16) &&
        !element.isSignlessInteger())
      return error("input '" + name + "': its element type is not supported");
    LegalValue &value = valueOf(argument);
    value.element = element;
    SmallVector<StringRef> names = graph.getInputDims(i);
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      value.dims.push_back(ShapedType::isDynamic(size)
                               ? declareDim(names[axis], name, axis)
                               : DimAttr::constant(builder.getContext(), size));
    value.tensor = addArgument(getTensorType(value.dims, element), role("input", name),
                               NameLoc::get(builder.getStringAttr(name)));
  }
  for (const DimBound &bound : options->dims) {
    bool known = false;
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      for (auto [axis, dimName] : llvm::enumerate(graph.getInputDims(i)))
        known |=
            dimName == bound.name ||
            (dimName.empty() && bound.name == (graph.getInputName(i) + "_dim" + Twine(axis)).str());
    if (!known) {
      InFlightDiagnostic diag =
          error("--dim: no input has a dimension '" + bound.name + "'; there are");
      for (auto &[symbol, info] : bounds.symbols)
        diag << " '" << symbol.getValue() << "'";
      return diag;
    }
  }
  return success();
}

//===- Nodes --------------------------------------------------------------===//

void Legalizer::addProblem(onnx::NodeOp node, const Twine &reason) {
  std::string text = reason.str();
  std::string key = (node.getDomain() + "\x01" + node.getOpType() + "\x01" + text).str();
  Problem &problem = problems[builder.getStringAttr(key)];
  if (!problem.count++) {
    problem.first = node;
    problem.reason = text;
  }
}

std::string Legalizer::checkInputs(onnx::NodeOp node, const HandlerTable::Entry &entry) {
  int64_t inputs = node.getInputs().size();
  if (inputs < entry.required || (entry.exact && inputs > entry.required) ||
      node.getOutputs().empty())
    return "it has the wrong number of inputs or outputs";
  for (int64_t i = 0; i < inputs; ++i) {
    Value input = node.getInputs()[i];
    if (isa<NoneType>(input.getType())) {
      if (i < entry.required || entry.variadic)
        return "its input " + std::to_string(i) + " is missing";
    } else if (valueOf(input).isSequence != (entry.sequence && i == 0)) {
      return "its input " + std::to_string(i) +
             (valueOf(input).isSequence ? " is a sequence" : " is not a sequence");
    }
  }
  return {};
}

void Legalizer::legalizeNode(onnx::NodeOp node) {
  bool blocked =
      llvm::any_of(node.getInputs(), [&](Value input) { return poisoned.contains(input); });
  std::string name = node.getDomain().empty() ? node.getOpType().str()
                                              : (node.getDomain() + "::" + node.getOpType()).str();
  auto it = table.entries.find(name);
  auto poison = [&] {
    for (Value output : node.getOutputs())
      poisoned.insert(output);
  };
  if (it == table.entries.end()) {
    addProblem(node, "the operator is not supported");
    return poison();
  }
  if (int64_t(node.getVersion()) < it->second.since) {
    addProblem(node, "the operator of this opset is not supported, only from opset " +
                         Twine(it->second.since) + " on");
    return poison();
  }
  if (blocked)
    return poison();
  if (std::string problem = checkInputs(node, it->second); !problem.empty()) {
    addProblem(node, problem);
    return poison();
  }
  NodeContext context(node, *this, builder);
  if (failed(it->second.handler(context))) {
    addProblem(node, context.reason.empty() ? Twine("it is malformed") : Twine(context.reason));
    return poison();
  }
  // An output that the handler left out, and that somebody uses.
  for (auto [i, output] : llvm::enumerate(node.getOutputs())) {
    if (!output.use_empty() && !valueOf(output).element && !valueOf(output).isSequence) {
      addProblem(node, "its output " + Twine(i) + " is not supported");
      poisoned.insert(output);
    }
  }
}

LogicalResult Legalizer::reportProblems() {
  for (auto &[key, problem] : problems) {
    onnx::NodeOp node = problem.first;
    std::string op = node.getDomain().empty() ? node.getOpType().str()
                                              : (node.getDomain() + "::" + node.getOpType()).str();
    std::string name = op;
    if (auto loc = dyn_cast<NameLoc>(node.getLoc()))
      name = loc.getName().str();
    InFlightDiagnostic diag =
        emitError(node.getLoc(), "node '" + name + "' (" + op + ", opset " +
                                     Twine(node.getVersion()) + "): " + problem.reason);
    if (problem.count > 1)
      diag << " (" << problem.count << " such nodes, this is the first)";
  }
  return failure(!problems.empty());
}

//===- Results ------------------------------------------------------------===//

LogicalResult Legalizer::chooseLoss() {
  if (options->inference)
    return success();
  Operation *ret = graph.getBody().front().getTerminator();
  auto isScalarFloat = [&](unsigned i) {
    LegalValue &value = valueOf(ret->getOperand(i));
    return !value.isSequence && isa<FloatType>(value.element) &&
           train::product(builder.getContext(), value.dims).isConstant(1);
  };
  SmallVector<unsigned> candidates;
  int named = -1;
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    StringRef name = graph.getOutputName(i);
    if (name == (options->loss.empty() ? "loss" : options->loss))
      named = i;
    if (isScalarFloat(i))
      candidates.push_back(i);
  }
  auto listed = [&](InFlightDiagnostic diag) -> LogicalResult {
    diag << (candidates.empty() ? "; no output is a float scalar, the outputs are"
                                : "; the float scalars are");
    for (unsigned i = 0; i < ret->getNumOperands(); ++i)
      if (candidates.empty() || llvm::is_contained(candidates, i))
        diag << " '" << graph.getOutputName(i) << "'";
    return diag;
  };
  if (named < 0 && !options->loss.empty())
    return listed(error("the graph has no output '" + options->loss + "' (--loss)"));
  if (named < 0 && candidates.size() != 1)
    return listed(error(candidates.empty()
                            ? "the graph has no loss; compute it in the exported "
                              "graph, or use --inference"
                            : "it is not clear which output is the loss; use --loss NAME"));
  lossIndex = named < 0 ? int(candidates[0]) : named;
  if (!isScalarFloat(lossIndex))
    return listed(error("the output '" + graph.getOutputName(lossIndex) +
                        "' is not a float scalar and cannot be the loss"));
  result.loss = graph.getOutputName(lossIndex).str();
  return success();
}

void Legalizer::chooseTrained(Value lossTensor) {
  llvm::DenseSet<Value> reaching;
  SmallVector<Value> work;
  if (lossTensor)
    work.push_back(lossTensor);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!reaching.insert(value).second)
      continue;
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(work, op->getOperands());
  }
  for (Parameter &parameter : parameters) {
    Value argument = function.getArgument(parameter.argument);
    auto type = cast<RankedTensorType>(parameter.op.getType());
    if (parameter.reason.empty() && rule.isDefault() && !reaching.contains(argument))
      parameter.reason = "does not reach the loss";
    ParameterChoice choice{parameter.op.getName().str(), type.getNumElements(), parameter.reason};
    if (!parameter.reason.empty()) {
      if (isa<FloatType>(type.getElementType()))
        result.excluded.push_back(std::move(choice));
      continue;
    }
    result.trained.push_back(std::move(choice));
    NamedAttrList attrs(cast<DictionaryAttr>(argumentAttrs[parameter.argument]));
    attrs.set(train::kTrainableAttr, builder.getUnitAttr());
    argumentAttrs[parameter.argument] = attrs.getDictionary(builder.getContext());
  }
}

void Legalizer::removeUnused() {
  Block &body = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (const Parameter &parameter : llvm::reverse(parameters))
    if (!parameter.reason.empty() && body.getArgument(parameter.argument).use_empty()) {
      body.eraseArgument(parameter.argument);
      argumentAttrs.erase(argumentAttrs.begin() + parameter.argument);
    }
}

LogicalResult Legalizer::finish() {
  Operation *ret = graph.getBody().front().getTerminator();
  SmallVector<Value> outputs;
  SmallVector<Attribute> outputAttrs;
  Value lossTensor;
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    LegalValue &value = valueOf(ret->getOperand(i));
    if (value.isSequence)
      return error("the output '" + graph.getOutputName(i) + "' is a sequence");
    Value tensor = tensorOf(value);
    if (int(i) == lossIndex) {
      tensor = TrainBuilder(builder, value.loc).reshape(tensor, {});
      lossTensor = tensor;
    }
    outputs.push_back(tensor);
    outputAttrs.push_back(role(int(i) == lossIndex ? "loss" : "output", graph.getOutputName(i)));
  }
  func::ReturnOp::create(builder, graph.getLoc(), outputs);
  chooseTrained(lossTensor);
  removeUnused();
  if (!options->inference && result.trained.empty())
    return error("nothing is trainable: no float initializer that reaches the loss is chosen; see "
                 "--trainable and --freeze");
  Block &body = function.getBody().front();
  function.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), ValueRange(outputs).getTypes()));
  function.setArgAttrsAttr(builder.getArrayAttr(argumentAttrs));
  function.setResAttrsAttr(builder.getArrayAttr(outputAttrs));
  builder.setInsertionPoint(function);
  for (auto &[name, info] : bounds.symbols)
    train::SymbolOp::create(builder, graph.getLoc(), name, builder.getI64IntegerAttr(info.min),
                            info.max ? builder.getI64IntegerAttr(*info.max) : IntegerAttr(),
                            builder.getI64IntegerAttr(1), builder.getStringAttr(info.input),
                            builder.getI64IntegerAttr(info.axis));
  if (failed(verify(function)))
    return failure();
  result.ops = body.getOperations().size() - 1;
  if (anyActiveDropout)
    result.inactiveDropouts = inactiveDropouts;
  return success();
}

bool Legalizer::learn() {
  bool any = false;
  for (auto &[name, info] : bounds.symbols) {
    if (!info.max)
      continue;
    auto [it, added] = learned.try_emplace(name.getValue(), *info.max);
    any |= added || *info.max < it->second;
    it->second = std::min(it->second, *info.max);
  }
  return any;
}

Legalizer::Outcome Legalizer::run() {
  if (std::string problem = rule.init(*options, graph.getMetadataProps()); !problem.empty()) {
    error(problem);
    return Outcome::Failed;
  }
  function =
      func::FuncOp::create(builder, graph.getLoc(), "forward", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  findLive();
  auto stop = [&](Outcome outcome) {
    function.erase();
    return outcome;
  };
  if (failed(addInitializers()) || failed(addInputs()))
    return stop(Outcome::Failed);
  learn(); // the bounds that the user gave
  for (auto node : graph.getOps<onnx::NodeOp>()) {
    ++result.nodes;
    if (isLive(node))
      legalizeNode(node);
  }
  if (learn())
    return stop(Outcome::RunAgain);
  for (const std::string &name : rule.unknownNames())
    emitWarning(graph.getLoc(),
                "the list of trainable initializers names '" + name + "', which does not exist");
  if (failed(reportProblems()) || failed(chooseLoss()) || failed(finish()))
    return stop(Outcome::Failed);
  graph.erase();
  return Outcome::Done;
}

} // namespace trainc::legalize
