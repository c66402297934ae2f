// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `move-transposes`: ops that were chosen are made anew in their orders, and transposes
// where a value is read in an order in which it is not.

#include "lib/Transforms/MoveTransposes/MoveTransposes.h"

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/MoveTransposes/Layouts.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_MOVETRANSPOSESPASS
#include "lib/Transforms/MoveTransposes/MoveTransposes.h.inc"
} // namespace trainc

namespace {
/// Makes the ops that were chosen, in the order of the block.
class Mover {
public:
  Mover(func::FuncOp function, const Layouts &layouts)
      : block(function.getBody().front()), layouts(layouts), builder(function) {}

  void run() {
    for (BlockArgument argument : block.getArguments())
      note(argument, argument, identityOrder(rankOf(argument)));
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (getPermutation(&op))
        continue;
      // Calls write their results in the order that is read: the transpose behind them is a view.
      const AxisOrders *orders = layouts.ordersOf(&op);
      if (orders && isa<ReorderOpInterface>(op))
        move(&op, *orders);
      else
        keep(&op);
    }
    // Transposes that nobody reads any more, and the ops that were made anew.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

private:
  /// A value that holds a root in an order.
  struct Copy {
    Order order;
    Value value;
  };

  static int64_t rankOf(Value value) {
    return isa<RankedTensorType>(value.getType()) ? getRank(value) : 0;
  }

  void note(Value root, Value value, ArrayRef<int64_t> order) {
    copies[root].push_back({Order(order), value});
    made.try_emplace(value, Source{root, Order(order)});
  }

  void move(Operation *op, const AxisOrders &orders) {
    SmallVector<Value> operands;
    for (auto [operand, order] : llvm::zip_equal(op->getOperands(), orders.operands))
      operands.push_back(get(operand, order, op->getLoc()));
    builder.setInsertionPoint(op);
    makeIn(op, operands, orders);
  }

  /// Returns the first result.
  Value makeIn(Operation *op, ValueRange operands, const AxisOrders &orders) {
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> results = cast<ReorderOpInterface>(op).buildReordered(tb, operands, orders);
    for (auto [result, value, order] : llvm::zip_equal(op->getResults(), results, orders.results))
      note(result, value, order);
    return results.front();
  }

  void keep(Operation *op) {
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands())
        // A sum of everything, too: the one that was moved, or what it was made of stays.
        if (operand.get().getParentBlock() == &block &&
            isa<RankedTensorType>(operand.get().getType()))
          operand.set(get(operand.get(), identityOrder(getRank(operand.get())), inner->getLoc()));
    });
    for (Value result : op->getResults())
      note(result, result, identityOrder(rankOf(result)));
  }

  /// `value` with its axes in an order, which is made where its root is. A transpose has the
  /// location of the one that it was, or of its reader.
  Value get(Value value, ArrayRef<int64_t> order, Location reader) {
    // Operands of ops that were kept are copies already.
    auto copy = made.find(value);
    const Source source = copy != made.end() ? copy->second : layouts.sourceOf(value);
    return getRoot(source.root, composeOrders(source.order, order),
                   source.root == value ? reader : value.getLoc());
  }

  Value getRoot(Value root, const Order &order, Location loc) {
    const SmallVector<DimAttr> dims = getDims(root);
    SmallVector<Copy> &known = copies[root];
    for (const Copy &copy : known)
      if (copy.order == order)
        return copy.value;
    OpBuilder::InsertionGuard guard(builder);
    const Copy first = known.front();
    builder.setInsertionPointAfterValue(first.value);
    for (const Copy &copy : known)
      if (memoryOrder(dims, copy.order) == memoryOrder(dims, order)) {
        builder.setInsertionPointAfterValue(copy.value);
        TrainBuilder tb(builder, loc);
        Value value = tb.reshape(copy.value, inOrder(dims, order));
        note(root, value, order);
        return value;
      }
    if (Value less = makeOfLess(root, order))
      return less;
    TrainBuilder tb(builder, loc);
    Value value = tb.transpose(first.value, composeOrders(inverseOrder(first.order), order));
    note(root, value, order);
    return value;
  }

  /// The op once more, of what it is made of in the order that gives this one; null if it has none.
  Value makeOfLess(Value root, const Order &order) {
    if (!layouts.isMadeOfLess(root))
      return {};
    Operation *op = root.getDefiningOp();
    std::optional<AxisOrders> orders =
        cast<ReorderOpInterface>(op).getOrders(op->getNumOperands(), order);
    if (!orders)
      return {};
    SmallVector<Value> operands;
    for (auto [operand, operandOrder] : llvm::zip_equal(op->getOperands(), orders->operands))
      operands.push_back(get(operand, operandOrder, op->getLoc()));
    return makeIn(op, operands, *orders);
  }

  Block &block;
  const Layouts &layouts;
  OpBuilder builder;
  DenseMap<Value, SmallVector<Copy>> copies;
  /// What each of them is a copy of.
  DenseMap<Value, Source> made;
};

struct MoveTransposesPass : trainc::impl::MoveTransposesPassBase<MoveTransposesPass> {
  using MoveTransposesPassBase::MoveTransposesPassBase;

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock() || (inNets && !isNet()))
      return;
    Layouts layouts(getOperation());
    const bool moves = layouts.choose();
    if (moves)
      remark::passed(locationOfMoved(layouts), options("Moved"))
          << remark::add("transposes of {0} bytes became such of {1}, each symbol taken as 256",
                         int64_t(layouts.bytesBefore()), int64_t(layouts.bytesLeft()));
    for (const LeftTranspose &left : layouts.findLeft())
      remark::missed(left.reader->getLoc(), options("Left"))
          << remark::add("{0} reads {1} bytes of {2} transposed", describeOp(left.reader),
                         int64_t(left.bytes), describe(left.root))
          << remark::reason("{0}", reason(layouts, left));
    if (moves)
      Mover(getOperation(), layouts).run();
  }

private:
  bool isNet() {
    constexpr StringRef mark = "train.has_convolutions";
    func::FuncOp function = getOperation();
    if (llvm::any_of(function.getBody().front(),
                     [](Operation &op) { return isa<ConvolutionOpInterface>(op); }))
      function->setAttr(mark, UnitAttr::get(&getContext()));
    return function->hasAttr(mark);
  }
  /// Of all ops that are made in another order: the nodes that the remark is about.
  Location locationOfMoved(const Layouts &layouts) {
    SmallVector<Location> moved;
    for (Operation &op : getOperation().getBody().front())
      if (layouts.ordersOf(&op))
        moved.push_back(op.getLoc());
    return FusedLoc::get(&getContext(), moved);
  }

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("move-transposes")
        .function(getOperation().getName());
  }

  static std::string describe(Value value) {
    if (Operation *op = value.getDefiningOp())
      return describeOp(op);
    return "argument " + std::to_string(cast<BlockArgument>(value).getArgNumber());
  }

  static std::string reason(const Layouts &layouts, const LeftTranspose &left) {
    Operation *maker = left.root.getDefiningOp();
    if (maker && layouts.couldMove(maker) && layouts.couldMove(left.reader))
      return "any other order would transpose more";
    const bool isReader = maker && layouts.couldMove(maker);
    return (isReader ? describeOp(left.reader) : describe(left.root)) +
           " has its axes in one order";
  }
};
} // namespace
