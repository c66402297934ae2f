// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `hoist-slices`, the worked example of a pass that knows interfaces and no ops: a
// selection commutes with an op along a parallel loop, which the op's axis map shows.

#include "lib/Transforms/HoistSlices/HoistSlices.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "lib/Transforms/HoistSlices/SinkZeroRows.h"
#include "lib/Transforms/Support/PartSelections.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "lib/Transforms/Support/ZeroRows.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_HOISTSLICESPASS
#include "lib/Transforms/HoistSlices/HoistSlices.h.inc"
} // namespace trainc

/// Found by step and findGroup; hoist does what it says.
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

/// Who reads an op that a selection is to move above.
struct Consumers {
  /// Selections that may follow.
  SmallVector<SliceOpInterface> others;
  /// Different ones, and what they take of the op together.
  unsigned parts = 0;
  double share = 0;
};

struct HoistSlicesPass : trainc::impl::HoistSlicesPassBase<HoistSlicesPass> {
  using HoistSlicesPassBase::HoistSlicesPassBase;

  void runOnOperation() override {
    // Symbols that count elements, of this module and those around it.
    counts.clear();
    for (auto module = getOperation()->getParentOfType<ModuleOp>(); module;
         module = module->getParentOfType<ModuleOp>())
      for (SymbolOp symbol : module.getOps<SymbolOp>())
        if (symbol.getDiffers())
          counts.insert(symbol.getSymName());
    // Zero rows sink first: selections of them then find the op that they skip.
    sinkZeroRows(getOperation(), [&](DimAttr rows, DimAttr whole) {
      return isShorter(rows, whole, std::max(minRatio.getValue(), minZeroRatio.getValue()));
    });
    // Selections nearer to the inputs first: one that stays blocks those behind it.
    // Reversed, as the worklist is taken from its end.
    worklist.clear();
    stuck.clear();
    getOperation().walk([&](SliceOpInterface slice) { worklist.push_back(slice); });
    std::reverse(worklist.begin(), worklist.end());
    // Each round moves selections upwards, towards arguments; a selection that others block is
    // tried again as long as any has moved.
    bool changed = true;
    while (changed) {
      changed = false;
      while (!worklist.empty()) {
        FailureOr<bool> moved = visit(worklist.pop_back_val());
        if (failed(moved))
          return signalPassFailure();
        changed |= *moved;
      }
      // What stayed at first may move once others have.
      if (changed)
        for (auto &[slice, reason] : llvm::reverse(stuck))
          worklist.push_back(cast<SliceOpInterface>(slice));
    }
    // In the order in which they got stuck, which is program order for the first ones.
    for (auto &[slice, reason] : stuck)
      remark::missed(slice->getLoc(), options("NotHoisted"))
          << remark::add("{0} stays", describeOp(slice)) << remark::reason("{0}", reason);
    // Those that were taken apart and met again.
    // Two selections behind each other read less as one.
    SmallVector<SliceOpInterface> left;
    getOperation().walk([&](SliceOpInterface slice) { left.push_back(slice); });
    for (SliceOpInterface slice : left) {
      OpBuilder builder(slice);
      TrainBuilder tb(builder, slice->getLoc());
      Operation *inner = slice->getOperand(0).getDefiningOp();
      if (!inner || !inner->hasOneUse() || !isa<SliceOpInterface>(inner))
        continue;
      if (Value joined = joinSelections(tb, slice)) {
        slice->getResult(0).replaceAllUsesWith(joined);
        slice->erase();
        inner->erase();
      }
    }
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("hoist-slices")
        .function(getOperation().getName());
  }

  /// Whether anything was done for one selection.
  FailureOr<bool> visit(SliceOpInterface slice) {
    // A function's argument: as far as it goes.
    // Views that are equal would part selections that could share an op.
    if (Operation *def = slice->getOperand(0).getDefiningOp(); def && isView(def))
      shareView(def);
    auto source = dyn_cast<OpResult>(slice->getOperand(0));
    if (!source || mergeTwin(slice))
      return bool(source);
    if (takeOfParts(slice))
      return true;
    Route route;
    std::string reason = slice.getSlicedAxis() < 0 ? takeApart(slice, source, route)
                                                   : findRoute(slice, source, route);
    Consumers consumers;
    // From the cheapest question to the dearest one.
    if (reason.empty())
      reason = findConsumers(slice, route, consumers);
    if (reason.empty())
      reason = whyBehind(slice, route);
    if (!reason.empty()) {
      stuck[slice] = reason;
      return false;
    }
    // From here on it moves: nothing below may decline.
    stuck.erase(slice);
    if (consumers.parts > 1)
      remark::passed(route.producer->getLoc(), options("Shared")) << remark::add(
          "{0} is computed for {1} selections, together {2} % of it", describeOp(route.producer),
          consumers.parts, int64_t(100 * consumers.share + 0.5));
    remark::passed(slice->getLoc(), options("Hoisted"))
        << remark::add("moved {0} above {1}", describeOp(slice), describeOp(route.producer));
    // The others follow, so that all of the op is computed no more.
    // Before it moves: the others are found through the same op.
    for (SliceOpInterface other : consumers.others)
      enqueue(other);
    if (failed(hoist(slice, route)))
      return failure();
    return true;
  }

  /// To the end of the list, where it is taken next; never twice in it.
  void enqueue(SliceOpInterface slice) {
    llvm::erase(worklist, slice);
    worklist.push_back(slice);
  }

  /// Selects of the parts where `slice` takes a range of an axis that its operand joins or cuts up.
  /// A concat or a split: each part that the range touches gets a selection of its own.
  bool takeOfParts(SliceOpInterface slice) {
    OpBuilder builder(slice);
    TrainBuilder tb(builder, slice->getLoc());
    Value parts = selectFromParts(tb, slice);
    if (!parts)
      return false;
    remark::passed(slice->getLoc(), options("Hoisted")) << remark::add(
        "moved {0} above {1}", describeOp(slice), describeOp(slice->getOperand(0).getDefiningOp()));
    SmallVector<Value> made = {parts};
    if (Operation *def = parts.getDefiningOp())
      llvm::append_range(made, def->getOperands());
    // The new selections may move on.
    for (Value value : made)
      if (auto selection = value.getDefiningOp<SliceOpInterface>())
        enqueue(selection);
    stuck.erase(slice);
    slice->getResult(0).replaceAllUsesWith(parts);
    eraseDead(slice);
    return true;
  }

  /// Of several axes: `slice` becomes the selection along one that may move, and another op those
  /// along the others.
  /// Tries the axes in order; `slice` and `route` are those of the axis that works.
  std::string takeApart(SliceOpInterface &slice, OpResult source, Route &route) {
    std::string reason = "it does more than select along one axis";
    for (int64_t axis : getSlicedAxes(slice)) {
      OpBuilder builder(slice);
      TrainBuilder tb(builder, slice->getLoc());
      // Made for the question, and erased if the answer is no.
      auto one = selectOneAxis(tb, slice, axis).getDefiningOp<SliceOpInterface>();
      if (!one || !findRoute(one, source, route).empty()) {
        if (one)
          one->erase();
        continue;
      }
      Consumers consumers;
      if (reason = findConsumers(one, route, consumers, slice); !reason.empty()) {
        one->erase();
        continue;
      }
      Value rest = selectOtherAxes(tb, slice, one->getResult(0), axis);
      stuck.erase(slice);
      slice->getResult(0).replaceAllUsesWith(rest);
      llvm::erase(worklist, slice);
      slice->erase();
      enqueue(rest.getDefiningOp<SliceOpInterface>());
      slice = one;
      return {};
    }
    return reason;
  }

  /// Sets `route` where `slice` may move above what makes its operand `source`; else returns the
  /// reason. Whether others need all of that is not asked here.
  /// Directly, or through one view. Nothing is changed.
  std::string findRoute(SliceOpInterface slice, OpResult source, Route &route) {
    route = Route();
    int64_t axis = slice.getSlicedAxis();
    if (axis < 0)
      return "it does more than select along one axis";
    // Zeros are no rows of the op: moved above it they would be computed with.
    if (mayFillRows(slice))
      return "it fills in zeros, of which the op above makes something else";
    // Each move makes the selection again for every operand: little must be left.
    if (!isShorter(slice.getSlicedExtent(), getDim(source, axis), minRatio))
      return "it selects too much of axis " + std::to_string(axis) + " to save work";
    std::string reason = step(slice, source, {axis}, route);
    if (reason.empty() || !isView(source.getOwner()))
      return reason;
    // Through the view onto the op above it, which has the axis as part of a larger one, or in
    // parts.
    auto above = dyn_cast<OpResult>(source.getOwner()->getOperand(0));
    if (!above)
      return reason;
    // The axis is a part of a larger one above, or that one's parts are several axes above.
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

  /// Whether all that the op makes is read by selections which may move above it, and which
  /// together take little of it: fills in the other ones. Else returns who needs all of it, so that
  /// its rows would be computed twice. `apart`: a selection that `slice` is a part of.
  std::string findConsumers(SliceOpInterface slice, const Route &route, Consumers &consumers,
                            Operation *apart = nullptr) {
    // What it reads is not selected, so it does not get cheaper; a second one costs nothing more.
    Operation *producer = route.producer;
    // An op that reads nothing along the loop (a constant, a repeated bias) costs no more twice.
    AxisMap map = AxisMapOpInterface(route.producer).getAxisMap();
    if (llvm::none_of(map.operands,
                      [&](ArrayRef<int> entry) { return !findAxes(entry, route.loops)->empty(); }))
      return {};
    std::string all = "all of " + describeOp(producer) + " is used elsewhere";
    SmallVector<std::pair<SliceOpInterface, Route>> selections = {{slice, route}};
    // Adds a selection that could move above the same op.
    auto add = [&](Operation *user) {
      auto other = dyn_cast<SliceOpInterface>(user);
      Route way;
      auto from = other ? dyn_cast<OpResult>(other->getOperand(0)) : OpResult();
      if (!from || other->getBlock() != producer->getBlock() ||
          !findRoute(other, from, way).empty() || way.producer.getOperation() != producer)
        return false;
      selections.push_back({other, way});
      return true;
    };
    for (Operation *user :
         llvm::SetVector<Operation *>(producer->user_begin(), producer->user_end())) {
      if (user == slice || user == apart || add(user))
        continue;
      // Selections behind a view.
      bool isPassed = isView(user) && !isa<SliceOpInterface>(user);
      if (isPassed)
        for (Operation *behind : llvm::SetVector<Operation *>(user->user_begin(), user->user_end()))
          isPassed &= behind == slice || behind == apart || add(behind);
      if (!isPassed)
        return all + ", by " + describeOp(user);
    }
    // Each computes its part of the op: that has to be less than the op once.
    // Equal selections share what they compute.
    for (size_t i = 0; i < selections.size(); ++i) {
      auto &[other, way] = selections[i];
      bool isKnown = llvm::any_of(ArrayRef(selections).take_front(i), [&](const auto &earlier) {
        return selectSame(earlier.first, earlier.second, other, way);
      });
      if (!isKnown) {
        consumers.share += shareOf(other);
        ++consumers.parts;
      }
      if (other != slice)
        consumers.others.push_back(other);
    }
    // With many selections the op itself is cheaper than its parts.
    if (consumers.share * minRatio >= 1)
      return "what is selected of " + describeOp(producer) + " in " +
             std::to_string(consumers.parts) + " places is together no less than all of it";
    return {};
  }

  /// Where the route leads above another selection: that one has to stay, and this one to go on, or
  /// they would move above each other for ever.
  std::string whyBehind(SliceOpInterface slice, const Route &route) {
    Operation *other = route.producer;
    auto mayMove = [](Operation *op) {
      auto selection = dyn_cast<SliceOpInterface>(op);
      return selection && !getSlicedAxes(selection).empty();
    };
    if (!mayMove(other))
      return {};
    std::string reason = describeOp(other) + " selects too";
    // Above the other selection there must be an op to go on to, that is no selection itself.
    auto source = dyn_cast<OpResult>(other->getOperand(0));
    SmallVector<int64_t> axes =
        *findAxes(AxisMapOpInterface(route.producer).getAxisMap().operands[0], route.loops);
    Route beyond;
    Consumers consumers;
    if (!stuck.contains(other) || !source || axes.empty() ||
        !step(slice, source, axes, beyond).empty() || mayMove(beyond.producer) ||
        !findConsumers(slice, beyond, consumers, other).empty())
      return reason;
    return {};
  }

  /// The same rows of the same op, maybe of different results.
  /// By making both for the same value and comparing what comes out; what was made is erased.
  bool selectSame(SliceOpInterface a, const Route &wayOfA, SliceOpInterface b,
                  const Route &wayOfB) {
    if (a->getName() != b->getName() || wayOfA.loops != wayOfB.loops || wayOfA.loops.size() != 1 ||
        !wayOfA.group.empty() || !wayOfB.group.empty())
      return false;
    // Asked of one value that both would select from.
    AxisMap map = AxisMapOpInterface(wayOfA.producer).getAxisMap();
    for (auto [operand, entry] : llvm::zip_equal(wayOfA.producer->getOperands(), map.operands)) {
      SmallVector<int64_t> axes = *findAxes(entry, wayOfA.loops);
      if (axes.empty())
        continue;
      OpBuilder builder(&getContext());
      builder.setInsertionPointToEnd(a->getBlock());
      TrainBuilder tb(builder, a->getLoc());
      Operation *ofA = a.buildSliced(tb, operand, axes.front()).getDefiningOp();
      Operation *ofB = b.buildSliced(tb, operand, axes.front()).getDefiningOp();
      bool same = ofA && ofB && areTwins(ofA, ofB);
      for (Operation *made : {ofA, ofB})
        if (made)
          eraseDead(made);
      return same;
    }
    return false;
  }

  /// As findRoute, for one op and the axes `axes` of its result.
  /// Sets producer, result and loops of the route; the reason if the loops cannot be restricted.
  std::string step(SliceOpInterface slice, OpResult source, ArrayRef<int64_t> axes, Route &route) {
    Operation *op = source.getOwner();
    std::string name = describeOp(op);
    route.producer = dyn_cast<AxisMapOpInterface>(op);
    if (!route.producer)
      return name + " does not say how its axes map";
    // Effects would happen for other rows, or in another place.
    if (!isPure(op) || op->getBlock() != slice->getBlock())
      return name + " has effects, or lies in another block";
    AxisMap map = route.producer.getAxisMap();
    route.result = source.getResultNumber();
    route.loops.clear();
    // All axes of a group run over loops of their own.
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
    // Loops that are several axes of an operand are selected as one, so they must be neighbours
    // there.
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
    // A few rows of a known number are worth it.
    if (!slice.getSlicedExtent().getConstant() && seesItself(source, axes))
      return name + " sums up over the positions that the rows are, whose order masks them";
    return {};
  }

  /// Whether rows along `axes` are sums over as many others, weighted by a contest: attention of a
  /// sequence to itself. Its masks compare coordinates of rows and columns. Of selected rows they
  /// would be stored, for each row and column, and no kernel for attention knows them.
  static bool seesItself(OpResult source, ArrayRef<int64_t> axes) {
    if (!isa<ContractionOpInterface>(source.getOwner()))
      return false;
    Value weights = source.getOwner()->getOperand(0);
    // Dropout, casts and views lie between.
    for (unsigned steps = 0; steps < 4; ++steps) {
      Operation *def = weights.getDefiningOp();
      auto ranges = dyn_cast_or_null<RangeOpInterface>(def);
      if (std::optional<Contest> contest = ranges ? ranges.getContest() : std::nullopt)
        return llvm::any_of(contest->axes, [&](int64_t column) {
          return llvm::any_of(axes, [&](int64_t row) {
            return getDim(source, row) == getDim(def->getOperand(0), column);
          });
        });
      if (!def || def->getNumOperands() == 0 ||
          getNumElements(def->getOperand(0).getType()) != getNumElements(weights.getType()))
        return false;
      weights = def->getOperand(0);
    }
    return false;
  }

  /// Whether the coordinates along the loops stay what they were.
  /// Positional loops can be restricted to a prefix: row i is then still row i.
  static bool keepsCoordinates(SliceOpInterface slice, const Route &route) {
    return route.group.empty() && route.loops.size() == 1 && slice.isPrefix();
  }

  /// The axis of `from` that several axes of `to` make up, `axis` among them, or -1; fills the
  /// route's group. `isMerged`: `axis` is the one of `from`.
  /// By the number of elements before each axis, so that only whole groups are found.
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

  /// Symbols count as 256 each, a guess at a size that matters, and what counts elements, half of
  /// which may be left out, as 128.
  /// Sizes are only compared, so any plausible number does; 0 where an expression overflows.
  double guess(DimAttr dim) {
    FailureOr<int64_t> size = dim.evaluate([&](StringRef name) -> std::optional<int64_t> {
      return counts.contains(name) ? 128 : 256;
    });
    return succeeded(size) ? double(*size) : 0;
  }
  /// Whether enough of an axis is left out.
  bool isShorter(DimAttr selected, DimAttr whole, double ratio) {
    return guess(selected) > 0 && guess(whole) > ratio * guess(selected);
  }
  double shareOf(SliceOpInterface slice) {
    return guess(slice.getSlicedExtent()) /
           guess(getDim(slice->getOperand(0), slice.getSlicedAxis()));
  }

  /// Whether two ops compute the same, indices that were made anew included.
  /// Depth 4: indices are made by short chains. Impure ops are never the same.
  static bool areTwins(Operation *a, Operation *b, unsigned depth = 4) {
    auto same = [&](Value x, Value y) -> LogicalResult {
      Operation *left = x.getDefiningOp(), *right = y.getDefiningOp();
      return success(x == y ||
                     (left && right && depth > 0 && isPure(left) &&
                      cast<OpResult>(x).getResultNumber() == cast<OpResult>(y).getResultNumber() &&
                      areTwins(left, right, depth - 1)));
    };
    return OperationEquivalence::isEquivalentTo(a, b, same, nullptr,
                                                OperationEquivalence::IgnoreLocations);
  }

  /// Where another op selects the same from the same value, replaces `slice` by it: a value that is
  /// used along two ways (a residual, GELU's argument) is then used once.
  /// The first of both stays, as it dominates the readers of both.
  bool mergeTwin(SliceOpInterface slice) {
    for (Operation *user : slice->getOperand(0).getUsers()) {
      if (user == slice || user->getBlock() != slice->getBlock() || !areTwins(slice, user))
        continue;
      auto twin = cast<SliceOpInterface>(user);
      Operation *first = slice->isBeforeInBlock(twin) ? slice : twin;
      Operation *second = first == twin ? slice.getOperation() : twin.getOperation();
      second->replaceAllUsesWith(first);
      eraseDead(second);
      enqueue(cast<SliceOpInterface>(first));
      return true;
    }
    return false;
  }

  /// The same view made earlier, so that selections of it meet; else `view`.
  /// Only for a view that has just been made and is unused.
  Value findTwin(Value view) {
    Operation *made = view.getDefiningOp();
    if (!made || !made->use_empty() || made->getNumOperands() == 0)
      return view;
    for (Operation *user : made->getOperand(0).getUsers()) {
      if (user == made || user->getBlock() != made->getBlock() || !areTwins(user, made))
        continue;
      if (!user->isBeforeInBlock(made))
        user->moveBefore(made);
      made->erase();
      return user->getResult(0);
    }
    return view;
  }

  /// Equal views become this one or an earlier one, so that selections of them meet.
  /// The earliest stays: it dominates all readers.
  void shareView(Operation *view) {
    SmallVector<Operation *> twins;
    for (Operation *user : view->getOperand(0).getUsers())
      if (user != view && user->getBlock() == view->getBlock() && areTwins(user, view))
        twins.push_back(user);
    for (Operation *twin : twins) {
      if (twin->isBeforeInBlock(view))
        std::swap(twin, view);
      twin->replaceAllUsesWith(view);
      twin->erase();
    }
  }

  /// Makes the op for the selected rows, from operands that are selected in its place. A wrong type
  /// is the op's fault (restrictLoops), and an error.
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

    // New selections go on the list: they may move on in turn.
    auto select = [&](TrainBuilder &builder, Value value, int64_t axis) {
      Value selected = slice.buildSliced(builder, value, axis);
      if (auto made = selected.getDefiningOp<SliceOpInterface>())
        enqueue(made);
      return selected;
    };
    SmallVector<Value> operands;
    // An operand that is read twice along the same axes is selected once.
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
          // The merged axis is taken apart, one part selected, and merged again.
          value =
              findTwin(tb.reshape(operand, splitAxis(getDims(operand), axes.front(), route.group)));
          value = tb.reshape(select(tb, value, axes.front() + inGroup), dims);
        }
        made.push_back({axes, value});
        it = &made.back();
      }
      operands.push_back(it->second);
    }
    Operation *restricted = restrictLoops(tb, producer, operands, route.loops, extent,
                                          keepsCoordinates(slice, route), select);
    // A selection that was passed comes last: it had to stay for this one.
    if (auto passed = dyn_cast<SliceOpInterface>(restricted))
      worklist.insert(worklist.begin(), passed);
    Value result = restricted->getResult(route.result);
    if (!route.group.empty() || route.loops.size() > 1)
      result = tb.reshape(result, kept);
    if (slice.dropsAxis())
      result = tb.reshape(result, getDims(slice->getResult(0)));
    if (result.getType() != slice->getResult(0).getType())
      return attachNotes(slice->emitError()
                             << describeOp(producer) << " restricted along one axis has type "
                             << result.getType() << ", not " << slice->getResult(0).getType(),
                         {{"what is restricted", producer->getResult(0)}});
    slice->getResult(0).replaceAllUsesWith(result);
    eraseDead(slice);
    return success();
  }

  /// Erases the op and what only it used: a user left over would stop the next selection.
  /// Entries of the worklist and reasons go with their ops: a new op may get the same address.
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

  /// Sizes that count elements of an input.
  llvm::StringSet<> counts;
  SmallVector<SliceOpInterface> worklist;
  /// Selections that stay, and why.
  llvm::MapVector<Operation *, std::string> stuck;
};
} // namespace
