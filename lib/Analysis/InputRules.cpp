// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows index operands back to inputs, through ops that only move elements.

#include "trainc/Analysis/InputRules.h"
#include "trainc/Analysis/ElementOrigin.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// The elements of an argument that a value has.
struct Part {
  BlockArgument argument;
  SmallVector<DimAttr> begin, end;
  bool isWhole() const {
    return llvm::all_of(begin, [](DimAttr dim) { return dim.isConstant(0); }) &&
           ArrayRef(end) == ArrayRef(getDims(argument));
  }
};
} // namespace

/// Of a value that moves elements of an argument: those that are left. Cuts come first, on the
/// argument's own axes; none where another one follows, or one with steps. Such rules would be
/// about values that nobody reads: the kernel checks the others.
static std::optional<Part> partOf(Value value) {
  Part part{findOrigin(value), {}, {}};
  if (!part.argument)
    return std::nullopt;
  SmallVector<OpResult> path;
  for (Value at = value; at != part.argument; at = path.back().getOwner()->getOperand(0))
    path.push_back(cast<OpResult>(at));
  part.end = getDims(part.argument);
  part.begin.assign(part.end.size(), DimAttr::constant(value.getContext(), 0));
  // Where the value's first element would be.
  SmallVector<DimAttr> first = part.begin;
  bool hasOwnAxes = true;
  for (OpResult result : llvm::reverse(path)) {
    Operation *op = result.getOwner();
    auto cut = dyn_cast<SubrangeOpInterface>(op);
    auto access = dyn_cast<ElementAccessOpInterface>(op);
    if (!cut) {
      // Those that do not read all elements, as a window with steps.
      if (access && !access.onlyMoves() && !isa<StridedViewOpInterface>(op))
        return std::nullopt;
      hasOwnAxes &= isa<PointwiseOpInterface, IndexOperandOpInterface>(op);
      continue;
    }
    Subrange range = cut.getSubrange(0, result.getResultNumber());
    if (!hasOwnAxes || llvm::any_of(range.steps, [](int64_t n) { return n != 1; }))
      return std::nullopt;
    // What padding adds lies outside of the argument, or of what was left of it.
    for (auto [axis, size] : llvm::enumerate(getDims(result))) {
      first[axis] = first[axis] + range.starts[axis];
      part.begin[axis] = maxDim(part.begin[axis], first[axis]);
      part.end[axis] = minDim(part.end[axis], first[axis] + size);
    }
  }
  return part;
}

namespace {
class RuleCollector {
public:
  explicit RuleCollector(func::FuncOp function) : function(function) {}

  std::vector<InputRule> run() {
    function.walk([&](Operation *op) {
      if (auto indexed = dyn_cast<IndexOperandOpInterface>(op))
        for (OpOperand &operand : op->getOpOperands())
          if (std::optional<IndexRule> rule = indexed.getIndexRule(operand.getOperandNumber()))
            add(operand, *rule);
      // Negative indices mean nowhere where no two may be the same.
      if (auto scatter = dyn_cast<ScatterOpInterface>(op); scatter && !scatter.hasUniqueIndices()) {
        DimAttr extent = getDim(op->getResult(0), scatter.getScatterAxis());
        DimAttr zero = DimAttr::constant(function.getContext(), 0);
        add(scatter.getScatterIndices(), {zero - extent, extent, std::nullopt});
      }
    });
    return std::move(rules);
  }

private:
  void add(OpOperand &operand, IndexRule rule) {
    // An index that is computed (of a position, say) has no input whose values could be checked
    // beforehand: the kernel checks it.
    std::optional<Part> part = partOf(operand.get());
    if (!part)
      return;
    // ONNX counts negative indices from the end. Rows of a parameter have no end to count from:
    // there a negative id is a mark for padding that the model was not made for.
    BlockArgument table = findConverted(operand.getOwner()->getOperand(0));
    if (table && textOf(table, kRoleAttr) == "parameter")
      rule.min = DimAttr::constant(function.getContext(), 0);
    // Other arguments (state, parameters) are the package's own, not the caller's.
    if (textOf(part->argument, kRoleAttr) != "input")
      return;
    InputRule found{
        textOf(part->argument, kNameAttr).str(), rule, operand.getOwner()->getLoc(), {}, {}};
    if (!part->isWhole()) {
      found.begin = std::move(part->begin);
      found.end = std::move(part->end);
    }
    rules.push_back(std::move(found));
  }

  StringRef textOf(BlockArgument argument, StringRef name) {
    auto text = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), name);
    return text ? text.getValue() : "";
  }

  func::FuncOp function;
  std::vector<InputRule> rules;
};
} // namespace

std::vector<InputRule> trainc::collectInputRules(func::FuncOp function) {
  return RuleCollector(function).run();
}
