// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whatever order an op says it can be computed in, it computes the same in it.
#include "dialects/Train/Reorder/Reorder.h"
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
class Orders : public properties::SampleTest {
protected:
  static std::string text(ArrayRef<int64_t> order) {
    std::string text = "[";
    for (int64_t axis : order)
      text += " " + std::to_string(axis);
    return text + " ]";
  }

  static void expectOrders(ValueRange values, ArrayRef<SmallVector<int64_t>> orders) {
    ASSERT_EQ(orders.size(), values.size());
    for (auto [value, order] : llvm::zip_equal(values, orders)) {
      SmallVector<int64_t> sorted = order;
      llvm::sort(sorted);
      EXPECT_EQ(sorted, identityOrder(getRank(value))) << text(order);
    }
  }

  void check(unsigned value, ArrayRef<int64_t> order) {
    Instance instance(*context, sample());
    Operation *op = instance.op;
    std::optional<AxisOrders> orders = cast<ReorderOpInterface>(op).getOrders(value, order);
    if (!orders)
      return;
    expectOrders(op->getOperands(), orders->operands);
    expectOrders(op->getResults(), orders->results);
    const unsigned operands = op->getNumOperands();
    EXPECT_EQ(value < operands ? orders->operands[value] : orders->results[value - operands],
              SmallVector<int64_t>(order));
    SmallVector<HostTensor> expected = instance.evaluate();
    OpBuilder builder(context.get());
    builder.setInsertionPointAfter(op);
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> moved, back;
    for (auto [operand, to] : llvm::zip_equal(op->getOperands(), orders->operands))
      moved.push_back(tb.transpose(operand, to));
    SmallVector<Value> results = cast<ReorderOpInterface>(op).buildReordered(tb, moved, *orders);
    for (auto [result, to, like] : llvm::zip_equal(results, orders->results, op->getResults())) {
      EXPECT_EQ(getDims(result), inOrder(getDims(like), to));
      back.push_back(tb.transpose(result, inverseOrder(to)));
    }
    EXPECT_TRUE(succeeded(verify(*instance.module))) << text(order);
    auto actual = instance.evaluate(back);
    EXPECT_TRUE(succeeded(actual));
    if (succeeded(actual))
      for (auto [result, tensor] : llvm::zip_equal(*actual, expected))
        expectEqual(result, tensor, 1e-12, "in order " + text(order));
  }
};
} // namespace

TEST_P(Orders, computeTheSame) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto reorder = dyn_cast<ReorderOpInterface>(instance.op);
  if (!reorder)
    return;
  SmallVector<Value> values(instance.op->getOperands());
  llvm::append_range(values, instance.op->getResults());
  for (auto [number, value] : llvm::enumerate(values)) {
    SmallVector<int64_t> order = identityOrder(getRank(value));
    do {
      check(number, order);
    } while (std::next_permutation(order.begin(), order.end()) && !HasFailure());
  }
}

TRAINC_FOR_EACH_SAMPLE(Orders);

TEST(Permutations, areThoseOfTransposesAlone) {
  auto context = properties::makeContext();
  for (const properties::Sample &sample : properties::getSamples()) {
    Instance instance(*context, sample);
    std::optional<SmallVector<int64_t>> order = getPermutation(instance.op);
    if (!order)
      continue;
    OpBuilder builder(context.get());
    builder.setInsertionPointAfter(instance.op);
    TrainBuilder tb(builder, instance.op->getLoc());
    SmallVector<HostTensor> expected = instance.evaluate();
    auto actual = instance.evaluate(tb.transpose(instance.op->getOperand(0), *order));
    ASSERT_TRUE(succeeded(actual)) << sample.op;
    expectEqual((*actual)[0], expected[0], 0, sample.op);
  }
}
