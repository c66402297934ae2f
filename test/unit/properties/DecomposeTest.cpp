// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A composite's parts compute what the composite does, and kernels can be made of them.
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

using Decompositions = properties::SampleTest;

TEST_P(Decompositions, equalTheOp) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto decomposable = dyn_cast<DecomposableOpInterface>(instance.op);
  if (!decomposable)
    return;
  auto expected = instance.evaluate();
  OpBuilder builder(instance.op);
  TrainBuilder tb(builder, instance.op->getLoc());
  SmallVector<Value> values;
  decomposable.decompose(tb, values);
  ASSERT_EQ(values.size(), expected.size());
  for (auto [value, result] : llvm::zip(values, instance.op->getResults()))
    ASSERT_EQ(value.getType(), result.getType());
  ASSERT_TRUE(succeeded(verify(*instance.module)));

  // Until nothing can be taken apart, as the pass does.
  instance.op->replaceAllUsesWith(values);
  instance.op->erase();
  bool kernels = true;
  for (Operation &op : instance.function.getBody().front().without_terminator()) {
    auto fusion = dyn_cast<FusionOpInterface>(op);
    kernels &=
        fusion && (fusion.getFusionRole() != FusionRole::None || isa<DecomposableOpInterface>(op));
  }
  EXPECT_TRUE(kernels) << "a part is neither a kernel's nor decomposable";
  auto actual = instance.evaluate(values);
  ASSERT_TRUE(succeeded(actual));
  for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(*actual, expected)))
    expectEqual(std::get<0>(pair), std::get<1>(pair), 1e-9, "result " + std::to_string(index));
}

TRAINC_FOR_EACH_SAMPLE(Decompositions);
