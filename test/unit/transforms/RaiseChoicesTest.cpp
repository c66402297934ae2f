// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vectors that choose a matrix each, in blocks of one matrix: the same loss and gradients.
#include "PassHarness.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

/// Vectors that choose unevenly among three matrices, which stand on either side of the product.
TEST(RaiseChoices, computesTheSame) {
  const std::string text = R"(func.func @forward(
      %p: tensor<3x4x5xf32> {train.role = "parameter", train.name = "p", train.trainable},
      %x: tensor<13x5xf32> {train.role = "parameter", train.name = "x", train.trainable},
      %z: tensor<13x5xf32> {train.role = "input", train.name = "z"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %row = train.iota 0 : tensor<13xi64>
  %square = train.mul %row, %row : tensor<13xi64>
  %seven = train.full 7 : i64 : tensor<13xi64>
  %rest = train.mod %square, %seven : tensor<13xi64>
  %last = train.full 2 : i64 : tensor<13xi64>
  %chosen = train.min %rest, %last : tensor<13xi64>
  %tuples = train.reshape %chosen : tensor<13xi64> -> tensor<13x1xi64>
  %left = train.gather_nd %p, %tuples batch_dims = 0 : tensor<3x4x5xf32>, tensor<13x1xi64> -> tensor<13x4x5xf32>
  %column = train.reshape %x : tensor<13x5xf32> -> tensor<13x5x1xf32>
  %0 = train.matmul %left, %column : tensor<13x4x5xf32>, tensor<13x5x1xf32> -> tensor<13x4x1xf32>
  %right = train.gather %p, %chosen axis = 0 : tensor<3x4x5xf32>, tensor<13xi64> -> tensor<13x4x5xf32>
  %line = train.reshape %0 : tensor<13x4x1xf32> -> tensor<13x1x4xf32>
  %1 = train.matmul %line, %right : tensor<13x1x4xf32>, tensor<13x4x5xf32> -> tensor<13x1x5xf32>
  %2 = train.reshape %1 : tensor<13x1x5xf32> -> tensor<13x5xf32>
  %3 = train.mul %2, %z : tensor<13x5xf32>
  %loss = train.reduce sum %3 axes = [0, 1] : tensor<13x5xf32> -> tensor<f32>
  return %loss : tensor<f32>
})";
  PassHarness harness;
  auto parts = harness.run(text, "autodiff");
  auto raised = harness.run(text, "func.func(raise-choices),cse,autodiff");
  ASSERT_TRUE(parts && raised);
  EXPECT_EQ(countOps(*raised, "train.gather_nd"), 0u);
  auto expected = harness.evaluate(*parts, "gradients", {{"grad_scale", {1}}});
  auto actual = harness.evaluate(*raised, "gradients", {{"grad_scale", {1}}});
  ASSERT_EQ(expected.size(), 3u);
  for (auto &[name, tensors] : expected)
    for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
      ASSERT_NEAR(e, a, 1e-9) << name;
}
