// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Projections that are merged compute what they did apart, gradients included; and scheduled for a
// GPU nothing is copied for it.
#include "PassHarness.h"

#include "dialects/Train/TrainDialect.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
/// Queries, keys and values with biases, heads behind them.
constexpr const char *kModel = R"(
func.func @forward(
    %q: tensor<16x8xf32> {train.role = "parameter", train.name = "q", train.trainable},
    %qb: tensor<16xf32> {train.role = "parameter", train.name = "qb", train.trainable},
    %k: tensor<16x8xf32> {train.role = "parameter", train.name = "k", train.trainable},
    %kb: tensor<16xf32> {train.role = "parameter", train.name = "kb", train.trainable},
    %v: tensor<8x8xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %vb: tensor<8xf32> {train.role = "parameter", train.name = "vb", train.trainable},
    %x: tensor<12x8xf32> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.tanh %x : tensor<12x8xf32>
  %1 = train.matmul %0, %q transposed : tensor<12x8xf32>, tensor<16x8xf32> -> tensor<12x16xf32>
  %2 = train.reshape %1 : tensor<12x16xf32> -> tensor<3x4x16xf32>
  %3 = train.broadcast %qb axes = [2] : tensor<16xf32> -> tensor<3x4x16xf32>
  %4 = train.add %2, %3 : tensor<3x4x16xf32>
  %5 = train.reshape %4 : tensor<3x4x16xf32> -> tensor<3x4x2x8xf32>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<3x4x2x8xf32> -> tensor<3x2x4x8xf32>
  %7 = train.matmul %0, %k transposed : tensor<12x8xf32>, tensor<16x8xf32> -> tensor<12x16xf32>
  %8 = train.reshape %7 : tensor<12x16xf32> -> tensor<3x4x16xf32>
  %9 = train.broadcast %kb axes = [2] : tensor<16xf32> -> tensor<3x4x16xf32>
  %10 = train.add %8, %9 : tensor<3x4x16xf32>
  %11 = train.reshape %10 : tensor<3x4x16xf32> -> tensor<3x4x2x8xf32>
  %12 = train.transpose %11 permutation = [0, 2, 1, 3] : tensor<3x4x2x8xf32> -> tensor<3x2x4x8xf32>
  %13 = train.matmul %0, %v transposed : tensor<12x8xf32>, tensor<8x8xf32> -> tensor<12x8xf32>
  %14 = train.reshape %13 : tensor<12x8xf32> -> tensor<3x4x8xf32>
  %15 = train.broadcast %vb axes = [2] : tensor<8xf32> -> tensor<3x4x8xf32>
  %16 = train.add %14, %15 : tensor<3x4x8xf32>
  %17 = train.reshape %16 : tensor<3x4x8xf32> -> tensor<3x4x2x4xf32>
  %18 = train.transpose %17 permutation = [0, 2, 1, 3] : tensor<3x4x2x4xf32> -> tensor<3x2x4x4xf32>
  %19 = train.matmul %6, %12 transposed : tensor<3x2x4x8xf32>, tensor<3x2x4x8xf32> -> tensor<3x2x4x4xf32>
  %20 = train.softmax %19 axis = 3 : tensor<3x2x4x4xf32>
  %21 = train.matmul %20, %18 : tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32> -> tensor<3x2x4x4xf32>
  %22 = train.mul %21, %21 : tensor<3x2x4x4xf32>
  %23 = train.reduce sum %22 axes = [0, 1, 2, 3] : tensor<3x2x4x4xf32> -> tensor<f32>
  return %23 : tensor<f32>
})";

class MergeProjections : public ::testing::Test {
protected:
  PassHarness harness;
};
} // namespace

TEST_F(MergeProjections, computesTheSame) {
  auto apart = harness.run(kModel, "canonicalize,cse,autodiff,canonicalize,cse");
  auto merged = harness.run(kModel, "canonicalize,cse,func.func(merge-projections,mixed-precision{"
                                    "type=bf16}),autodiff,canonicalize,cse");
  ASSERT_TRUE(apart && merged);
  auto expected = harness.evaluate(*apart, "gradients", {{"grad_scale", {1}}});
  auto actual = harness.evaluate(*merged, "gradients", {{"grad_scale", {1}}});
  ASSERT_EQ(expected.size(), 7u);
  for (auto &[name, tensors] : expected)
    for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
      ASSERT_NEAR(e, a, 1e-12) << name;
  // In @forward and in @gradients two of attention and the projections; in @gradients four for
  // attention and those for the weights (x needs no gradient).
  EXPECT_EQ(countOps(*apart, "train.matmul"), 2 * (2u + 3u) + 4u + 3u);
  EXPECT_EQ(countOps(*merged, "train.matmul"), 2 * (2u + 1u) + 4u + 1u);
}

TEST_F(MergeProjections, needsNoCopy) {
  auto merged = harness.run(
      kModel, "canonicalize,cse,func.func(merge-projections,mixed-precision{type=bf16}),autodiff,"
              "canonicalize,cse,decompose,canonicalize,cse,func.func(fuse-epilogues,"
              "accumulate-products),canonicalize,cse,func.func(form-kernels)");
  ASSERT_TRUE(merged);
  // Only weights, with their biases, are beside each other by kernels, which round them.
  unsigned ofGradients = 0, ofParameters = 0;
  merged->walk([&](Operation *op) {
    if (op->getName().getStringRef() != "train.concat")
      return;
    const bool inKernel = isa<train::FusionOp>(op->getParentOp());
    (inKernel ? ofParameters : ofGradients) += 1;
    if (inKernel)
      EXPECT_TRUE(isa<BlockArgument>(op->getOperand(0)) ||
                  isa<BlockArgument>(op->getOperand(0).getDefiningOp()->getOperand(0)));
  });
  EXPECT_EQ(ofGradients, 1u);
  // In @forward and in @gradients.
  EXPECT_EQ(ofParameters, 2 * 2u);
}
