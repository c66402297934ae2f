// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `place-rows`: finds kernels that only copy rows, and makes the body of the kernel before
// them anew in the order in which the rows are read.

#include "lib/Schedule/PlaceRows/PlaceRows.h"

#include "dialects/Train/Reorder/Reorder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_PLACEROWSPASS
#include "lib/Schedule/PlaceRows/PlaceRows.h.inc"
} // namespace trainc

namespace {

using Order = SmallVector<int64_t>;

/// The order in which a kernel stores what another one has made, if that is all it does.
std::optional<Order> findCopiedOrder(FusionOp fusion) {
  Block &body = fusion.getBody().front();
  if (fusion.getInputs().size() != 1 || fusion.getNumResults() != 1 ||
      !llvm::hasNItems(body.without_terminator(), 1))
    return std::nullopt;
  Operation *op = &body.front();
  if (op->getNumOperands() != 1 || op->getOperand(0) != body.getArgument(0) ||
      body.getTerminator()->getOperand(0).getDefiningOp() != op)
    return std::nullopt;
  return getPermutation(op);
}

/// The body of a kernel with the axes of one of its results, and of all that has these axes, in
/// another order.
class Reordered {
public:
  /// The last axis stays where it is.
  Reordered(OpResult result, ArrayRef<int64_t> order)
      : fusion(cast<FusionOp>(result.getOwner())), number(result.getResultNumber()),
        space(getDims(result)), order(order), block(std::make_unique<Block>()),
        builder(fusion.getContext()) {
    assert(!order.empty() && order.back() + 1 == int64_t(order.size()) && "rows stay whole");
    builder.setInsertionPointToEnd(block.get());
  }

  /// Whether it could be made; `obstacle` says why not.
  bool build() {
    Block &body = fusion.getBody().front();
    for (BlockArgument argument : body.getArguments()) {
      Value copy = block->addArgument(argument.getType(), argument.getLoc());
      made[argument].push_back({identityOrder(getRank(copy)), copy});
    }
    for (Operation &op : body.without_terminator())
      if (!build(&op))
        return false;
    SmallVector<Value> yielded;
    // Sums over all rows are of no order; what is stored for each row of another result is.
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
      Value copy = find(value, i == number ? Order(order) : identityOrder(getRank(value)));
      if (!copy) {
        obstacle = "another result of the kernel is read with its axes as they are";
        return false;
      }
      yielded.push_back(copy);
    }
    YieldOp::create(builder, body.getTerminator()->getLoc(), yielded);
    return true;
  }
  StringRef getObstacle() const { return obstacle; }

  /// Takes the kernel's place. The old one stays until its readers have been told.
  FusionOp replace() {
    OpBuilder outer(fusion);
    auto copy = FusionOp::create(outer, fusion.getLoc(),
                                 ValueRange(block->getTerminator()->getOperands()).getTypes(),
                                 fusion.getInputs());
    copy.getBody().push_back(block.release());
    return copy;
  }

private:
  /// A value of the old body with its axes in an order. Inputs may have several, which cost index
  /// arithmetic only; what is computed has one, as a second one would be computed twice.
  struct Copy {
    Order order;
    Value value;
  };

  /// The order of what has the axes of the result: all but the last one, which may be shorter (half
  /// a row) or not there (what a row was reduced to). None for others, as vectors of parameters.
  std::optional<Order> orderOf(Value value) const {
    SmallVector<DimAttr> dims = getDims(value);
    ArrayRef<DimAttr> kept = ArrayRef(space).drop_back();
    if ((dims.size() != space.size() && dims.size() != kept.size()) ||
        ArrayRef(dims).take_front(kept.size()) != kept)
      return std::nullopt;
    return Order(ArrayRef(order).take_front(dims.size()));
  }

  Value find(Value value, ArrayRef<int64_t> wanted) const {
    auto copies = made.find(value);
    assert(copies != made.end() && "what makes a value stands before what reads it");
    for (const Copy &copy : copies->second)
      if (copy.order == wanted)
        return copy.value;
    return {};
  }
  /// What is computed is there in one order; inputs are read in any.
  Value get(Value value, ArrayRef<int64_t> wanted, Location loc) {
    if (Value copy = find(value, wanted))
      return copy;
    if (!isa<BlockArgument>(value)) {
      obstacle = "what the kernel computes would be read in two orders";
      return {};
    }
    Value copy = TrainBuilder(builder, loc).transpose(made[value].front().value, wanted);
    made[value].push_back({Order(wanted), copy});
    return copy;
  }

  bool build(Operation *op) {
    // Transposed inputs are inputs in another order.
    if (std::optional<Order> permutation = getPermutation(op)) {
      const Order wanted =
          orderOf(op->getResult(0)).value_or(identityOrder(getRank(op->getResult(0))));
      Value copy = get(op->getOperand(0), composeOrders(*permutation, wanted), op->getLoc());
      if (copy)
        made[op->getResult(0)].push_back({wanted, copy});
      return bool(copy);
    }
    const std::optional<AxisOrders> orders = findOrders(op);
    if (!orders) {
      obstacle = "an op of the kernel has its axes in one order";
      return false;
    }
    SmallVector<Value> operands;
    for (auto [operand, wanted] : llvm::zip_equal(op->getOperands(), orders->operands)) {
      operands.push_back(get(operand, wanted, op->getLoc()));
      if (!operands.back())
        return false;
    }
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> results = cast<ReorderOpInterface>(op).buildReordered(tb, operands, *orders);
    for (auto [result, copy, its] : llvm::zip_equal(op->getResults(), results, orders->results))
      made[result].push_back({its, copy});
    return true;
  }

  /// Asked of the op, whatever it is: most follow their loops, reshapes their groups of axes.
  /// By the one of its values with most axes that has an order of its own; all others follow.
  std::optional<AxisOrders> findOrders(Operation *op) const {
    auto reorder = dyn_cast<ReorderOpInterface>(op);
    if (!reorder)
      return std::nullopt;
    // A reduced axis is no axis of the result, which says nothing of where it goes.
    unsigned number = op->getNumOperands();
    Order its = identityOrder(getRank(op->getResult(0)));
    bool isFound = false;
    SmallVector<Value> values(op->getOperands());
    llvm::append_range(values, op->getResults());
    for (auto [i, value] : llvm::enumerate(values))
      if (std::optional<Order> known = orderOf(value);
          known && (!isFound || known->size() > its.size())) {
        number = i;
        its = *known;
        isFound = true;
      }
    return reorder.getOrders(number, its);
  }

  FusionOp fusion;
  const unsigned number;
  const SmallVector<DimAttr> space;
  const Order order;
  std::unique_ptr<Block> block;
  OpBuilder builder;
  llvm::DenseMap<Value, SmallVector<Copy>> made;
  StringRef obstacle;
};

class PlaceRowsPass : public trainc::impl::PlaceRowsPassBase<PlaceRowsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    for (FusionOp fusion :
         llvm::make_early_inc_range(getOperation().getBody().front().getOps<FusionOp>()))
      if (std::optional<Order> order = findCopiedOrder(fusion))
        place(fusion, *order);
  }

private:
  /// Where `copying` is a kernel of its own only because its maker stores another order.
  void place(FusionOp copying, ArrayRef<int64_t> order) {
    auto rows = dyn_cast<OpResult>(copying.getInputs().front());
    auto maker = rows ? dyn_cast<FusionOp>(rows.getOwner()) : FusionOp();
    // Others that read the rows need them where they are; and where the last axis moves, elements
    // would be stored one by one.
    if (!maker || !rows.hasOneUse() || order.back() + 1 != int64_t(order.size()))
      return;
    Reordered reordered(rows, order);
    // Nothing has been changed where it could not be built.
    if (!reordered.build()) {
      remark::missed(copying.getLoc(), options("KeptApart"))
          << remark::add("{0} copies rows of {1}", describeOp(copying), describeOp(maker))
          << remark::reason("{0}", reordered.getObstacle());
      return;
    }
    // The copy's readers read the maker's result; all others read what they read before.
    FusionOp placed = reordered.replace();
    remark::passed(placed.getLoc(), options("Placed"))
        << remark::add("{0} stores rows where they are read", describeOp(placed));
    copying.getResult(0).replaceAllUsesWith(placed.getResult(rows.getResultNumber()));
    copying.erase();
    for (auto [from, to] : llvm::zip_equal(maker.getResults(), placed.getResults()))
      from.replaceAllUsesWith(to);
    maker.erase();
  }

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("place-rows").function(getOperation().getName());
  }
};
} // namespace
