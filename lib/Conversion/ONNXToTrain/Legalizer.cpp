// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From `onnx.graph` to `func.func @forward`. Only nodes that reach an output are looked at; a
// value's tensor is emitted when an op first needs it, so shape arithmetic leaves nothing behind.

#include "Legalizer.h"
#include "trainc/Conversion/ONNXToTrain/OwnHandlers.h"

#include "Attributes/Attributes.h"
#include "ExportHazards.h"
#include "Positions.h"
#include "lib/Conversion/ONNXToTrain/Indexing/Selection.h"
#include "lib/Conversion/ONNXToTrain/Sizes/InputSizes.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "trainc/Support/DeadOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using trainc::train::getTensorType;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

Legalizer::Legalizer(onnx::GraphOp graph, const LegalizeOptions &options, LegalizeResult &result,
                     LearnedSizes &learned)
    : graph(graph), result(result), learned(learned), builder(graph) {
  this->options = &options;
  registerAll(table);
  HandlerTable added;
  registerPlugins(added, options.plugins.get());
  for (const auto &entry : added.entries) {
    table.entries[entry.getKey()] = entry.getValue();
    ofPlugins.insert(entry.getKey());
  }
}

InFlightDiagnostic Legalizer::error(const Twine &message) {
  return emitError(graph.getLoc(), message);
}

//===- Values -------------------------------------------------------------===//

LegalValue &Legalizer::newValue(Location loc) { return storage.emplace_back(loc); }

LegalValue &Legalizer::valueOf(Value onnxValue) {
  // A reference into the map would move; entries point to storage that does not.
  LegalValue *&entry = values[onnxValue];
  if (!entry)
    entry = &newValue(onnxValue.getLoc());
  return *entry;
}

Value Legalizer::tensorOf(LegalValue &value) {
  if (!value.tensor) {
    // At the place in the file where the value was made, whoever asks first.
    TrainBuilder tb(builder, value.loc);
    Value tensor =
        value.constant ? materialize(tb, value.constant) : materialize(tb, *value.content);
    // What the body of a loop makes is not there outside of it.
    if (function && builder.getInsertionBlock() != &function.getBody().front())
      return tensor;
    value.tensor = tensor;
  }
  return value.tensor;
}

const Content *Legalizer::contentOf(LegalValue &value) {
  if (!value.content && value.constant)
    value.content = legalize::contentOf(value.constant);
  return value.content ? &*value.content : nullptr;
}

Value Legalizer::addArgument(Type type, DictionaryAttr attrs, Location loc) {
  assert(function && "arguments belong to a function");
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
  assert(index < 4 && "seed, step, micro_batch, rank");
  return rng[index];
}

Value *Legalizer::running(const LegalValue &value) {
  for (Parameter &parameter : parameters)
    if (parameter.isUpdated && value.tensor == function.getArgument(parameter.argument)) {
      // Read before it is first written: its value of before the step.
      if (!parameter.updated)
        parameter.updated = value.tensor;
      return &parameter.updated;
    }
  return nullptr;
}

onnx::NodeOp Legalizer::makeNode(StringRef type, ArrayRef<LegalValue *> inputs,
                                 DictionaryAttr attributes, Location loc) {
  OpBuilder b(builder.getContext()); // inserts nowhere
  if (!attributes)
    attributes = b.getDictionaryAttr({});
  auto opset = graph.getOpsetImports().getAs<IntegerAttr>("ai.onnx");
  IntegerAttr version = b.getI64IntegerAttr(opset ? opset.getInt() : 1);
  auto make = [&](StringRef name, ValueRange operands, TypeRange results) {
    auto node = onnx::NodeOp::create(b, loc, results, b.getStringAttr(name), b.getStringAttr(""),
                                     version, attributes, ArrayAttr(), operands, 0u);
    made.emplace_back(node);
    return node;
  };
  // The inputs are the results of another such node.
  SmallVector<Type> types;
  for (LegalValue *input : inputs)
    types.push_back(input ? Type(onnx::AnyType::get(b.getContext())) : Type(b.getNoneType()));
  assert(types.size() == inputs.size() && "one result an input");
  onnx::NodeOp source = make("", {}, types);
  for (auto [input, output] : llvm::zip_equal(inputs, source.getOutputs()))
    if (input)
      values[output] = input;
  return make(type, source.getOutputs(), onnx::AnyType::get(b.getContext()));
}

LogicalResult Legalizer::legalizeWith(StringRef type, NodeContext &context) {
  auto it = table.entries.find(type);
  assert(it != table.entries.end() && "no such operator");
  return it->second.handler(context);
}

//===- Arguments ----------------------------------------------------------===//

void Legalizer::findLive() {
  // Backwards from the results; bodies of live nodes read values from outside.
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
  // Blobs have no file: their number takes the place of the offset.
  return train::WeightAttr::get(
      builder.getContext(), builder.getStringAttr(blob ? StringRef() : weight.getFile()),
      blob ? weight.getBlob() : weight.getOffset(), weight.getLength(), weight.getAbsent());
}

std::string Legalizer::nameOf(onnx::NodeOp node) {
  return node.getDomain().empty() ? node.getOpType().str()
                                  : (node.getDomain() + "::" + node.getOpType()).str();
}

const HandlerTable::Entry *Legalizer::entryOf(onnx::NodeOp node) {
  auto it = table.entries.find(nameOf(node));
  return it == table.entries.end() ? nullptr : &it->second;
}

/// Finds the outputs that are gradients or new values of initializers, by importer or by name.
LogicalResult Legalizer::findPorts() {
  llvm::StringSet<> initializers;
  for (auto op : graph.getOps<onnx::InitializerOp>())
    initializers.insert(op.getName());
  for (unsigned i = 0; i < graph.getNumResults(); ++i) {
    StringRef output = graph.getOutputName(i), name = output;
    bool isUpdate = false;
    if (auto updates = graph.getResultAttrOfType<StringAttr>(i, onnx::kUpdatesAttr)) {
      name = updates.getValue();
      isUpdate = true;
      result.ownUpdates = !options->inference;
    } else if (auto of = graph.getResultAttrOfType<StringAttr>(i, onnx::kGradientOfAttr)) {
      name = of.getValue();
    } else if (name.consume_front("update/")) {
      isUpdate = true;
    } else if (!name.consume_front("grad/")) {
      continue;
    }
    // An inference drops such outputs anyway.
    if (!options->inference && !initializers.contains(name))
      return error("the output '" + output + "' is named as the " +
                   (isUpdate ? "new value" : "gradient") + " of an initializer '" + name +
                   "', which the graph does not have");
    (isUpdate ? updateOutputs : gradientOutputs)[i] = name;
    if (!isUpdate)
      rule.addGradient(name);
  }
  // Predictions need neither: nothing is trained, so none is taken.
  result.ownGradients = !gradientOutputs.empty() && !options->inference;
  return success();
}

/// Whether a node or an output changes this initializer in a training step.
bool Legalizer::isUpdated(onnx::InitializerOp op) {
  if (options->inference)
    return false;
  for (auto &[output, name] : updateOutputs)
    if (name == op.getName())
      return true;
  return llvm::any_of(op.getResult().getUses(), [&](OpOperand &use) {
    auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
    const HandlerTable::Entry *entry = node ? entryOf(node) : nullptr;
    return entry && llvm::is_contained(entry->updates, int64_t(use.getOperandNumber()));
  });
}

/// Whether nodes read this initializer only to be told what to do.
bool Legalizer::isSetting(onnx::InitializerOp op) {
  return !op->use_empty() && llvm::all_of(op.getResult().getUses(), [&](OpOperand &use) {
    auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
    const HandlerTable::Entry *entry = node ? entryOf(node) : nullptr;
    return entry && llvm::is_contained(entry->settings, int64_t(use.getOperandNumber()));
  });
}

LogicalResult Legalizer::addInitializers() {
  // In the file's order, which becomes that of the arguments.
  for (auto op : graph.getOps<onnx::InitializerOp>()) {
    Type element = cast<RankedTensorType>(op.getType()).getElementType();
    bool isFloat = isa<FloatType>(element);
    std::string reason = isFloat ? rule.reasonAgainst(op.getName()) : "not a float";
    bool updated = isUpdated(op);
    // Why it is not trained; empty if it may be.
    if (reason.empty() && rule.isDefault() && isSetting(op))
      reason = "a setting of an operator";
    else if (updated && reason.empty())
      reason = result.ownUpdates ? "updated by the model's own algorithm" : "running statistics";
    else if (result.ownUpdates && reason.empty())
      reason = "left as it is by the model's own algorithm";
    // What the list names stays a parameter even if nothing uses it: its gradient is zero.
    bool wanted = reason.empty() && !rule.isDefault();
    if (!isLive(op) && !wanted)
      continue;
    LegalValue &value = valueOf(op.getResult());
    auto dense = dyn_cast_or_null<DenseElementsAttr>(op.getValueAttr());
    // Unsigned ones are stored as they are and widened where they are read.
    Type stored = element;
    if (unsigned bits = unsignedBitsOf(element); bits && carrierOf(element)) {
      value.unsignedBits = bits;
      stored = builder.getIntegerType(bits);
      element = carrierOf(element);
      if (dense)
        dense = toCarrier(dense);
    }
    value.element = element;
    for (int64_t size : cast<RankedTensorType>(op.getType()).getShape())
      value.dims.push_back(DimAttr::constant(builder.getContext(), size));
    if (!isComputed(element))
      return error("initializer '" + op.getName() + "': its element type ")
             << element << " is not supported";
    // Constants that nobody trains become part of the graph if they are small enough to be in the
    // file's IR, or a formula.
    auto band = op->getAttrOfType<DictionaryAttr>("onnx.band");
    const int64_t elements = cast<RankedTensorType>(op.getType()).getNumElements();
    if ((dense || (band && stored == element)) && !reason.empty() && !updated &&
        (!isFloat || isSetting(op) || !rule.isParameterOfModel(op.getName(), elements))) {
      value.constant = dense;
      if (!dense) {
        TrainBuilder tb(builder, op.getLoc());
        value.tensor = buildBand(tb, band, value.dims);
      }
      if (isFloat)
        result.excluded.push_back({op.getName().str(), elements, reason});
      continue;
    }
    NamedAttrList attrs(role("parameter", op.getName()));
    attrs.set(train::kWeightAttr, weightOf(op.getWeight()));
    parameters.push_back({op, unsigned(argumentAttrs.size()), reason, updated});
    value.tensor = addArgument(getTensorType(value.dims, stored),
                               attrs.getDictionary(builder.getContext()), op.getLoc());
    if (stored != element) {
      TrainBuilder tb(builder, op.getLoc());
      // Bytes come sign-extended.
      Value wide = tb.cast(value.tensor, element);
      value.tensor =
          tb.logicalAnd(wide, tb.scalarLike(wide, double((uint64_t(1) << value.unsignedBits) - 1)));
    }
  }
  return success();
}

LogicalResult Legalizer::addInputs() {
  SmallVector<SmallVector<DimAttr>> sizes;
  if (std::string problem = declareInputSizes(graph, options->dims, learned, bounds, sizes);
      !problem.empty())
    return error(problem);
  for (auto [i, argument] : llvm::enumerate(graph.getBody().getArguments())) {
    StringRef name = graph.getInputName(i);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return error(
          "input '" + name +
          "' is not a tensor of numbers of known rank; export the model with the shapes of its "
          "inputs");
    // The runtime widens what the data hold.
    Type element = carrierOf(type.getElementType());
    if (!element || !isComputed(element))
      return error("input '" + name + "': its element type ")
             << type.getElementType() << " is not supported"
             << (element ? "" : "; cast it to int64 before exporting");
    LegalValue &value = valueOf(argument);
    value.element = element;
    value.unsignedBits = unsignedBitsOf(type.getElementType());
    value.dims = sizes[i];
    if (!faultOf(value.dims).empty())
      return error("input '" + name + "' has more elements than memory can hold");
    value.tensor = addArgument(getTensorType(value.dims, element), role("input", name),
                               NameLoc::get(builder.getStringAttr(name)));
  }
  return success();
}

//===- Nodes --------------------------------------------------------------===//

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
    } else if (node.getSubgraphs().empty() && // a body's nodes say it for themselves
               valueOf(input).isSequence != (entry.sequence && i == 0)) {
      return "its input " + std::to_string(i) +
             (valueOf(input).isSequence ? " is a sequence" : " is not a sequence");
    }
  }
  // What follows needs an element type to look at.
  if (inputs == 0 || isa<NoneType>(node.getInputs()[0].getType()) ||
      valueOf(node.getInputs()[0]).isSequence || !entry.kinds)
    return {};
  Type element = valueOf(node.getInputs()[0]).element;
  auto [kind, called] = isa<FloatType>(element) ? std::pair(HandlerTable::kReals, "floats")
                        : element.isInteger(1)  ? std::pair(HandlerTable::kBooleans, "booleans")
                                                : std::pair(HandlerTable::kIntegers, "integers");
  if (!(entry.kinds & kind))
    return "it is not supported on " + std::string(called) + ", which its input 0 has";
  return {};
}

/// Of all symbols, in their order.
static SmallVector<Interval> endsOf(const Bounds &bounds) {
  SmallVector<Interval> ends;
  for (auto &[name, info] : bounds.symbols)
    ends.push_back({info.min, info.max});
  return ends;
}

void Legalizer::legalizeNode(onnx::NodeOp node) {
  bool blocked =
      llvm::any_of(node.getInputs(), [&](Value input) { return poisoned.contains(input); });
  const HandlerTable::Entry *entry = entryOf(node);
  // What fails makes everything behind it unknown: that is not reported again.
  auto poison = [&] {
    for (Value output : node.getOutputs())
      poisoned.insert(output);
  };
  if (!entry) {
    addProblem(node, "the operator is not supported; --explain-unsupported says what can take its "
                     "place");
    return poison();
  }
  if (int64_t(node.getVersion()) < entry->since) {
    addProblem(node, "the operator of this opset is not supported, only from opset " +
                         Twine(entry->since) + " on");
    return poison();
  }
  std::string name = nameOf(node);
  if (!ofPlugins.contains(name)) {
    std::string problem = attributeProblem(node, name);
    if (problem.empty())
      problem = inputCountProblem(node, name);
    if (!problem.empty()) {
      addProblem(node, problem);
      return poison();
    }
  }
  if (blocked || !mayGrow(node))
    return poison();
  if (std::string problem = checkInputs(node, *entry); !problem.empty()) {
    addProblem(node, problem);
    return poison();
  }
  NodeContext context(node, *this, builder);
  Block &body = function.getBody().front();
  // Growth and sizes of everything that is new are looked at below.
  Operation *before = body.empty() ? nullptr : &body.back();
  const SmallVector<Interval> earlier = endsOf(bounds);
  bool handled = succeeded(entry->handler(context));
  if (!context.wrongAttribute.empty()) {
    addProblem(node, context.wrongAttribute);
    return poison();
  }
  if (!handled) {
    if (!context.subgraphFailed) // its nodes have said why
      addProblem(node, context.reason.empty() ? Twine("it is malformed") : Twine(context.reason));
    return poison();
  }
  tellNewBounds(earlier, node);
  // Unsigned results are those of the input that says so, if the type is the same.
  if (int64_t source = entry->typedAs; source >= 0 && source < context.numInputs())
    if (unsigned bits = context.has(source) ? context.in(source).unsignedBits : 0)
      for (Value output : node.getOutputs())
        if (LegalValue &result = valueOf(output);
            result.isSequence || result.element == context.element(source))
          context.wrap(result, bits);
  StringRef fault;
  for (Value output : node.getOutputs())
    if (fault.empty())
      fault = faultOf(valueOf(output).dims);
  Operation *first = before ? before->getNextNode() : body.empty() ? nullptr : &body.front();
  for (Operation *op = first; op && fault.empty();
       op = op->getNextNode(), growth += node.getSubgraphs().empty())
    for (Type type : op->getResultTypes())
      fault = fault.empty() ? faultOf(train::getDims(type)) : fault;
  if (!fault.empty()) {
    addProblem(node, fault);
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

/// Data of other sizes are refused when they come, and nothing then knows of the node.
void Legalizer::tellNewBounds(ArrayRef<Interval> earlier, onnx::NodeOp node) {
  auto tell = [&](StringRef name, StringRef end, int64_t value) {
    remark::passed(node.getLoc(),
                   remark::RemarkOpts::name("Bound").category("legalize-onnx").function("forward"))
        << remark::add("'{0}' has to be {1} {2} for it", name, end, value);
  };
  // What is declared since has no earlier ends; it is behind the others.
  for (auto [before, symbol, now] : llvm::zip_first(earlier, bounds.symbols, endsOf(bounds))) {
    if (now.low != before.low)
      tell(symbol.first, "at least", *now.low);
    if (now.high != before.high)
      tell(symbol.first, "at most", *now.high);
  }
}

bool Legalizer::legalizeSubgraph(Region &region, ArrayRef<LegalValue *> arguments,
                                 SmallVectorImpl<LegalValue *> &results) {
  assert(!region.empty() && "bodies have a block");
  Block &block = region.front();
  if (block.getNumArguments() != arguments.size())
    return false;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  for (Operation &op : block.without_terminator()) {
    // A body that is walked again makes new values.
    for (Value result : op.getResults()) {
      values.erase(result);
      poisoned.erase(result);
    }
    if (auto initializer = dyn_cast<onnx::InitializerOp>(op)) {
      LegalValue &value = valueOf(initializer.getResult());
      auto type = cast<RankedTensorType>(initializer.getType());
      value.constant = toCarrier(cast<DenseElementsAttr>(*initializer.getValue()));
      value.element = value.constant.getElementType();
      value.unsignedBits = unsignedBitsOf(type.getElementType());
      for (int64_t size : type.getShape())
        value.dims.push_back(DimAttr::constant(builder.getContext(), size));
    } else if (auto node = dyn_cast<onnx::NodeOp>(op)) {
      legalizeNode(node);
    }
  }
  for (Value output : block.getTerminator()->getOperands()) {
    if (poisoned.contains(output))
      return false;
    results.push_back(&valueOf(output));
  }
  return true;
}

//===- Results ------------------------------------------------------------===//

LogicalResult Legalizer::chooseLoss() {
  if (options->inference)
    return success();
  Operation *ret = graph.getBody().front().getTerminator();
  // Gradients and new values are no loss.
  auto isScalarFloat = [&](unsigned i) {
    LegalValue &value = valueOf(ret->getOperand(i));
    if (gradientOutputs.contains(i) || updateOutputs.contains(i))
      return false;
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
  // Named, or the only one.
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
  // What the loss depends on.
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
    assert(parameter.argument < argumentAttrs.size() && "each argument has attributes");
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

/// A graph with gradients has them of all that is trained, each like its parameter.
LogicalResult Legalizer::checkGradients(const llvm::StringMap<Type> &trained) {
  if (!result.ownGradients)
    return success();
  Operation *ret = graph.getBody().front().getTerminator();
  llvm::StringSet<> found;
  for (auto &[output, name] : gradientOutputs) {
    found.insert(name);
    LegalValue &gradient = valueOf(ret->getOperand(output));
    auto wanted = trained.find(name);
    if (wanted != trained.end() &&
        (gradient.isSequence || tensorOf(gradient).getType() != wanted->second))
      return error("the output '" + graph.getOutputName(output) +
                   "' is not of the type and shape of the initializer '" + name +
                   "', whose gradient it is" +
                   (graph.getResultAttr(output, onnx::kGradientOfAttr)
                        ? "; ONNX Runtime leaves out the sum over what Where has repeated: give "
                          "trainc the forward model"
                        : ""));
  }
  // Weights that are trained without a gradient would stay as they are.
  SmallVector<StringRef> missing;
  for (const ParameterChoice &choice : result.trained)
    if (!found.contains(choice.name))
      missing.push_back(choice.name);
  if (missing.empty())
    return success();
  InFlightDiagnostic diag = error("the graph has outputs with gradients, but none for '");
  diag << missing[0] << "' (expected an output 'grad/" << missing[0] << "')";
  if (missing.size() > 1)
    diag << " and " << missing.size() - 1 << " more";
  return diag << "; export its gradient too, or leave it alone with --freeze";
}

/// The values of initializers after the step, where the graph computes them.
LogicalResult Legalizer::takeUpdates() {
  Operation *ret = graph.getBody().front().getTerminator();
  for (auto &[output, name] : updateOutputs) {
    if (options->inference)
      break;
    LegalValue &value = valueOf(ret->getOperand(output));
    for (Parameter &parameter : parameters) {
      if (parameter.op.getName() != name)
        continue;
      if (value.isSequence ||
          tensorOf(value).getType() != function.getArgument(parameter.argument).getType())
        return error("the output '" + graph.getOutputName(output) +
                     "' is not of the type and shape of the initializer '" + name +
                     "', whose new value it is");
      parameter.updated = tensorOf(value);
    }
  }
  return success();
}

void Legalizer::removeUnused() {
  Block &body = function.getBody().front();
  eraseDeadOps(body);
  // From the last one on, so that numbers before it stay right.
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
  if (lossIndex >= 0) {
    LegalValue &value = valueOf(ret->getOperand(lossIndex));
    lossTensor = TrainBuilder(builder, value.loc).reshape(tensorOf(value), {});
  }
  chooseTrained(lossTensor);
  llvm::StringMap<Type> trained;
  for (Parameter &parameter : parameters)
    if (parameter.reason.empty())
      trained[parameter.op.getName()] = function.getArgument(parameter.argument).getType();
  if (failed(checkGradients(trained)) || failed(takeUpdates()))
    return failure();
  // Updates come behind all other results.
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    LegalValue &value = valueOf(ret->getOperand(i));
    if (value.isSequence)
      return error("the output '" + graph.getOutputName(i) +
                   "' is a sequence; export its tensors as outputs, or concatenate them");
    if (updateOutputs.contains(i))
      continue;
    StringRef name = graph.getOutputName(i), kind = int(i) == lossIndex ? "loss" : "output";
    if (auto gradient = gradientOutputs.find(i); gradient != gradientOutputs.end()) {
      name = gradient->second;
      kind = "gradient";
      if (!trained.contains(name))
        continue;
    }
    outputs.push_back(int(i) == lossIndex ? lossTensor : tensorOf(value));
    outputAttrs.push_back(role(kind, name));
  }
  for (Parameter &parameter : parameters) {
    if (!parameter.updated)
      continue;
    outputs.push_back(parameter.updated);
    NamedAttrList attrs(role("update", parameter.op.getName()));
    attrs.set(train::kUpdatesAttr, builder.getStringAttr("parameter"));
    outputAttrs.push_back(attrs.getDictionary(builder.getContext()));
  }
  func::ReturnOp::create(builder, graph.getLoc(), outputs);
  dropDrawnMasks();
  for (DimAttr size : eraseUnusedSelections(function, selections, [&] { removeUnused(); }))
    bounds.symbols.erase(builder.getStringAttr(*size.getSymbol()));
  for (const Selection &selection : selections) {
    auto symbol = builder.getStringAttr(*selection.size.getSymbol());
    if (bounds.symbols.find(symbol)->second.max)
      return error("the number of rows that a mask selects is bounded by a table, which only the "
                   "data can say; multiply by the mask instead of selecting with it");
    bounds.symbols.erase(symbol);
  }
  if (failed(resolveSelections(function, selections)))
    return failure();
  if (!options->inference && result.trained.empty() && !result.ownUpdates)
    return error("nothing is trainable: no float initializer that reaches the loss is chosen; see "
                 "--trainable and --freeze");
  Block &body = function.getBody().front();
  function.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), ValueRange(outputs).getTypes()));
  function.setArgAttrsAttr(builder.getArrayAttr(argumentAttrs));
  function.setResAttrsAttr(builder.getArrayAttr(outputAttrs));
  builder.setInsertionPoint(function);
  IntegerAttr one = builder.getI64IntegerAttr(1);
  for (auto &[name, info] : bounds.symbols)
    train::SymbolOp::create(
        builder, graph.getLoc(), name, builder.getI64IntegerAttr(info.min),
        info.max ? builder.getI64IntegerAttr(*info.max) : IntegerAttr(), one,
        builder.getStringAttr(info.input), builder.getI64IntegerAttr(info.axis), IntegerAttr(),
        train::CountKindAttr::get(builder.getContext(), train::CountKind::elements));
  if (failed(verify(function)))
    return failure();
  result.ops = body.getOperations().size() - 1;
  if (!options->inference)
    result.inactiveDropouts = inactiveDropouts;
  return success();
}

/// Data of other sizes are refused, which nobody would expect of a plain name.
void Legalizer::tellForms() {
  for (auto &[axis, form] : learned.forms) {
    std::string size = std::to_string(form.factor) + "*n";
    if (form.offset)
      size += " + " + std::to_string(form.offset);
    warnings.emplace_back(graph.getLoc(), "'" + axis + "' has to be " + size +
                                              ", data of other sizes are refused: " + form.reason);
  }
}

Legalizer::Outcome Legalizer::run() {
  if (std::string problem = rule.init(*options, graph.getMetadataProps()); !problem.empty()) {
    error(problem);
    return Outcome::Failed;
  }
  if (failed(findPorts()))
    return Outcome::Failed;
  function =
      func::FuncOp::create(builder, graph.getLoc(), "forward", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  findLive();
  graph.walk([&](onnx::NodeOp) { ++fileNodes; });
  // The function is the run's own until it is done.
  auto stop = [&](Outcome outcome) {
    function.erase();
    return outcome;
  };
  if (failed(addInitializers()) || failed(addInputs()))
    return stop(Outcome::Failed);
  // The bounds that the user gave.
  learned.learn(bounds, /*lacking=*/false);
  for (auto node : graph.getOps<onnx::NodeOp>()) {
    ++result.nodes;
    if (isLive(node))
      legalizeNode(node);
  }
  if (learned.learn(bounds, !problems.empty()))
    return stop(Outcome::RunAgain);
  if (failed(reportProblems()) || failed(chooseLoss()))
    return stop(Outcome::Failed);
  LogicalResult finished = finish();
  // Also where nothing is left to train: an exporter may be why.
  if ((!options->inference && failed(checkParameters(graph, rule, result))) || failed(finished))
    return stop(Outcome::Failed);
  tellForms();
  for (auto &[loc, text] : warnings)
    emitWarning(loc, text);
  graph.erase();
  return Outcome::Done;
}

} // namespace trainc::legalize
