// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops stay where they are; small ones are made beside them, and what they replace is dead in the
// end. Where an op needs all rows, the small value is put back among zeros for it.

#include "lib/Transforms/HoistSlices/SinkZeroRows.h"

#include "lib/Transforms/Support/RestrictLoops.h"
#include "lib/Transforms/Support/ZeroRows.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// The rows that are not 0. The axis may have others merged into it: [outer, rows, inner]. Or it
/// may be two neighbours that one index runs over (sample and position); then `rows` has size 1
/// along the first, and all rows along the second.
struct Placed {
  RowPlacement at;
  Value rows;
  SmallVector<int64_t, 2> axes;
  DimAttr outer, inner;
  bool isLike(const Placed &other) const {
    return at == other.at && outer == other.outer && inner == other.inner;
  }
};

class Sinker {
public:
  Sinker(func::FuncOp function, IsShorter isShorter)
      : function(function), builder(function.getContext()), isShorter(isShorter) {}

  /// Whether any op became smaller.
  bool run() {
    // Collected first: ops that are made beside these are not visited.
    Block &block = function.getBody().front();
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    for (Operation *op : ops)
      visit(op);
    eraseDeadOps(block);
    return changed;
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("hoist-slices").function(function.getName());
  }

  /// Each op either becomes a small one beside itself, or gets the rows of its operands back among
  /// zeros.
  void visit(Operation *op) {
    builder.setInsertionPoint(op);
    TrainBuilder tb(builder, op->getLoc());
    bool reads = llvm::any_of(op->getOperands(), [&](Value v) { return placed.contains(v); });
    // Only where enough rows are left out: the op that puts them back is not free.
    auto findRows = [&] {
      std::optional<PlacedRows> found = matchPlacedRows(tb, op);
      return found && isShorter(found->at.count, found->at.whole) ? found : std::nullopt;
    };
    // Zeros around zeros of another axis: the outer ones, so that both do not change places for
    // ever.
    if (!reads || findRows()) {
      putBackOperands(op);
      if (std::optional<PlacedRows> found = findRows())
        placed[op->getResult(0)] = {
            found->at, found->rows, {found->axis}, tb.dimAttr(1), tb.dimAttr(1)};
      return;
    }
    if (isView(op) && sinkView(tb, op))
      return;
    std::string reason = sink(tb, op);
    if (reason.empty()) {
      changed = true;
      remark::passed(op->getLoc(), options("Restricted"))
          << remark::add("{0} leaves out rows where a gradient is 0", describeOp(op));
      return;
    }
    if (putBackOperands(op) && !op->hasTrait<OpTrait::IsTerminator>())
      remark::missed(op->getLoc(), options("NotRestricted"))
          << remark::add("{0} takes all rows, zeros included", describeOp(op))
          << remark::reason("{0}", reason);
  }

  /// Gives the op all rows of its operands; false if it has them.
  /// Values that zeros were put around in the graph are whole as they are; only those that this
  /// pass has made small need it.
  bool putBackOperands(Operation *op) {
    bool any = false;
    for (OpOperand &operand : op->getOpOperands())
      if (auto it = placed.find(operand.get());
          it != placed.end() && sunk.contains(operand.get())) {
        operand.set(putBack(operand.get(), it->second));
        any = true;
      }
    return any;
  }

  /// Views that keep the rows together.
  /// By elements before and behind the rows, for every size. A view that cuts through them is no
  /// view of rows.
  bool sinkView(TrainBuilder &tb, Operation *op) {
    const Placed from = placed.lookup(op->getOperand(0));
    SmallVector<DimAttr> dims = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
    DimAttr before =
        product(tb.context(), ArrayRef(dims).take_front(from.axes.front())) * from.outer;
    DimAttr first = tb.dimAttr(1);
    for (auto [axis, dim] : llvm::enumerate(to)) {
      DimAttr outer = divideExactly(before, first);
      DimAttr inner = outer ? divideExactly(dim, outer * from.at.whole) : DimAttr();
      // An index over both samples and positions runs over two axes where they lie apart.
      bool apart = !inner && first == before && from.inner.isConstant(1) && axis + 1 < to.size() &&
                   dim * to[axis + 1] == from.at.whole;
      first = first * dim;
      if (!inner && !apart)
        continue;
      Placed result = from;
      result.axes = {int64_t(axis)};
      if (apart) {
        result.axes.push_back(axis + 1);
        result.outer = tb.dimAttr(1);
        to[axis] = tb.dimAttr(1);
        to[axis + 1] = from.at.count;
      } else {
        result.outer = outer;
        result.inner = inner;
        to[axis] = outer * from.at.count * inner;
      }
      result.rows = tb.reshape(from.rows, to);
      set(op->getResult(0), result);
      return true;
    }
    return false;
  }

  /// Returns why the op cannot be computed for these rows only.
  /// On success the op's results are `placed`, or replaced where the rows are summed up.
  std::string sink(TrainBuilder &tb, Operation *op) {
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped || !isPure(op) || op->getNumResults() == 0)
      return describeOp(op) + " does not say how its axes map";
    AxisMap map = mapped.getAxisMap();
    const Placed *rows = nullptr;
    SmallVector<unsigned> loops;
    SmallVector<bool> zeros;
    // Operands that are 0 outside of the same rows, along the same loops; others are selected from.
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      auto it = placed.find(operand);
      zeros.push_back(it != placed.end());
      if (!zeros.back())
        continue;
      SmallVector<unsigned> runs;
      for (int64_t axis : it->second.axes)
        if (entry[axis] >= 0)
          runs.push_back(entry[axis]);
      if (rows && (runs != loops || !it->second.isLike(*rows)))
        return "its operands are not 0 in the same rows";
      if (runs.size() != it->second.axes.size())
        return describeOp(op) + " mixes the elements along the axis";
      rows = &it->second;
      loops = runs;
    }
    LoopKind kind = map.loops[loops.front()];
    if ((kind != LoopKind::Parallel && kind != LoopKind::Reduction) ||
        map.loops[loops.back()] != kind)
      return describeOp(op) + " mixes the elements along the axis";
    if (!keepsZeroRows(op, zeros))
      return describeOp(op) + " is not 0 where its operand is";
    bool sums = kind == LoopKind::Reduction;
    // An index scatters floats only.
    if (!sums && !rows->at.canPlace(op->getResultTypes()))
      return describeOp(op) + " gives no floats, which indices would put back";
    // Neighbours stay neighbours.
    auto runsOver = [&](ArrayRef<int> entry, bool orNot) {
      std::optional<SmallVector<int64_t>> axes = findAxes(entry, loops);
      return axes &&
             (axes->empty() ? orNot : axes->back() - axes->front() + 1 == int64_t(axes->size()));
    };
    for (ArrayRef<int> entry : map.results)
      if (sums ? !findAxes(entry, loops) || !findAxes(entry, loops)->empty()
               : !runsOver(entry, /*orNot=*/false))
        return describeOp(op) + " has results with and without the axis";
    for (ArrayRef<int> entry : map.operands)
      if (!runsOver(entry, /*orNot=*/true))
        return describeOp(op) + " repeats an operand along a part of the rows";
    // The map may move while operands are made.
    // `rows` points into the map.
    const Placed at = *rows;
    SmallVector<Value> operands;
    for (auto [operand, entry, zero] : llvm::zip_equal(op->getOperands(), map.operands, zeros)) {
      SmallVector<int64_t> axes = *findAxes(entry, loops);
      operands.push_back(axes.empty() ? operand
                         : zero       ? placed.lookup(operand).rows
                                      : select(tb, operand, at, axes));
    }
    // The first loop has one step where rows run over both: the second one counts them.
    SmallVector<LoopExtent> extents = {{loops.front(), tb.dimAttr(1)}};
    if (loops.size() > 1)
      extents.push_back({loops.back(), DimAttr()});
    extents.back().extent = at.outer * at.at.count * at.inner;
    Operation *small = mapped.cloneRestricted(builder, operands, extents);
    assert(small->getNumResults() == op->getNumResults() && "the same op over fewer rows");
    for (auto [result, made, entry] :
         llvm::zip_equal(op->getResults(), small->getResults(), map.results)) {
      // A sum over rows that are 0 is that over the others.
      if (sums) {
        result.replaceAllUsesWith(made);
        continue;
      }
      Placed restricted = at;
      restricted.rows = made;
      restricted.axes.assign(*findAxes(entry, loops));
      set(result, restricted);
    }
    return {};
  }

  /// The rows of another value.
  /// Remembered for each value and axis, as long as the rows are the same.
  Value select(TrainBuilder &tb, Value value, const Placed &at, ArrayRef<int64_t> axes) {
    Value &made = selected[{value, axes.front()}];
    if (made)
      if (auto known = selectedAt.find(made); known != selectedAt.end() && known->second.isLike(at))
        return made;
    if (axes.size() > 1) {
      made = selectAlong(tb, value, axes, [&](TrainBuilder &b, Value v, int64_t axis) {
        return at.at.select(b, v, axis);
      });
    } else {
      SmallVector<DimAttr> dims = getDims(value);
      auto [split, place] = splitAxis(dims, axes.front(), at, at.at.whole);
      dims[axes.front()] = at.outer * at.at.count * at.inner;
      made = tb.reshape(at.at.select(tb, tb.reshape(value, split), place), dims);
    }
    selectedAt[made] = at;
    return made;
  }

  /// The axis as [outer, `size`, inner], and where `size` is. A part of 1 would be an axis too many
  /// for what the value is a view of.
  static std::pair<SmallVector<DimAttr>, int64_t> splitAxis(SmallVector<DimAttr> dims, int64_t axis,
                                                            const Placed &at, DimAttr size) {
    dims[axis] = size;
    if (!at.inner.isConstant(1))
      dims.insert(dims.begin() + axis + 1, at.inner);
    if (at.outer.isConstant(1))
      return {dims, axis};
    dims.insert(dims.begin() + axis, at.outer);
    return {dims, axis + 1};
  }

  /// From here on the value's own op is dead, unless something needs all rows.
  void set(Value value, const Placed &rows) {
    placed[value] = rows;
    sunk.insert(value);
  }

  /// All rows, the others 0.
  /// Once for each value, behind the small one: all readers share it.
  Value putBack(Value value, const Placed &rows) {
    Value &whole = restored[value];
    if (whole)
      return whole;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(rows.rows);
    TrainBuilder tb(builder, rows.rows.getLoc());
    // Two axes are one again.
    SmallVector<DimAttr> dims = getDims(rows.rows);
    if (rows.axes.size() > 1)
      dims.erase(dims.begin() + rows.axes.front());
    auto [split, place] = splitAxis(dims, rows.axes.front(), rows, rows.at.count);
    Value placedRows = rows.at.place(tb, tb.reshape(rows.rows, split), place);
    return whole = tb.reshape(placedRows, getDims(value));
  }

  func::FuncOp function;
  OpBuilder builder;
  IsShorter isShorter;
  DenseMap<Value, Placed> placed;
  /// Values whose own op is replaced: all but those that zeros were put around in the graph.
  DenseSet<Value> sunk;
  DenseMap<Value, Value> restored;
  DenseMap<std::pair<Value, int64_t>, Value> selected;
  DenseMap<Value, Placed> selectedAt;
  bool changed = false;
};
} // namespace

void trainc::sinkZeroRows(func::FuncOp function, IsShorter isShorter) {
  // Rows along one axis may have been put among zeros along another before.
  // Each run may only see the next axis once the one before has sunk.
  constexpr int kMostAxes = 4;
  assert(function.getBody().hasOneBlock() && "ops are visited in the order of a block");
  for (int i = 0; i < kMostAxes && Sinker(function, isShorter).run(); ++i) {
  }
}
