// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The evidence: PyTorch's list of the model's parameters in the graph's metadata, the mark that an
// optimizer leaves on the nodes it rewrote, names that only exporters give, and one initializer in
// two roles that no layer shares. docs/exporting.md tells users about each.

#include "ExportHazards.h"
#include "Sizes/SizeHints.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace trainc::legalize {

/// "'a', 'b', 'c' and 4 more"
static std::string listed(ArrayRef<std::string> names) {
  constexpr size_t most = 3;
  std::string text;
  for (const std::string &name : names.take_front(most))
    text += (text.empty() ? "'" : ", '") + name + "'";
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// Nodes without a name go by their operator.
static StringRef nameOf(onnx::NodeOp node) {
  auto loc = dyn_cast<NameLoc>(node.getLoc());
  return loc ? loc.getName().getValue() : node.getOpType();
}

/// What an initializer of one axis is to a node that reads it, or "" for anything else.
static StringRef roleOf(OpOperand &use) {
  auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
  if (!node || !node.getDomain().empty())
    return {};
  StringRef op = node.getOpType();
  unsigned input = use.getOperandNumber();
  bool norm = op == "LayerNormalization" || op == "BatchNormalization" ||
              op == "InstanceNormalization" || op == "GroupNormalization" ||
              op == "RMSNormalization";
  if (norm)
    return input == 1 ? "scale" : input == 2 ? "bias of a normalization" : "";
  if (op == "Conv" || op == "ConvTranspose")
    return input == 2 ? "bias of a convolution" : "";
  // A layer may be exported as either, even in one graph.
  if ((op == "Gemm" && input == 2) || op == "Add")
    return "bias of a matmul";
  return {};
}

/// Warns where one vector plays two of these roles: layers share their parameters as wholes, so
/// only an optimizer that merges equal values makes such a thing.
static void checkMerged(onnx::GraphOp graph, const llvm::StringSet<> &trained) {
  std::vector<std::string> merged;
  std::string example;
  // Only vectors: biases and scales start with equal values, matrices hardly ever.
  for (auto op : graph.getOps<onnx::InitializerOp>()) {
    if (!trained.contains(op.getName()) || cast<RankedTensorType>(op.getType()).getRank() != 1)
      continue;
    StringRef role;
    OpOperand *first = nullptr;
    for (OpOperand &use : op.getResult().getUses()) {
      StringRef other = roleOf(use);
      if (other.empty() || other == role)
        continue;
      // The first role that differs is one too many.
      if (role.empty()) {
        role = other;
        first = &use;
        continue;
      }
      if (merged.empty())
        example = ("; '" + op.getName() + "' is the " + role + " in node '" +
                   nameOf(cast<onnx::NodeOp>(first->getOwner())) + "' and the " + other +
                   " in node '" + nameOf(cast<onnx::NodeOp>(use.getOwner())) + "'")
                      .str();
      merged.push_back(op.getName().str());
      break;
    }
  }
  if (!merged.empty())
    emitWarning(graph.getLoc())
        << "parameters of different layers are one initializer and will train as one: "
        << listed(merged) << example
        << ". An optimizer merged them since their values were equal; export with optimize=False";
}

/// A name that the exporter made up: onnx::MatMul_123, or a number.
/// TorchScript's exporter counts values.
static bool isAnonymous(StringRef name) {
  if (name.consume_front("onnx::"))
    name = name.substr(name.rfind('_') + 1);
  return !name.empty() && llvm::all_of(name, llvm::isDigit);
}

LogicalResult checkParameters(onnx::GraphOp graph, const TrainableRule &rule,
                              const LegalizeResult &result) {
  std::vector<std::string> unknown = rule.unknownNames();
  if (!unknown.empty())
    emitWarning(graph.getLoc())
        << "the list of trainable initializers names " << listed(unknown) << ", which "
        << (unknown.size() == 1 ? "does" : "do")
        << " not exist and will not be trained; the exporter renamed, folded or merged "
        << (unknown.size() == 1 ? "it" : "them") << ": export with optimize=False";
  // What is trained decides: other initializers may be named as they like.
  llvm::StringSet<> trained;
  std::vector<std::string> anonymous;
  for (const ParameterChoice &choice : result.trained) {
    trained.insert(choice.name);
    if (isAnonymous(choice.name))
      anonymous.push_back(choice.name);
  }
  if (!anonymous.empty())
    emitWarning(graph.getLoc())
        << anonymous.size()
        << " trained initializers have names that the exporter made up: " << listed(anonymous)
        << "; --freeze, --no-decay and exported weights know them only by these. Export with "
           "optimize=False, or in the older exporter with do_constant_folding=False";
  checkMerged(graph, trained);
  // A list from the user is an answer to what follows.
  if (rule.isChosen())
    return success();

  // Folded weights, such as the transpose of one, have the names of intermediate values. A list of
  // what is trained does not help: it is often made of the names that are left.
  std::vector<std::string> folded;
  llvm::StringSet<> left;
  for (const ParameterChoice &choice : result.excluded)
    left.insert(choice.name);
  for (auto op : graph.getOps<onnx::InitializerOp>())
    if (left.contains(op.getName()) && TrainableRule::isValueName(op.getName()) &&
        cast<RankedTensorType>(op.getType()).getRank() >= 2)
      folded.push_back(op.getName().str());
  // Evidence from two sides: a parameter is lost, and something was folded or rewritten.
  auto rewritten = graph->getAttrOfType<StringAttr>("onnx.rewritten");
  std::vector<std::string> lost = rule.lostParameters();
  if (!lost.empty() && (rewritten || !folded.empty())) {
    InFlightDiagnostic diag = emitError(graph.getLoc());
    diag << lost.size()
         << " of the model's parameters are no initializers of the graph: " << listed(lost)
         << ". An optimizer of the exporter merged them with others of equal values or folded them";
    if (!folded.empty())
      diag << " (into " << listed(folded) << ")";
    else
      diag << " (it rewrote node '" << rewritten.getValue() << "')";
    return diag << "; export with optimize=False, or say what to train with --trainable";
  }
  if (!folded.empty() && rule.isDefault())
    emitWarning(graph.getLoc())
        << folded.size() << " float initializers have names of intermediate values and are not "
        << "trained: " << listed(folded)
        << "; if they are weights that an optimizer folded, export with optimize=False or name "
           "them in --trainable";
  return success();
}

//===- Sizes --------------------------------------------------------------===//

/// Where `size` in the shape of one of the node's inputs comes from, as text.
static std::string originOf(NodeContext &c, DimAttr size) {
  auto hasSize = [&](Value value) {
    return !isa<NoneType>(value.getType()) && llvm::is_contained(c.state.valueOf(value).dims, size);
  };
  Value at;
  // A list of axes or a shape is of another type than the data, and its length is no such size.
  /// From the node back along inputs of that size, activations before weights.
  auto pick = [&](onnx::NodeOp node, Type element) -> Value {
    Value weight;
    for (Value input : node.getInputs()) {
      if (!hasSize(input) ||
          (element && node.getInputs().size() > 1 && c.state.valueOf(input).element != element))
        continue;
      if (!input.getDefiningOp<onnx::InitializerOp>())
        return input;
      weight = weight ? weight : input;
    }
    return weight;
  };
  // A graph has no cycles, so this ends.
  for (Value next = pick(c.op, Type()); next;) {
    at = next;
    auto node = at.getDefiningOp<onnx::NodeOp>();
    next = node ? pick(node, c.state.valueOf(at).element) : Value();
  }
  if (!at)
    return {};
  if (auto node = at.getDefiningOp<onnx::NodeOp>())
    return ("node '" + nameOf(node) + "' (" + node.getOpType() + ")").str();
  if (auto initializer = at.getDefiningOp<onnx::InitializerOp>())
    return ("initializer '" + initializer.getName() + "'").str();
  auto argument = dyn_cast<BlockArgument>(at);
  auto graph = argument ? dyn_cast<onnx::GraphOp>(argument.getOwner()->getParentOp()) : nullptr;
  return graph ? ("input '" + graph.getInputName(argument.getArgNumber()) + "'").str() : "";
}

/// One of them may be an axis that can be called what the other is made of (InputSizes.h).
static std::string nameInTermsOf(DimAttr a, DimAttr b) {
  // `a` is what can be called otherwise.
  if (b.getSymbol())
    std::swap(a, b);
  std::string made = b.str();
  bool isPlain = a.getSymbol() && !b.getSymbol() && made.find('(') == std::string::npos;
  b.forEachSymbol([&](StringRef name) { isPlain &= a.getSymbol() != name; });
  return isPlain ? "; call the axis '" + a.str() + "' '" + made + "', or fix both with --dim" : "";
}

/// What to do about two sizes that differ, by what is known of both; "; " comes first.
static std::string unequalSizesHint(NodeContext &c, DimAttr a, DimAttr b) {
  std::optional<int64_t> fixed = a.getConstant() ? a.getConstant() : b.getConstant();
  DimAttr other = a.getConstant() ? b : a;
  if (!fixed) {
    // max(0, a) of a slice is a from some bound on.
    DimAttr zero = c.dim(0);
    if (train::maxDim(a, zero) == b || train::maxDim(b, zero) == a)
      return boundHint({train::maxDim(a, zero) == b ? a : b});
    if (std::string name = nameInTermsOf(a, b); !name.empty())
      return name;
    return "; give the inputs' axes one name, or fix both with --dim";
  }
  // A user's own --dim is the likeliest cause.
  if (other.getConstant()) {
    for (const DimBound &bound : c.state.options->dims)
      if (bound.min == bound.max &&
          llvm::is_contained({a.getConstant(), b.getConstant()}, bound.min))
        return "; --dim " + bound.name + "=" + std::to_string(bound.min) +
               " does not fit the export: another size is fixed, or the most that a table has";
    return "; the export does not fit itself";
  }
  std::optional<StringRef> symbol = other.getSymbol();
  // A view of other sizes than the example's has part of one of them: the number may be a weight's.
  if (std::string view = symbol ? "" : originOf(c, other); !view.empty())
    return "; '" + other.str() + "' comes from " + view +
           ": export with dynamic sizes there, or compile for one size with --dim NAME=N";
  std::string text = "; the " + std::to_string(*fixed) + " ";
  std::string origin = originOf(c, a.getConstant() ? a : b);
  text += origin.empty() ? "is fixed in the export" : "was fixed by the export in " + origin;
  text += ": export with that size dynamic, or compile for one size with --dim ";
  return text + (symbol ? symbol->str() + "=" + std::to_string(*fixed) : std::string("NAME=N"));
}

void demandEqual(NodeContext &c, DimAttr a, DimAttr b) {
  c.state.bounds.demandEqual(a, b,
                             ("node '" + nameOf(c.op) + "' (" + c.op.getOpType() + ") takes '" +
                              a.str() + "' and '" + b.str() + "' for one size")
                                 .str());
}

LogicalResult failUnequal(NodeContext &c, DimAttr a, DimAttr b, const Twine &message) {
  demandEqual(c, a, b);
  return c.fail(message + unequalSizesHint(c, a, b));
}

} // namespace trainc::legalize
