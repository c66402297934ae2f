// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `hoist-slices`, the worked example of a pass that knows interfaces and no ops: a
// selection commutes with an op along a parallel loop, which the op's axis map shows.

#include "lib/Transforms/HoistSlices/HoistSlices.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_HOISTSLICESPASS
#include "lib/Transforms/HoistSlices/HoistSlices.h.inc"
} // namespace trainc

namespace {
/// How a selection moves: along one loop of the op that makes its operand. A view may lie between
/// that merges the selected axis with its neighbours (the rows of a linear layer are batch times
/// sequence); the op's operands are then viewed the same way.
struct Route {
  AxisMapOpInterface producer;
  unsigned result = 0;
  unsigned loop = 0;
  /// Axes [first, first + group.size()) of the view's result are one axis of its operand; empty: no
  /// view.
  int64_t first = 0;
  SmallVector<DimAttr> group;
};

struct HoistSlicesPass : trainc::impl::HoistSlicesPassBase<HoistSlicesPass> {
  using HoistSlicesPassBase::HoistSlicesPassBase;

  void runOnOperation() override {
    // Selections nearer to the inputs first: one that stays blocks those behind it.
    worklist.clear();
    stuck.clear();
    getOperation().walk([&](SliceOpInterface slice) { worklist.push_back(slice); });
    std::reverse(worklist.begin(), worklist.end());
    while (!worklist.empty()) {
      SliceOpInterface slice = worklist.pop_back_val();
      // A function's argument: as far as it goes.
      auto source = dyn_cast<OpResult>(slice->getOperand(0));
      if (!source || mergeTwin(slice))
        continue;
      Route route;
      std::string reason = findRoute(slice, source, route);
      if (!reason.empty()) {
        stuck[slice] = reason;
        continue;
      }
      stuck.erase(slice);
      remark::passed(slice->getLoc(), options("Hoisted"))
          << remark::add("moved {0} above {1}", describeOp(slice), describeOp(route.producer));
      if (failed(hoist(slice, route)))
        return signalPassFailure();
    }
    // Said last: what stayed at first may have moved with a later one.
    for (auto &[slice, reason] : stuck)
      remark::missed(slice->getLoc(), options("NotHoisted"))
          << remark::add("{0} stays", describeOp(slice)) << remark::reason("{0}", reason);
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("hoist-slices")
        .function(getOperation().getName());
  }

  /// Sets `route` where `slice` may move above what makes its operand `source`; else returns the
  /// reason.
  std::string findRoute(SliceOpInterface slice, OpResult source, Route &route) {
    int64_t axis = slice.getSlicedAxis();
    if (axis < 0)
      return "it does more than select along one axis";
    if (!isShorter(slice.getSlicedExtent(), getDim(source, axis)))
      return "it selects too much of axis " + std::to_string(axis) + " to save work";
    std::string reason = step(slice, source, axis, route);
    if (reason.empty() || !isView(source.getOwner()))
      return reason;
    // Through the view onto the op above it, which has the axis as part of a larger one.
    auto above = dyn_cast<OpResult>(source.getOwner()->getOperand(0));
    int64_t merged = findGroup(source, axis, route);
    if (merged < 0 || !above || !source.hasOneUse())
      return reason;
    return step(slice, above, merged, route);
  }

  /// As findRoute, for one op and the axis `axis` of its result.
  std::string step(SliceOpInterface slice, OpResult source, int64_t axis, Route &route) {
    Operation *op = source.getOwner();
    std::string name = describeOp(op), number = std::to_string(axis);
    route.producer = dyn_cast<AxisMapOpInterface>(op);
    if (!route.producer)
      return name + " does not say how its axes map";
    if (!isPure(op) || op->getBlock() != slice->getBlock())
      return name + " cannot be computed again";
    // Two selections would move above each other for ever.
    if (auto other = dyn_cast<SliceOpInterface>(op); other && other.getSlicedAxis() >= 0)
      return name + " selects too";
    AxisMap map = route.producer.getAxisMap();
    route.result = source.getResultNumber();
    int loop = map.results[route.result][axis];
    if (loop < 0)
      return "axis " + number + " of " + name + " runs over no loop";
    route.loop = loop;
    LoopKind kind = map.loops[loop];
    if (kind == LoopKind::Positional && (!route.group.empty() || !slice.isPrefix()))
      return name + " depends on the coordinate along axis " + number;
    if (kind != LoopKind::Parallel && kind != LoopKind::Positional)
      return name + " mixes the elements along axis " + number;
    // An op that reads nothing along the loop (a constant, a repeated bias) costs no more twice.
    bool reads = llvm::any_of(map.operands,
                              [&](ArrayRef<int> axes) { return llvm::is_contained(axes, loop); });
    for (OpResult result : op->getResults())
      if (reads && (result == source ? !result.hasOneUse() : !result.use_empty()))
        return "all of " + name + " is used elsewhere";
    return {};
  }

  static bool isView(Operation *op) {
    auto fusion = dyn_cast<FusionOpInterface>(op);
    // Constant data is a view too, of nothing.
    return fusion && fusion.getFusionRole() == FusionRole::View && op->getNumOperands() == 1;
  }

  /// The axis of a view's operand that `axis` of its result is a part of, or -1; fills the route's
  /// group.
  int64_t findGroup(OpResult view, int64_t axis, Route &route) {
    SmallVector<DimAttr> from = getDims(view.getOwner()->getOperand(0)), to = getDims(view);
    DimAttr one = DimAttr::constant(view.getContext(), 1), beforeFrom = one;
    for (auto [merged, dim] : llvm::enumerate(from)) {
      DimAttr beforeTo = one;
      for (int64_t first = 0; first <= axis; ++first) {
        DimAttr part = one;
        for (size_t end = first; beforeTo == beforeFrom && end < to.size(); ++end) {
          part = part * to[end];
          if (part == dim && int64_t(end) >= axis) {
            route.first = first;
            route.group.assign(to.begin() + first, to.begin() + end + 1);
            return merged;
          }
        }
        beforeTo = beforeTo * to[first];
      }
      beforeFrom = beforeFrom * dim;
    }
    return -1;
  }

  /// Whether enough of an axis is left out. Symbols count as 256 each: a guess at a size that
  /// matters.
  bool isShorter(DimAttr selected, DimAttr whole) {
    auto guess = [](StringRef) -> std::optional<int64_t> { return 256; };
    FailureOr<int64_t> some = selected.evaluate(guess), all = whole.evaluate(guess);
    return succeeded(some) && succeeded(all) && *some > 0 &&
           double(*all) > minRatio * double(*some);
  }

  /// Where another op selects the same from the same value, replaces `slice` by it: a value that is
  /// used along two ways (a residual, GELU's argument) is then used once.
  bool mergeTwin(SliceOpInterface slice) {
    // Indices are often made anew.
    auto same = [](Value a, Value b) -> LogicalResult {
      Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
      return success(a == b || (left && right && isPure(left) &&
                                OperationEquivalence::isEquivalentTo(
                                    left, right, OperationEquivalence::IgnoreLocations)));
    };
    for (Operation *user : slice->getOperand(0).getUsers()) {
      if (user == slice || user->getBlock() != slice->getBlock() ||
          !OperationEquivalence::isEquivalentTo(slice, user, same, nullptr,
                                                OperationEquivalence::IgnoreLocations))
        continue;
      auto twin = cast<SliceOpInterface>(user);
      Operation *first = slice->isBeforeInBlock(twin) ? slice : twin;
      Operation *second = first == twin ? slice.getOperation() : twin.getOperation();
      second->replaceAllUsesWith(first);
      eraseDead(second);
      worklist.push_back(cast<SliceOpInterface>(first));
      return true;
    }
    return false;
  }

  LogicalResult hoist(SliceOpInterface slice, Route &route) {
    AxisMapOpInterface producer = route.producer;
    AxisMap map = producer.getAxisMap();
    OpBuilder builder(slice);
    TrainBuilder tb(builder, slice->getLoc());
    // The loop's new extent, and the place of the selected axis in the group.
    DimAttr extent = slice.getSlicedExtent();
    SmallVector<DimAttr> kept = getDims(slice->getOperand(0));
    kept[slice.getSlicedAxis()] = extent;
    int64_t inGroup = 0;
    if (!route.group.empty()) {
      inGroup = slice.getSlicedAxis() - route.first;
      extent = product(&getContext(), ArrayRef(kept).slice(route.first, route.group.size()));
    }

    SmallVector<Value> operands;
    DenseMap<std::pair<Value, int64_t>, Value> known;
    for (auto [operand, axes] : llvm::zip_equal(producer->getOperands(), map.operands)) {
      auto it = llvm::find(axes, int(route.loop));
      if (it == axes.end()) {
        operands.push_back(operand);
        continue;
      }
      int64_t axis = it - axes.begin();
      Value &value = known[{operand, axis}];
      if (!value) {
        SmallVector<DimAttr> dims = getDims(operand);
        dims[axis] = extent;
        value = operand;
        if (!route.group.empty())
          value = tb.reshape(operand, splitAxis(getDims(operand), axis, route.group));
        value = slice.buildSliced(tb, value, axis + inGroup);
        if (auto made = value.getDefiningOp<SliceOpInterface>())
          worklist.push_back(made);
        value = tb.reshape(value, dims);
      }
      operands.push_back(value);
    }
    Operation *restricted = producer.cloneRestricted(builder, operands, route.loop, extent);
    Value result = restricted->getResult(route.result);
    if (!route.group.empty())
      result = tb.reshape(result, kept);
    if (slice.dropsAxis())
      result = tb.reshape(result, getDims(slice->getResult(0)));
    if (result.getType() != slice->getResult(0).getType())
      return slice->emitError() << describeOp(producer) << " restricted along one axis has type "
                                << result.getType() << ", not " << slice->getResult(0).getType();
    slice->getResult(0).replaceAllUsesWith(result);
    eraseDead(slice);
    return success();
  }

  /// Erases the op and what only it used: a user left over would stop the next selection.
  void eraseDead(Operation *root) {
    llvm::SetVector<Operation *> queue;
    queue.insert(root);
    while (!queue.empty()) {
      Operation *op = queue.pop_back_val();
      if (!isOpTriviallyDead(op))
        continue;
      SmallVector<Value> operands(op->getOperands());
      llvm::erase_if(worklist, [&](SliceOpInterface other) { return other == op; });
      stuck.erase(op);
      op->erase();
      for (Value operand : operands)
        if (Operation *def = operand.getDefiningOp())
          queue.insert(def);
    }
  }

  static SmallVector<DimAttr> splitAxis(SmallVector<DimAttr> dims, int64_t axis,
                                        ArrayRef<DimAttr> parts) {
    dims.erase(dims.begin() + axis);
    dims.insert(dims.begin() + axis, parts.begin(), parts.end());
    return dims;
  }

  SmallVector<SliceOpInterface> worklist;
  /// Selections that stay, and why.
  llvm::MapVector<Operation *, std::string> stuck;
};
} // namespace
