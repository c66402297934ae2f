// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalised numbers of groups of channels are of another shape than the scales of channels. Where
// the latter take the groups' shape, sums, result and activation are one kernel each way, and the
// backward makes the normalised numbers again of what they were made of; else they are stored.

#include "lib/Transforms/RaiseIdioms/GroupedAxes.h"

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/IRMapping.h"
#include "trainc/Transforms/Support/HoistReshape.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
using Dims = SmallVector<DimAttr>;

/// The axes of `split` that each axis of `merged` is made of; none where it is no merge of
/// neighbours.
std::optional<SmallVector<SmallVector<int64_t>>> partsOf(ArrayRef<DimAttr> merged,
                                                         ArrayRef<DimAttr> split) {
  SmallVector<SmallVector<int64_t>> parts;
  int64_t next = 0, rank = split.size();
  for (DimAttr dim : merged) {
    SmallVector<int64_t> &own = parts.emplace_back();
    DimAttr run = DimAttr::constant(dim.getContext(), 1);
    while ((own.empty() || run != dim) && next < rank) {
      run = run * split[next];
      own.push_back(next++);
    }
    if (run != dim)
      return std::nullopt;
  }
  return next == rank ? std::optional(parts) : std::nullopt;
}

/// The axes of the result that those of a repeated operand are; none for other ops.
std::optional<SmallVector<int64_t>> repeatedAxes(Operation *op) {
  auto access = dyn_cast_or_null<ElementAccessOpInterface>(op);
  auto mapped = dyn_cast_or_null<AxisMapOpInterface>(op);
  if (!access || !mapped || !access.onlyMoves() || op->getNumOperands() != 1 ||
      op->getNumResults() != 1)
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  Dims from = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
  SmallVector<int64_t> axes;
  for (auto [axis, loop] : llvm::enumerate(map.operands[0])) {
    const auto *at = llvm::find(map.results[0], loop);
    if (loop < 0 || map.loops[loop] != LoopKind::Parallel || at == map.results[0].end())
      return std::nullopt;
    axes.push_back(at - map.results[0].begin());
    if (from[axis] != to[axes.back()])
      return std::nullopt;
  }
  return llvm::is_sorted(axes) ? std::optional(axes) : std::nullopt;
}

/// One merge of axes, `view`, and the formulas that read it.
class Merge {
public:
  explicit Merge(Operation *view) : view(view), split(getDims(view->getOperand(0))) {
    if (auto found = partsOf(getDims(view->getResult(0)), split))
      parts = std::move(*found);
  }

  /// Whether a number of a part of a merged axis, and not of all of it, is in what is merged; or
  /// what is merged was joined of neighbours along a part.
  bool mergesGroups() const {
    Operation *def = view->getOperand(0).getDefiningOp();
    return joinsNeighbours(def) ||
           (!parts.empty() && isFormula(def) &&
            llvm::any_of(def->getOperands(), [&](Value operand) {
              std::optional<SmallVector<int64_t>> axes = repeatedAxes(operand.getDefiningOp());
              return axes && !axes->empty() && llvm::any_of(parts, [&](ArrayRef<int64_t> own) {
                       auto isIn = [&](int64_t axis) { return llvm::is_contained(*axes, axis); };
                       return llvm::any_of(own, isIn) && !llvm::all_of(own, isIn);
                     });
            }));
  }
  /// Whether every reader can be computed before the merge.
  bool isMovable() const {
    return !parts.empty() && llvm::all_of(view->getUsers(), [&](Operation *user) {
      return isMovable(user, kMostSteps);
    });
  }
  /// Computes the readers in the shape of the groups. Returns merges of their results.
  SmallVector<Operation *> move(OpBuilder &builder) {
    SmallVector<Operation *> merges;
    llvm::SetVector<Operation *> users(view->getUsers().begin(), view->getUsers().end());
    for (Operation *user : users) {
      builder.setInsertionPoint(user);
      TrainBuilder tb(builder, user->getLoc());
      Value old = user->getResult(0), merged = tb.reshape(cloneInGroups(tb, user), getDims(old));
      old.replaceAllUsesWith(merged);
      user->erase();
      merges.push_back(merged.getDefiningOp());
    }
    return merges;
  }

private:
  /// Formulas between the merge and a reader that are computed for it anew.
  static constexpr unsigned kMostSteps = 3;

  bool joinsNeighbours(Operation *def) const {
    auto join = dyn_cast_or_null<ConcatOp>(def);
    return join && !parts.empty() && parts.back().size() > 1 &&
           parts.back().back() == int64_t(join.getAxis()) &&
           llvm::all_of(join.getOperands(),
                        [](Value part) { return getDims(part).back().isConstant(1); });
  }
  /// Whether the value is seen with its groups apart elsewhere, as one of these has to be.
  bool isSplit(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return user->getNumResults() == 1 && getReshaped(user->getResult(0)) == value &&
             getDims(user->getResult(0)) == ArrayRef<DimAttr>(split);
    });
  }
  bool isMovable(Operation *op, unsigned steps) const {
    return steps > 0 && isFormula(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
             Operation *def = operand.getDefiningOp();
             return getRank(operand) == 0 || isOfGroups(operand) || isSplit(operand) ||
                    repeatedAxes(def) || isMovable(def, steps - 1);
           });
  }
  /// Scalars are as they are in any shape.
  Value cloneInGroups(TrainBuilder &tb, Operation *op) const {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (getRank(operand) > 0)
        mapping.map(operand, inGroups(tb, operand));
    Value result = tb.b().clone(*op, mapping)->getResult(0);
    result.setType(getTensorType(split, getElementType(result)));
    return result;
  }
  bool isOfGroups(Value value) const {
    Value source = getReshaped(value);
    return source && getDims(source) == ArrayRef<DimAttr>(split);
  }
  /// A merge is taken back, what is repeated is repeated along the parts of its axes, and the rest
  /// is computed of such.
  Value inGroups(TrainBuilder &tb, Value value) const {
    if (isOfGroups(value))
      return getReshaped(value);
    if (isSplit(value))
      return tb.reshape(value, split);
    Operation *repeat = value.getDefiningOp();
    std::optional<SmallVector<int64_t>> repeated = repeatedAxes(repeat);
    if (!repeated)
      return cloneInGroups(tb, repeat);
    SmallVector<int64_t> axes;
    Dims dims;
    for (int64_t axis : *repeated)
      for (int64_t part : parts[axis]) {
        axes.push_back(part);
        dims.push_back(split[part]);
      }
    return tb.broadcast(tb.reshape(repeat->getOperand(0), dims), split, axes);
  }

  Operation *view;
  Dims split;
  SmallVector<SmallVector<int64_t>> parts;
};
} // namespace

void trainc::keepGroups(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  SmallVector<Operation *> merges;
  for (Operation &op : function.getBody().front())
    if (op.getNumResults() == 1 && getReshaped(op.getResult(0)) && Merge(&op).mergesGroups())
      merges.push_back(&op);
  // A merge may be of one that stands behind it in the list: done when it is its turn.
  while (!merges.empty()) {
    Operation *op = merges.pop_back_val();
    Merge merge(op);
    if (merge.isMovable())
      merges.append(merge.move(builder));
  }
}
