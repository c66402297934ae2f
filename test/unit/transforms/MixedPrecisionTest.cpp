// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rounding left aside (the reference evaluator has none), low precision changes no value; and the
// backward products run in the low type as well.
#include "PassHarness.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
constexpr const char *kModel = R"(
train.symbol @batch min 1 input "x" axis 0
func.func @forward(
    %a: tensor<8x12xf32> {train.role = "parameter", train.name = "a", train.trainable},
    %b: tensor<4x4xf32> {train.role = "parameter", train.name = "b", train.trainable},
    %x: tensor<?x8xf32, #train.dims<batch, 8>> {train.role = "input", train.name = "x"})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = train.tanh %x : tensor<?x8xf32, #train.dims<batch, 8>>
  %1 = train.matmul %0, %a : tensor<?x8xf32, #train.dims<batch, 8>>, tensor<8x12xf32> -> tensor<?x12xf32, #train.dims<batch, 12>>
  %2:3 = train.split %1 axis = 1 : (tensor<?x12xf32, #train.dims<batch, 12>>) -> (tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x4xf32, #train.dims<batch, 4>>)
  %3 = train.matmul %2#0, %2#1 transposed : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x?xf32, #train.dims<batch, batch>>
  %4 = train.softmax %3 axis = 1 : tensor<?x?xf32, #train.dims<batch, batch>>
  %5 = train.matmul %4, %2#2 : tensor<?x?xf32, #train.dims<batch, batch>>, tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %6 = train.matmul %5, %b : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %7 = train.matmul %5, %b transposed : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32> -> tensor<?x4xf32, #train.dims<batch, 4>>
  %8 = train.mul %6, %7 : tensor<?x4xf32, #train.dims<batch, 4>>
  %9 = train.reduce sum %8 axes = [0, 1] : tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<f32>
  return %9 : tensor<f32>
})";

class MixedPrecision : public ::testing::TestWithParam<const char *> {
protected:
  PassHarness harness;
};
} // namespace

TEST_P(MixedPrecision, computesTheSame) {
  auto plain = harness.run(kModel, "canonicalize,cse,autodiff,canonicalize,cse");
  auto lowered = harness.run(kModel, std::string("canonicalize,cse,func.func(mixed-precision{") +
                                         GetParam() + "}),autodiff,canonicalize,cse");
  ASSERT_TRUE(plain && lowered);
  reference::SymbolValues symbols;
  symbols.values["batch"] = 5;
  auto expected = harness.evaluate(*plain, "gradients", {{"grad_scale", {1}}}, symbols);
  auto actual = harness.evaluate(*lowered, "gradients", {{"grad_scale", {1}}}, symbols);
  ASSERT_EQ(expected.size(), 3u);
  for (auto &[name, tensors] : expected)
    for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
      ASSERT_NEAR(e, a, 1e-12) << name;

  // Of all products, those of the backward included.
  unsigned products = 0;
  lowered->walk([&](train::LowPrecisionOpInterface op) {
    ++products;
    for (Value value : op->getOperands())
      EXPECT_EQ(getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(), 16u);
    for (Value value : op->getResults())
      EXPECT_EQ(getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(), 16u);
  });
  unsigned before = 0;
  plain->walk([&](train::LowPrecisionOpInterface) { ++before; });
  EXPECT_EQ(products, before);
}
INSTANTIATE_TEST_SUITE_P(Types, MixedPrecision,
                         ::testing::Values("type=bf16", "type=f16", "type=bf16 parameters"));
