// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ops are computed with their axes in another order (ReorderOpInterface), op by op: numbers of
// axes in attributes are renamed. What is not here stays as it is.

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/Reorder/Reorder.h"

using namespace mlir;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

/// Keeps the loops of the op in one order for all its values; a loop that `value` does not have
/// stays behind the one before it.
static std::optional<AxisOrders> ordersByLoops(Operation *op, unsigned value,
                                               ArrayRef<int64_t> order) {
  AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
  SmallVector<ArrayRef<int>> entries(map.operands.begin(), map.operands.end());
  entries.append(map.results.begin(), map.results.end());
  for (ArrayRef<int> entry : entries)
    for (auto [axis, loop] : llvm::enumerate(entry))
      if (loop < 0 || llvm::is_contained(entry.drop_front(axis + 1), loop))
        return std::nullopt;
  SmallVector<int> loops =
      llvm::map_to_vector(order, [&](int64_t axis) { return entries[value][axis]; });
  for (ArrayRef<int> entry : entries)
    for (auto [axis, loop] : llvm::enumerate(entry))
      if (!llvm::is_contained(loops, loop))
        loops.insert(axis == 0 ? loops.begin() : llvm::find(loops, entry[axis - 1]) + 1, loop);
  auto orderOf = [&](ArrayRef<int> entry) {
    SmallVector<int64_t> axes = identityOrder(entry.size());
    llvm::sort(axes, [&](int64_t a, int64_t b) {
      return llvm::find(loops, entry[a]) < llvm::find(loops, entry[b]);
    });
    return axes;
  };
  return AxisOrders{llvm::map_to_vector(map.operands, orderOf),
                    llvm::map_to_vector(map.results, orderOf)};
}

/// One order for all operands and results of the largest rank; others are lists of indices.
static std::optional<AxisOrders> ordersAlike(Operation *op, unsigned value,
                                             ArrayRef<int64_t> order) {
  int64_t rank = 0;
  for (Value operand : op->getOperands())
    rank = std::max(rank, getRank(operand));
  if (int64_t(order.size()) != rank)
    return std::nullopt;
  AxisOrders orders;
  auto add = [&](SmallVector<SmallVector<int64_t>> &to, Value of) {
    if (getRank(of) == rank)
      to.emplace_back(order);
    else if (getRank(of) <= 1)
      to.push_back(identityOrder(getRank(of)));
    else
      return false;
    return true;
  };
  for (Value operand : op->getOperands())
    if (!add(orders.operands, operand))
      return std::nullopt;
  for (Value result : op->getResults())
    if (!add(orders.results, result))
      return std::nullopt;
  return orders;
}

namespace {
/// Axes of a shape and of what it is reshaped to that hold the same elements, as few as possible.
struct ReshapedGroup {
  SmallVector<int64_t> from, to;
};
} // namespace

/// In order; axes of one element are left out. Empty where nothing is known of the sizes.
static SmallVector<ReshapedGroup> groupsOf(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to) {
  SmallVector<ReshapedGroup> groups;
  if (from.empty() || to.empty())
    return groups;
  const DimAttr one = DimAttr::constant(from.front().getContext(), 1);
  DimAttr before = one, beforeTo = one;
  size_t next = 0;
  ReshapedGroup group;
  for (auto [axis, dim] : llvm::enumerate(from)) {
    if (dim.isConstant(0))
      return {};
    if (dim.isConstant(1))
      continue;
    before = before * dim;
    group.from.push_back(axis);
    // As far as it takes to have as many elements before it.
    DimAttr reached = beforeTo;
    size_t end = next;
    while (end < to.size() && reached != before)
      reached = reached * to[end++];
    if (reached != before)
      continue;
    for (; next < end; ++next)
      if (!to[next].isConstant(1))
        group.to.push_back(next);
    beforeTo = reached;
    groups.push_back(std::exchange(group, {}));
  }
  return group.from.empty() ? groups : SmallVector<ReshapedGroup>();
}

/// Groups of axes keep their inner order and their neighbours; the groups take any order.
static std::optional<AxisOrders> ordersOfReshape(ReshapeOp op, unsigned value,
                                                 ArrayRef<int64_t> order) {
  SmallVector<DimAttr> from = getDims(value == 0 ? op.getOperand() : op.getResult()),
                       to = getDims(value == 0 ? op.getResult() : op.getOperand());
  SmallVector<ReshapedGroup> groups = groupsOf(from, to);
  SmallVector<int64_t> rest = memoryOrder(from, order), other;
  // Axes of one element stay behind the axis that is before them.
  auto addWithOnes = [&](int64_t axis) {
    if (axis >= 0)
      other.push_back(axis);
    while (++axis < int64_t(to.size()) && to[axis].isConstant(1))
      other.push_back(axis);
  };
  addWithOnes(-1);
  for (ArrayRef<int64_t> left = rest; !left.empty();) {
    const auto *group = llvm::find_if(
        groups, [&](const ReshapedGroup &g) { return g.from.front() == left.front(); });
    if (group == groups.end() || left.take_front(group->from.size()) != ArrayRef(group->from))
      return std::nullopt;
    left = left.drop_front(group->from.size());
    for (int64_t axis : group->to)
      addWithOnes(axis);
  }
  if (other.size() != to.size())
    return std::nullopt;
  AxisOrders orders;
  orders.operands.emplace_back(value == 0 ? order : ArrayRef<int64_t>(other));
  orders.results.emplace_back(value == 0 ? ArrayRef<int64_t>(other) : order);
  return orders;
}

/// The axis of data stands where that of the result does.
static std::optional<AxisOrders> ordersOf(Operation *op, unsigned value, ArrayRef<int64_t> order) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return ordersOfReshape(reshape, value, order);
  // Indices of one axis, whose place the result's axis takes.
  if (auto gather = dyn_cast<GatherOp>(op))
    return getRank(gather.getIndices()) == 1 ? ordersAlike(op, value, order) : std::nullopt;
  if (isa<GatherElementsOp, ScatterElementsAddOp, SelectRowsOp>(op))
    return ordersAlike(op, value, order);
  return ordersByLoops(op, value, order);
}

/// The same op; where it depends on coordinates the same between transposes, which its kernel
/// computes as coordinates.
static SmallVector<Value> reorderPointwise(Operation *op, TrainBuilder &tb, ValueRange operands,
                                           const AxisOrders &orders) {
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  const bool isPositional = pointwise && dependsOnPlace(pointwise);
  SmallVector<Value> own(operands);
  if (isPositional)
    for (auto [operand, order] : llvm::zip_equal(own, orders.operands))
      operand = tb.transpose(operand, inverseOrder(order));
  Operation *clone = tb.b().clone(*op);
  clone->setOperands(own);
  SmallVector<Value> results;
  for (auto [result, order] : llvm::zip_equal(clone->getResults(), orders.results)) {
    if (!isPositional)
      result.setType(getTensorType(inOrder(getDims(result), order), getElementType(result)));
    results.push_back(isPositional ? tb.transpose(result, order) : result);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Attributes that number axes
//===----------------------------------------------------------------------===//

/// Of an attribute that is one axis of a value in this order.
static int64_t renamed(int64_t axis, ArrayRef<int64_t> order) { return inverseOrder(order)[axis]; }

static DimsAttr inOrder(DimsAttr dims, ArrayRef<int64_t> order) {
  return DimsAttr::get(dims.getContext(), trainc::train::inOrder(dims.getDims(), order));
}

static void rename(BroadcastOp op, const AxisOrders &orders) {
  op.setAxes(llvm::map_to_vector(orders.operands[0], [&](int64_t axis) {
    return renamed(op.getAxes()[axis], orders.results[0]);
  }));
}
static void rename(ReduceOp op, const AxisOrders &orders) {
  SmallVector<int64_t> axes = llvm::map_to_vector(
      op.getAxes(), [&](int64_t axis) { return renamed(axis, orders.operands[0]); });
  llvm::sort(axes);
  op.setAxes(axes);
}
static void rename(SliceOp op, const AxisOrders &orders) {
  op.setStartsAttr(inOrder(op.getStarts(), orders.results[0]));
  op.setSteps(composeOrders(op.getSteps(), orders.results[0]));
}
static void rename(PadOp op, const AxisOrders &orders) {
  op.setLowAttr(inOrder(op.getLow(), orders.results[0]));
}
template <typename Op> static void renameSliding(Op op, const AxisOrders &orders) {
  op.setAxis(renamed(op.getAxis(), orders.results[0]));
  op.setTaps(renamed(op.getTaps(), orders.results[0]));
}
static void rename(WindowOp op, const AxisOrders &orders) { renameSliding(op, orders); }
static void rename(SpreadOp op, const AxisOrders &orders) { renameSliding(op, orders); }
static void rename(InTrainingOp, const AxisOrders &) {}
/// Those of one axis.
template <typename Op> static void rename(Op op, const AxisOrders &orders) {
  op.setAxis(renamed(op.getAxis(), orders.results[0]));
}

namespace {
template <typename Op>
struct ReorderModel : ReorderOpInterface::ExternalModel<ReorderModel<Op>, Op> {
  std::optional<AxisOrders> getOrders(Operation *op, unsigned value,
                                      ArrayRef<int64_t> order) const {
    return ordersOf(op, value, order);
  }
  SmallVector<Value> buildReordered(Operation *op, TrainBuilder &tb, ValueRange operands,
                                    const AxisOrders &orders) const {
    SmallVector<DimAttr> dims =
        trainc::train::inOrder(getDims(op->getResult(0)), orders.results[0]);
    if constexpr (std::is_same_v<Op, ReshapeOp>) {
      return {tb.reshape(operands[0], dims)};
    } else if constexpr (std::is_same_v<Op, IotaOp>) {
      return {tb.iota(dims, getElementType(op->getResult(0)),
                      renamed(cast<IotaOp>(op).getAxis(), orders.results[0]))};
    } else {
      SmallVector<Value> results = reorderPointwise(op, tb, operands, orders);
      rename(results[0].getDefiningOp<Op>(), orders);
      return results;
    }
  }
};
/// Of any pointwise op.
struct PointwiseModel : ReorderOpInterface::FallbackModel<PointwiseModel> {
  std::optional<AxisOrders> getOrders(Operation *op, unsigned value,
                                      ArrayRef<int64_t> order) const {
    return ordersByLoops(op, value, order);
  }
  SmallVector<Value> buildReordered(Operation *op, TrainBuilder &tb, ValueRange operands,
                                    const AxisOrders &orders) const {
    return reorderPointwise(op, tb, operands, orders);
  }
};
template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<ReorderModel<Ops>>(*context), ...);
}
} // namespace

void trainc::train::detail::attachReorderInterfaces(MLIRContext *context) {
  attach<IotaOp, BroadcastOp, ReshapeOp, SliceOp, PadOp, ConcatOp, SplitOp, GatherOp,
         GatherElementsOp, ScatterElementsAddOp, SelectRowsOp, WindowOp, SpreadOp, ReduceOp,
         CumsumOp, SoftmaxOp, LogSoftmaxOp, InTrainingOp>(context);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.getDialectNamespace() == TrainDialect::getDialectNamespace() &&
        name.hasInterface<PointwiseOpInterface>() && !name.hasInterface<ReorderOpInterface>())
      name.attachInterface<PointwiseModel>();
}
