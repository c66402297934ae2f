// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GELU in the ways that it is written out: raised, and the same values.
#include "PassHarness.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
struct Form {
  const char *name;
  /// From %x to %y.
  const char *body;
  bool raised = true;
};
#define T ": tensor<7xf32>\n"
#define NUMBER(name, value) name " = train.full " value " : f32 " T
#define NUMBERS                                                                                    \
  NUMBER("%one", "1.0")                                                                            \
  NUMBER("%half", "0.5")                                                                           \
  NUMBER("%k", "0.79788458")                                                                       \
  NUMBER("%c", "0.044715")                                                                         \
  NUMBER("%three", "3.0")                                                                          \
  NUMBER("%two", "2.0") NUMBER("%root2", "1.41421354") NUMBER("%inverse", "0.707106769")

const Form forms[] = {
    {"erfDivided",
     "%a = train.div %x, %root2 " T "%e = train.erf %a " T "%s = train.add %e, %one " T
     "%h = train.mul %x, %half " T "%y = train.mul %h, %s " T},
    {"erfHalfLast",
     "%a = train.mul %inverse, %x " T "%e = train.erf %a " T "%s = train.add %one, %e " T
     "%q = train.mul %x, %s " T "%y = train.mul %q, %half " T},
    {"erfHalfInside",
     "%a = train.mul %x, %inverse " T "%e = train.erf %a " T "%h = train.mul %e, %half " T
     "%s = train.add %h, %half " T "%y = train.mul %s, %x " T},
    {"tanhProducts",
     "%x2 = train.mul %x, %x " T "%x3 = train.mul %x2, %x " T "%a = train.mul %x3, %c " T
     "%b = train.add %x, %a " T "%u = train.mul %b, %k " T "%t = train.tanh %u " T
     "%s = train.add %t, %one " T "%h = train.mul %x, %half " T "%y = train.mul %h, %s " T},
    {"tanhPower",
     "%x3 = train.pow %x, %three " T "%a = train.mul %c, %x3 " T "%b = train.add %x, %a " T
     "%u = train.mul %k, %b " T "%t = train.tanh %u " T "%s = train.add %one, %t " T
     "%h = train.mul %half, %x " T "%y = train.mul %h, %s " T},
    {"tanhSquare",
     "%x2 = train.pow %x, %two " T "%a = train.mul %c, %x2 " T "%b = train.add %one, %a " T
     "%kx = train.mul %k, %x " T "%u = train.mul %kx, %b " T "%t = train.tanh %u " T
     "%s = train.add %one, %t " T "%h = train.mul %half, %s " T "%y = train.mul %h, %x " T},
    // Near misses.
    {"otherSlope",
     "%a = train.mul %x, %half " T "%e = train.erf %a " T "%s = train.add %e, %one " T
     "%h = train.mul %x, %half " T "%y = train.mul %h, %s " T,
     false},
    {"minus",
     "%a = train.div %x, %root2 " T "%e = train.erf %a " T "%s = train.sub %one, %e " T
     "%h = train.mul %x, %half " T "%y = train.mul %h, %s " T,
     false},
    {"otherFactor",
     "%a = train.div %x, %root2 " T "%e = train.erf %a " T "%s = train.add %e, %one " T
     "%h = train.mul %z, %half " T "%y = train.mul %h, %s " T,
     false},
    {"noHalf",
     "%a = train.div %x, %root2 " T "%e = train.erf %a " T "%s = train.add %e, %one " T
     "%y = train.mul %x, %s " T,
     false},
};

class RaiseIdioms : public ::testing::TestWithParam<Form> {
protected:
  PassHarness harness;
};
} // namespace

TEST_P(RaiseIdioms, computesTheSame) {
  // x is a product itself: it must not be taken apart.
  std::string text = R"(func.func @forward(
      %p: tensor<7xf32> {train.role = "parameter", train.name = "p", train.trainable},
      %z: tensor<7xf32> {train.role = "input", train.name = "z"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %x = train.mul %p, %z : tensor<7xf32>
)" NUMBERS + std::string(GetParam().body) +
                     R"(
  %w = train.mul %y, %z : tensor<7xf32>
  %loss = train.reduce sum %w axes = [0] : tensor<7xf32> -> tensor<f32>
  return %loss : tensor<f32>
})";
  auto parts = harness.run(text, "autodiff");
  auto raised = harness.run(text, "func.func(raise-idioms),autodiff");
  ASSERT_TRUE(parts && raised);
  EXPECT_EQ(countOps(*raised, "train.gelu_grad"), GetParam().raised ? 1u : 0u);
  EXPECT_EQ(countOps(*raised, "train.erf") + countOps(*raised, "train.tanh"),
            GetParam().raised ? 0u : 2u);
  auto expected = harness.evaluate(*parts, "gradients", {{"grad_scale", {1}}});
  auto actual = harness.evaluate(*raised, "gradients", {{"grad_scale", {1}}});
  ASSERT_EQ(expected.size(), 2u);
  // The constants were written in f32.
  for (auto &[name, tensors] : expected)
    for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
      ASSERT_NEAR(e, a, 1e-6) << name;
}
INSTANTIATE_TEST_SUITE_P(Forms, RaiseIdioms, ::testing::ValuesIn(forms),
                         [](const ::testing::TestParamInfo<Form> &info) {
                           return std::string(info.param.name);
                         });
