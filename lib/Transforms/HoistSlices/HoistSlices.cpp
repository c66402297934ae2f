// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `hoist-slices`, the worked example of a pass that knows interfaces and no ops: a
// selection commutes with an op along a parallel loop, which the op's axis map shows.

#include "lib/Transforms/HoistSlices/HoistSlices.h"

#include "lib/Transforms/Support/RestrictLoops.h"
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
/// How a selection moves: along one loop of the op that makes its operand. A view may lie between,
/// which merges the selected axis with its neighbours (the rows of a linear layer are batch times
/// sequence) or takes it apart; the op's operands are then viewed the same way.
struct Route {
  AxisMapOpInterface producer;
  unsigned result = 0;
  /// More than one where the selected axis is several of the op's, taken as one.
  SmallVector<unsigned> loops;
  /// Axes [first, first + group.size()) of the view's result are one axis of its operand; empty: no
  /// such view.
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
    std::string reason = step(slice, source, {axis}, route);
    if (reason.empty() || !isView(source.getOwner()))
      return reason;
    // Through the view onto the op above it, which has the axis as part of a larger one, or in
    // parts.
    auto above = dyn_cast<OpResult>(source.getOwner()->getOperand(0));
    if (!above || !source.hasOneUse())
      return reason;
    if (int64_t merged = findGroup(getDims(above), getDims(source), axis, route); merged >= 0)
      return step(slice, above, {merged}, route);
    Route parts;
    if (findGroup(getDims(source), getDims(above), axis, parts, /*isMerged=*/true) < 0)
      return reason;
    SmallVector<int64_t> axes;
    for (size_t i = 0; i < parts.group.size(); ++i)
      axes.push_back(parts.first + i);
    return step(slice, above, axes, route);
  }

  /// As findRoute, for one op and the axes `axes` of its result.
  std::string step(SliceOpInterface slice, OpResult source, ArrayRef<int64_t> axes, Route &route) {
    Operation *op = source.getOwner();
    std::string name = describeOp(op);
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
    route.loops.clear();
    for (int64_t axis : axes) {
      int loop = map.results[route.result][axis];
      if (loop < 0)
        return "axis " + std::to_string(axis) + " of " + name + " runs over no loop";
      route.loops.push_back(loop);
    }
    if (std::string reason =
            whyNotRestricted(route.producer, route.loops, keepsCoordinates(slice, route));
        !reason.empty())
      return reason;
    // To bring them together would need the op that was passed.
    for (ArrayRef<int> entry : map.operands) {
      SmallVector<int64_t> found = *findAxes(entry, route.loops);
      for (size_t i = 1; i < found.size(); ++i)
        if (found[i] != found[i - 1] + 1)
          return "the rows lie apart in an operand of " + name;
    }
    // Selections of a part of an axis have no row number to take coordinates from.
    bool positional = llvm::any_of(
        route.loops, [&](unsigned loop) { return map.loops[loop] == LoopKind::Positional; });
    if (positional && !route.group.empty())
      return name + " depends on the coordinate along the axis";
    // An op that reads nothing along the loop (a constant, a repeated bias) costs no more twice.
    bool reads = llvm::any_of(
        map.operands, [&](ArrayRef<int> entry) { return !findAxes(entry, route.loops)->empty(); });
    for (OpResult result : op->getResults())
      if (reads && (result == source ? !result.hasOneUse() : !result.use_empty()))
        return "all of " + name + " is used elsewhere";
    return {};
  }

  /// Whether the coordinates along the loops stay what they were.
  static bool keepsCoordinates(SliceOpInterface slice, const Route &route) {
    return route.group.empty() && route.loops.size() == 1 && slice.isPrefix();
  }

  /// The axis of `from` that several axes of `to` make up, `axis` among them, or -1; fills the
  /// route's group. `isMerged`: `axis` is the one of `from`.
  static int64_t findGroup(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to, int64_t axis, Route &route,
                           bool isMerged = false) {
    if (from.empty() || to.empty())
      return -1;
    DimAttr one = DimAttr::constant(from.front().getContext(), 1), beforeFrom = one;
    for (auto [merged, dim] : llvm::enumerate(from)) {
      DimAttr beforeTo = one;
      for (int64_t first = 0; first < int64_t(to.size()); ++first) {
        DimAttr part = one;
        for (size_t end = first; beforeTo == beforeFrom && end < to.size(); ++end) {
          part = part * to[end];
          bool contains = isMerged ? int64_t(merged) == axis && int64_t(end) > first
                                   : first <= axis && axis <= int64_t(end);
          if (part == dim && contains) {
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

    auto select = [&](TrainBuilder &builder, Value value, int64_t axis) {
      Value selected = slice.buildSliced(builder, value, axis);
      if (auto made = selected.getDefiningOp<SliceOpInterface>())
        worklist.push_back(made);
      return selected;
    };
    SmallVector<Value> operands;
    DenseMap<Value, SmallVector<std::pair<SmallVector<int64_t>, Value>>> known;
    for (auto [operand, entry] : llvm::zip_equal(producer->getOperands(), map.operands)) {
      SmallVector<int64_t> axes = *findAxes(entry, route.loops);
      if (axes.empty()) {
        operands.push_back(operand);
        continue;
      }
      auto &made = known[operand];
      auto *it = llvm::find_if(made, [&](auto &entry) { return entry.first == axes; });
      if (it == made.end()) {
        Value value = operand;
        SmallVector<DimAttr> dims = getDims(operand);
        if (route.group.empty()) {
          value = selectAlong(tb, value, axes, select);
        } else {
          dims[axes.front()] = extent;
          value = tb.reshape(operand, splitAxis(getDims(operand), axes.front(), route.group));
          value = tb.reshape(select(tb, value, axes.front() + inGroup), dims);
        }
        made.push_back({axes, value});
        it = &made.back();
      }
      operands.push_back(it->second);
    }
    Operation *restricted = restrictLoops(tb, producer, operands, route.loops, extent,
                                          keepsCoordinates(slice, route), select);
    Value result = restricted->getResult(route.result);
    if (!route.group.empty() || route.loops.size() > 1)
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
