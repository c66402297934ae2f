// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rounding left aside (the reference evaluator has none), a training step with epilogues computes
// what it did without them.
#include "PassHarness.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
constexpr const char *kModel = R"(
#x = #train.dims<batch, 3, 8>
#h = #train.dims<batch, 3, 16>
#r = #train.dims<3*batch, 8>
#s = #train.dims<3*batch, 16>
train.symbol @batch min 1 input "x" axis 0
func.func @forward(
    %w: tensor<8x16xf32> {train.role = "parameter", train.name = "w", train.trainable},
    %b: tensor<16xf32> {train.role = "parameter", train.name = "b", train.trainable},
    %v: tensor<8x16xf32> {train.role = "parameter", train.name = "v", train.trainable},
    %c: tensor<8xf32> {train.role = "parameter", train.name = "c", train.trainable},
    %x: tensor<?x3x8xf32, #x> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.reshape %x : tensor<?x3x8xf32, #x> -> tensor<?x8xf32, #r>
  %1 = train.matmul %0, %w : tensor<?x8xf32, #r>, tensor<8x16xf32> -> tensor<?x16xf32, #s>
  %2 = train.broadcast %b axes = [1] : tensor<16xf32> -> tensor<?x16xf32, #s>
  %3 = train.add %1, %2 : tensor<?x16xf32, #s>
  %4 = train.reshape %3 : tensor<?x16xf32, #s> -> tensor<?x3x16xf32, #h>
  %5 = train.gelu %4 tanh : tensor<?x3x16xf32, #h>
  %6 = train.reshape %5 : tensor<?x3x16xf32, #h> -> tensor<?x16xf32, #s>
  %7 = train.matmul %6, %v transposed : tensor<?x16xf32, #s>, tensor<8x16xf32> -> tensor<?x8xf32, #r>
  %8 = train.broadcast %c axes = [1] : tensor<8xf32> -> tensor<?x8xf32, #r>
  %9 = train.add %7, %8 : tensor<?x8xf32, #r>
  %10 = train.matmul %9, %9 transposed : tensor<?x8xf32, #r>, tensor<?x8xf32, #r> -> tensor<?x?xf32, #train.dims<3*batch, 3*batch>>
  %11 = train.reduce sum %10 axes = [0, 1] : tensor<?x?xf32, #train.dims<3*batch, 3*batch>> -> tensor<f32>
  return %11 : tensor<f32>
})";

class FuseEpilogues : public ::testing::TestWithParam<const char *> {
protected:
  PassHarness harness;
};
} // namespace

TEST_P(FuseEpilogues, computesTheSame) {
  std::string pipeline = std::string("canonicalize,cse,func.func(mixed-precision{") + GetParam() +
                         "}),autodiff,canonicalize,cse";
  auto plain = harness.run(kModel, pipeline);
  auto fused =
      harness.run(kModel, pipeline + ",decompose,func.func(fuse-epilogues),canonicalize,cse");
  ASSERT_TRUE(plain && fused);
  // One bias, one GELU with its bias, and their gradients.
  unsigned epilogues = 0;
  fused->walk([&](train::MatmulOp op) { epilogues += op.getEpilogue().has_value(); });
  EXPECT_GE(epilogues, 3u);
  EXPECT_EQ(countOps(*fused, "train.gelu_grad"), 0u);
  reference::SymbolValues symbols;
  symbols.values["batch"] = 5;
  auto expected = harness.evaluate(*plain, "gradients", {{"grad_scale", {1}}}, symbols);
  auto actual = harness.evaluate(*fused, "gradients", {{"grad_scale", {1}}}, symbols);
  ASSERT_EQ(expected.size(), 5u);
  for (auto &[name, tensors] : expected)
    for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
      ASSERT_NEAR(e, a, 1e-10 * (1 + std::abs(e))) << name;
}
INSTANTIATE_TEST_SUITE_P(Types, FuseEpilogues,
                         ::testing::Values("type=bf16", "type=f16", "type=bf16 parameters"));
