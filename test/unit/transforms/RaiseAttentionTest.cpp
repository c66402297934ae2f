// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention in parts and as one op: the same loss and the same gradients, in double, in all the
// ways that scores are scaled and masked, with rows that see no column among them.
#include "PassHarness.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
#define SCORES "tensor<2x4x6x6xf32>"
#define MASK "tensor<2x4x6x6xi1>"
#define SMALL "tensor<2x1x6x6xf32>"
#define SMALLMASK "tensor<2x1x6x6xi1>"

/// Ops between the scores %s and the weights %p.
struct Form {
  const char *name;
  const char *body;
  /// What the op has to say of itself.
  bool causal, bias;
  const char *type = "bf16";
  /// Rows that see nothing get the mean of v from outside of the op.
  bool restoresMean = false;
  /// -1: none.
  int before = -1, after = -1;
};

/// Where column <= row.
#define CAUSAL                                                                                     \
  "%j = train.iota 3 : tensor<2x1x6x6xi64>\n"                                                      \
  "%i = train.iota 2 : tensor<2x1x6x6xi64>\n"                                                      \
  "%causal = train.compare le %j, %i : tensor<2x1x6x6xi64> -> " SMALLMASK "\n"
/// Where the column's token is none of padding.
#define VALID                                                                                      \
  "%valid1 = train.cast %mask : tensor<2x6xi64> -> tensor<2x6xi1>\n"                               \
  "%valid = train.broadcast %valid1 axes = [0, 3] : tensor<2x6xi1> -> " SMALLMASK "\n"
/// Where column > row - 3, and where the two are at most 2 apart.
#define WINDOW                                                                                     \
  CAUSAL                                                                                           \
  "%three = train.full 3 : i64 : tensor<2x1x6x6xi64>\n"                                            \
  "%first = train.sub %i, %three : tensor<2x1x6x6xi64>\n"                                          \
  "%near = train.compare gt %j, %first : tensor<2x1x6x6xi64> -> " SMALLMASK "\n"                   \
  "%window = train.and %causal, %near : " SMALLMASK "\n"
#define APART                                                                                      \
  "%j = train.iota 3 : tensor<2x1x6x6xi64>\n"                                                      \
  "%i = train.iota 2 : tensor<2x1x6x6xi64>\n"                                                      \
  "%apart = train.sub %i, %j : tensor<2x1x6x6xi64>\n"                                              \
  "%none = train.full 0 : i64 : tensor<2x1x6x6xi64>\n"                                             \
  "%toward = train.sub %none, %apart : tensor<2x1x6x6xi64>\n"                                      \
  "%distance = train.max %apart, %toward : tensor<2x1x6x6xi64>\n"                                  \
  "%two = train.full 2 : i64 : tensor<2x1x6x6xi64>\n"                                              \
  "%within = train.compare le %distance, %two : tensor<2x1x6x6xi64> -> " SMALLMASK "\n"            \
  "%always = train.compare ge %i, %none : tensor<2x1x6x6xi64> -> " SMALLMASK "\n"                  \
  "%window = train.and %within, %always : " SMALLMASK "\n"
#define CONSTANTS(least)                                                                           \
  "%zero = train.full 0.0 : f32 : " SMALL "\n"                                                     \
  "%least = train.full " least " : f32 : " SMALL "\n"
#define SPREAD(from, to)                                                                           \
  "%spread1 = train.reshape " from " : " SMALL " -> tensor<2x6x6xf32>\n" to                        \
  " = train.broadcast %spread1 axes = [0, 2, 3] : tensor<2x6x6xf32> -> " SCORES "\n"
#define ADDED                                                                                      \
  SPREAD("%m", "%wide")                                                                            \
  "%masked = train.add %s, %wide : " SCORES "\n"
#define SOFTMAX "%p = train.softmax %masked axis = 3 : " SCORES "\n"
#define GUARDED "%p = train.softmax %masked axis = 3 guarded : " SCORES "\n"

const Form forms[] = {
    {"plain", "%p = train.softmax %s axis = 3 : " SCORES "\n", false, false},
    {"scaled",
     "%c = train.full 0.25 : f32 : " SCORES "\n%t = train.mul %s, %c : " SCORES "\n"
     "%p = train.softmax %t axis = 3 : " SCORES "\n",
     false, false},
    {"divided",
     "%c = train.full 8.0 : f32 : " SCORES "\n%t = train.div %s, %c : " SCORES "\n"
     "%p = train.softmax %t axis = 3 guarded : " SCORES "\n",
     false, false},
    {"causal",
     CAUSAL CONSTANTS("-3.40282347E+38") "%m = train.select %causal, %zero, %least : " SMALLMASK
                                         ", " SMALL "\n" ADDED SOFTMAX,
     true, false},
    {"causalInfinite",
     CAUSAL CONSTANTS("0xFF800000") "%m = train.select %causal, %zero, %least : " SMALLMASK
                                    ", " SMALL "\n" ADDED GUARDED,
     true, false},
    {"triangle",
     CAUSAL CONSTANTS(
         "-3.40282347E+38") "%one = train.full 1.0 : f32 : " SMALL "\n"
                            "%tril = train.select %causal, %one, %zero : " SMALLMASK ", " SMALL "\n"
                            "%off = train.compare eq %tril, %zero : " SMALL " -> " SMALLMASK "\n"
                            "%m = train.select %off, %least, %zero : " SMALLMASK ", " SMALL
                            "\n" ADDED SOFTMAX,
     true, false},
    // What is added and masked before the factor; slopes times columns hide none.
    {"scaledSlopes",
     "%half = train.full 0.5 : f32 : tensor<4xf32>\n"
     "%heads = train.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
     "%slopes = train.pow %half, %heads : tensor<4xf32>\n"
     "%columns = train.iota 0 : tensor<6xi64>\n"
     "%places = train.cast %columns : tensor<6xi64> -> tensor<6xf32>\n"
     "%perHead = train.broadcast %slopes axes = [0] : tensor<4xf32> -> tensor<4x6xf32>\n"
     "%perColumn = train.broadcast %places axes = [1] : tensor<6xf32> -> tensor<4x6xf32>\n"
     "%far1 = train.mul %perHead, %perColumn : tensor<4x6xf32>\n"
     "%far = train.broadcast %far1 axes = [1, 3] : tensor<4x6xf32> -> " SCORES "\n"
     "%biased = train.add %s, %far : " SCORES "\n" CAUSAL CONSTANTS(
         "-3.40282347E+38") "%m = train.select %causal, %zero, %least : " SMALLMASK ", " SMALL
                            "\n" SPREAD("%m", "%wide") "%sum = train.add %biased, %wide : " SCORES
                                                       "\n"
                                                       "%c = train.full 0.5 : f32 : " SCORES "\n"
                                                       "%masked = train.mul %sum, %c : " SCORES
                                                       "\n" SOFTMAX,
     true, true},
    {"constantTriangle",
     "%tri = train.constant dense<[[true, false, false, false, false, false, false], "
     "[true, true, false, false, false, false, false], [true, true, true, false, false, false, "
     "false], [true, true, true, true, false, false, false], [true, true, true, true, true, false, "
     "false], [true, true, true, true, true, true, false], [true, true, true, true, true, true, "
     "true]]> : tensor<7x7xi1>\n"
     "%cut = train.slice %tri starts = <0, 0> steps = [1, 1] : tensor<7x7xi1> -> tensor<6x6xi1>\n"
     "%wide = train.broadcast %cut axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full -3.40282347E+38 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %s, %least : " MASK ", " SCORES "\n" SOFTMAX,
     true, false},
    {"upper",
     "%j = train.iota 1 : tensor<6x6xi64>\n%i = train.iota 0 : tensor<6x6xi64>\n"
     "%above = train.compare gt %j, %i : tensor<6x6xi64> -> tensor<6x6xi1>\n"
     "%wide = train.broadcast %above axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full 0xFF800000 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %least, %s : " MASK ", " SCORES "\n" SOFTMAX,
     true, false},
    // One column further.
    {"shifted",
     "%j = train.iota 1 : tensor<6x6xi64>\n%i = train.iota 0 : tensor<6x6xi64>\n"
     "%one = train.full 1 : i64 : tensor<6x6xi64>\n%next = train.add %i, %one : tensor<6x6xi64>\n"
     "%below = train.compare le %j, %next : tensor<6x6xi64> -> tensor<6x6xi1>\n"
     "%wide = train.broadcast %below axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full 0xFF800000 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %s, %least : " MASK ", " SCORES "\n" SOFTMAX,
     false, false, "bf16", false, -1, 1},
    {"window",
     WINDOW CONSTANTS("-3.40282347E+38") "%m = train.select %window, %zero, %least : " SMALLMASK
                                         ", " SMALL "\n" ADDED SOFTMAX,
     true, false, "bf16", false, 2},
    {"windowOfTheRowAlone",
     CAUSAL CONSTANTS(
         "0xFF800000") "%own = train.compare ge %j, %i : tensor<2x1x6x6xi64> -> " SMALLMASK
                       "\n%both = train.and %own, %causal : " SMALLMASK "\n"
                       "%m = train.select %both, %zero, %least : " SMALLMASK ", " SMALL
                       "\n" ADDED SOFTMAX,
     true, false, "bf16", false, 0},
    {"windowOfBothSides",
     APART CONSTANTS("0xFF800000") "%m = train.select %window, %zero, %least : " SMALLMASK
                                   ", " SMALL "\n" ADDED GUARDED,
     false, false, "bf16", false, 2, 2},
    {"windowAndPadding",
     WINDOW VALID CONSTANTS("-3.40282347E+38") "%both = train.and %window, %valid : " SMALLMASK "\n"
                                               "%m = train.select %both, %zero, %least : " SMALLMASK
                                               ", " SMALL "\n" ADDED GUARDED,
     true, true, "bf16", true, 2},
    {"windowOfBothSidesAndPadding",
     APART VALID CONSTANTS("-3.40282347E+38") "%both = train.and %window, %valid : " SMALLMASK "\n"
                                              "%m = train.select %both, %zero, %least : " SMALLMASK
                                              ", " SMALL "\n" ADDED SOFTMAX,
     false, true, "bf16", true, 2, 2},
    {"windowOfBothSidesAndPaddingInfinite",
     APART VALID CONSTANTS("0xFF800000") "%both = train.and %window, %valid : " SMALLMASK "\n"
                                         "%m = train.select %both, %zero, %least : " SMALLMASK
                                         ", " SMALL "\n" ADDED GUARDED,
     false, true, "bf16", false, 2, 2},
    {"windowNegated",
     APART CONSTANTS("-3.40282347E+38") "%far = train.compare gt %distance, %two : "
                                        "tensor<2x1x6x6xi64> -> " SMALLMASK "\n"
                                        "%m = train.select %far, %least, %zero : " SMALLMASK
                                        ", " SMALL "\n" ADDED SOFTMAX,
     false, false, "bf16", false, 2, 2},
    {"windowConstant",
     "%band = train.constant dense<[[true, true, false, false, false, false], "
     "[true, true, true, false, false, false], [true, true, true, true, false, false], "
     "[true, true, true, true, true, false], [false, true, true, true, true, true], "
     "[false, false, true, true, true, true]]> : tensor<6x6xi1>\n"
     "%wide = train.broadcast %band axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full -3.40282347E+38 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %s, %least : " MASK ", " SCORES "\n" SOFTMAX,
     false, false, "bf16", false, 3, 1},
    // What looks like windows, but shows other columns: the mask stays.
    {"windowConstantWithAHole",
     "%band = train.constant dense<[[true, true, false, false, false, false], "
     "[true, true, true, false, false, false], [true, true, true, true, false, false], "
     "[true, true, false, true, true, false], [false, true, true, true, true, true], "
     "[false, false, true, true, true, true]]> : tensor<6x6xi1>\n"
     "%wide = train.broadcast %band axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full -3.40282347E+38 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %s, %least : " MASK ", " SCORES "\n" SOFTMAX,
     false, true},
    {"windowOfEarlierColumns",
     WINDOW CONSTANTS("0xFF800000") "%earlier = train.compare lt %j, %i : "
                                    "tensor<2x1x6x6xi64> -> " SMALLMASK "\n"
                                    "%both = train.and %near, %earlier : " SMALLMASK "\n"
                                    "%m = train.select %both, %zero, %least : " SMALLMASK ", " SMALL
                                    "\n" ADDED GUARDED,
     false, true, "bf16", false, 2},
    {"windowOfTwiceTheColumn",
     WINDOW CONSTANTS("-3.40282347E+38") "%twice = train.add %j, %j : tensor<2x1x6x6xi64>\n"
                                         "%odd = train.compare gt %twice, %first : "
                                         "tensor<2x1x6x6xi64> -> " SMALLMASK "\n"
                                         "%m = train.select %odd, %zero, %least : " SMALLMASK
                                         ", " SMALL "\n" ADDED SOFTMAX,
     false, true},
    {"strict",
     "%j = train.iota 1 : tensor<6x6xi64>\n%i = train.iota 0 : tensor<6x6xi64>\n"
     "%one = train.full 1 : i64 : tensor<6x6xi64>\n%next = train.add %i, %one : tensor<6x6xi64>\n"
     "%below = train.compare lt %j, %next : tensor<6x6xi64> -> tensor<6x6xi1>\n"
     "%wide = train.broadcast %below axes = [2, 3] : tensor<6x6xi1> -> " MASK "\n"
     "%least = train.full 0xFF800000 : f32 : " SCORES "\n"
     "%masked = train.select %wide, %s, %least : " MASK ", " SCORES "\n" SOFTMAX,
     true, false},
    {"padding",
     VALID CONSTANTS("-3.40282347E+38") "%m = train.select %valid, %zero, %least : " SMALLMASK
                                        ", " SMALL "\n" ADDED SOFTMAX,
     false, true},
    {"paddingInfinite",
     VALID CONSTANTS("0xFF800000") "%m = train.select %valid, %zero, %least : " SMALLMASK ", " SMALL
                                   "\n" ADDED GUARDED,
     false, true},
    {"causalAndPadding",
     CAUSAL VALID CONSTANTS("-3.40282347E+38") "%both = train.and %causal, %valid : " SMALLMASK "\n"
                                               "%m = train.select %both, %zero, %least : " SMALLMASK
                                               ", " SMALL "\n" ADDED GUARDED,
     true, true, "bf16", true},
    {"causalAndPaddingInfinite",
     CAUSAL VALID CONSTANTS("0xFF800000") "%both = train.and %causal, %valid : " SMALLMASK "\n"
                                          "%m = train.select %both, %zero, %least : " SMALLMASK
                                          ", " SMALL "\n" ADDED GUARDED,
     true, true},
    {"causalAndPaddingF16",
     CAUSAL VALID CONSTANTS("-3.40282347E+38") "%both = train.and %causal, %valid : " SMALLMASK "\n"
                                               "%m = train.select %both, %zero, %least : " SMALLMASK
                                               ", " SMALL "\n" ADDED GUARDED,
     true, true, "f16", true},
    {"paddingF16",
     VALID CONSTANTS("-3.40282347E+38") "%m = train.select %valid, %zero, %least : " SMALLMASK
                                        ", " SMALL "\n" ADDED SOFTMAX,
     false, true, "f16", true},
    {"onePlusOne",
     CAUSAL VALID CONSTANTS(
         "-3.40282347E+38") "%no = train.not %valid : " SMALLMASK "\n"
                            "%m1 = train.select %causal, %zero, %least : " SMALLMASK ", " SMALL "\n"
                            "%m = train.select %no, %least, %m1 : " SMALLMASK ", " SMALL
                            "\n" ADDED SOFTMAX,
     true, true, "bf16", true},
    {"inverted",
     VALID CONSTANTS("-3.40282347E+38") "%one = train.full 1.0 : f32 : " SMALL "\n"
                                        "%f = train.cast %valid : " SMALLMASK " -> " SMALL "\n"
                                        "%off = train.sub %one, %f : " SMALL "\n"
                                        "%m = train.mul %off, %least : " SMALL "\n" ADDED SOFTMAX,
     false, true},
    // Small numbers are no mask but a bias.
    {"tenThousand",
     VALID CONSTANTS("-10000.0") "%m = train.select %valid, %zero, %least : " SMALLMASK ", " SMALL
                                 "\n" ADDED SOFTMAX,
     false, true},
    {"bias",
     "%wide = train.broadcast %bias axes = [1, 2, 3] : tensor<4x6x6xf32> -> " SCORES "\n"
     "%masked = train.add %wide, %s : " SCORES "\n" SOFTMAX,
     false, true},
    {"biasAndCausal",
     CAUSAL CONSTANTS(
         "0xFF800000") "%b = train.broadcast %bias axes = [1, 2, 3] : tensor<4x6x6xf32> -> " SCORES
                       "\n%biased = train.add %s, %b : " SCORES "\n"
                       "%m = train.select %causal, %zero, %least : " SMALLMASK ", " SMALL
                       "\n" SPREAD("%m", "%wide") "%masked = train.add %biased, %wide : " SCORES
                                                  "\n" SOFTMAX,
     true, true},
};

/// Around the form: q, k and v as parameters, so that all have gradients.
std::string moduleOf(const Form &form, StringRef products, StringRef dropout) {
  std::string body = products.str() + form.body + dropout.str();
  return R"(func.func @forward(
      %q: tensor<2x4x6x8xf32> {train.role = "parameter", train.name = "q", train.trainable},
      %k: tensor<2x4x6x8xf32> {train.role = "parameter", train.name = "k", train.trainable},
      %v: tensor<2x4x6x8xf32> {train.role = "parameter", train.name = "v", train.trainable},
      %w: tensor<2x4x6x8xf32> {train.role = "input", train.name = "w"},
      %mask: tensor<2x6xi64> {train.role = "input", train.name = "mask"},
      %bias: tensor<4x6x6xf32> {train.role = "input", train.name = "bias"},
      %key: tensor<i64> {train.role = "input", train.name = "key"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
)" + body +
         R"(
  %o = train.matmul %d, %v : tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32> -> tensor<2x4x6x8xf32>
  %x = train.mul %o, %w : tensor<2x4x6x8xf32>
  %loss = train.reduce sum %x axes = [0, 1, 2, 3] : tensor<2x4x6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
)";
}
constexpr const char *kProduct = "%s = train.matmul %q, %k transposed : tensor<2x4x6x8xf32>, "
                                 "tensor<2x4x6x8xf32> -> " SCORES "\n";
constexpr const char *kNoDropout =
    "%one1 = train.full 1.0 : f32 : " SCORES "\n%d = train.mul %p, %one1 : " SCORES "\n";

class RaiseAttention : public ::testing::TestWithParam<Form> {
protected:
  PassHarness harness;

  void compare(const std::string &text, StringRef type, bool causal, bool bias,
               bool restoresMean = false, int before = -1, int after = -1,
               bool trainsBias = false) {
    std::string raise = "canonicalize,cse,func.func(raise-attention{type=" + type.str() +
                        (trainsBias ? " bias-gradient=true" : "") + "}),canonicalize,cse";
    auto parts = harness.run(text, "canonicalize,cse,autodiff");
    auto raised = harness.run(text, raise + ",autodiff");
    ASSERT_TRUE(parts && raised);
    EXPECT_EQ(countOps(*raised, "train.attention_grad"), 1u);
    EXPECT_EQ(countOps(*raised, "train.softmax"), 0u);
    raised->walk([&](train::AttentionOp op) {
      EXPECT_EQ(op.getCausal(), causal);
      EXPECT_EQ(bool(op.getBias()), bias);
      EXPECT_EQ(int(op.getBefore().value_or(-1)), before);
      EXPECT_EQ(int(op.getAfter().value_or(-1)), after);
    });
    struct Round {
      const char *what;
      std::vector<double> mask;
      bool dead;
    };
    const Round rounds[] = {
        {"padding behind", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, false},
        {"padding in front", {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, causal},
        {"a sequence without tokens", {0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0}, true},
    };
    for (const Round &round : rounds) {
      std::map<std::string, std::vector<double>> given = {
          {"mask", round.mask}, {"key", {12345678901}}, {"grad_scale", {1}}};
      auto expected = harness.evaluate(*parts, "gradients", given);
      auto actual = harness.evaluate(*raised, "gradients", given);
      ASSERT_EQ(expected.size(), trainsBias ? 5u : 4u);
      for (auto &[name, tensors] : expected) {
        // The parts differentiate through a sum that has absorbed the scores; see the pass.
        if (round.dead && restoresMean &&
            (name == "gradient:q" || name == "gradient:k" || name == "gradient:bias"))
          continue;
        for (auto [e, a] : llvm::zip_equal(tensors[0].data, actual[name][0].data))
          ASSERT_NEAR(e, a, 1e-9) << name << ", " << round.what;
      }
    }
  }
};
} // namespace

TEST_P(RaiseAttention, computesTheSame) {
  const Form &form = GetParam();
  compare(moduleOf(form, kProduct, kNoDropout), form.type, form.causal, form.bias,
          form.restoresMean, form.before, form.after);
}
INSTANTIATE_TEST_SUITE_P(Forms, RaiseAttention, ::testing::ValuesIn(forms),
                         [](const ::testing::TestParamInfo<Form> &info) {
                           return std::string(info.param.name);
                         });

TEST_F(RaiseAttention, takesFactorsOfBothSides) {
  compare(moduleOf(forms[0],
                   R"(
  %c = train.full 0.5 : f32 : tensor<2x6x4x8xf32>
  %q1 = train.transpose %q permutation = [0, 2, 1, 3] : tensor<2x4x6x8xf32> -> tensor<2x6x4x8xf32>
  %q2 = train.mul %q1, %c : tensor<2x6x4x8xf32>
  %q3 = train.transpose %q2 permutation = [0, 2, 1, 3] : tensor<2x6x4x8xf32> -> tensor<2x4x6x8xf32>
  %k1 = train.transpose %k permutation = [0, 2, 1, 3] : tensor<2x4x6x8xf32> -> tensor<2x6x4x8xf32>
  %k2 = train.div %k1, %c : tensor<2x6x4x8xf32>
  %k3 = train.transpose %k2 permutation = [0, 2, 3, 1] : tensor<2x6x4x8xf32> -> tensor<2x4x8x6xf32>
  %s = train.matmul %q3, %k3 : tensor<2x4x6x8xf32>, tensor<2x4x8x6xf32> -> tensor<2x4x6x6xf32>
)",
                   kNoDropout),
          "bf16", false, false);
}

// The library's mask is another one; the reference evaluator's is the same by definition.
TEST_F(RaiseAttention, keepsTheReferencesDropout) {
  compare(moduleOf(forms[3], kProduct,
                   "%d = train.dropout %p, %key {ratio = 0.3 : f64} : " SCORES ", tensor<i64>\n"),
          "bf16", true, false);
}

// Relative positions of T5: of all samples, under a causal mask, and with masks by sample, which
// fold the batch into the heads.
TEST_F(RaiseAttention, trainsABias) {
  const Form padded = {
      "biasAndPadding",
      VALID CONSTANTS(
          "-3.40282347E+38") "%b = train.broadcast %bias axes = [1, 2, 3] : tensor<4x6x6xf32> "
                             "-> " SCORES "\n%biased = train.add %s, %b : " SCORES "\n"
                             "%m = train.select %valid, %zero, %least : " SMALLMASK ", " SMALL
                             "\n" SPREAD("%m",
                                         "%wide") "%masked = train.add %biased, %wide : " SCORES
                                                  "\n" SOFTMAX,
      false, true};
  for (const Form &form : {forms[std::size(forms) - 2], forms[std::size(forms) - 1], padded})
    for (StringRef type : {"bf16", "f16"})
      for (std::string dims : {"4x6x6", "1x6x6", "4x1x6"}) {
        SCOPED_TRACE(std::string(form.name) + " " + type.str() + " " + dims);
        std::string text = moduleOf(form, kProduct, kNoDropout);
        auto replace = [&](const std::string &from, const std::string &to) {
          for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
            text.replace(at, from.size(), to);
        };
        replace("{train.role = \"input\", train.name = \"bias\"}",
                "{train.role = \"parameter\", train.name = \"bias\", train.trainable}");
        if (dims != "4x6x6") {
          // Repeated along an axis.
          const bool heads = dims[0] == '1';
          replace("%bias: tensor<4x6x6xf32>", "%small: tensor<" + dims + "xf32>");
          const std::string kept = heads ? "6x6" : "4x6";
          replace(
              "%s = train.matmul",
              "%fewer = train.reshape %small : tensor<" + dims + "xf32> -> tensor<" + kept +
                  "xf32>\n%bias = train.broadcast %fewer axes = " + (heads ? "[1, 2]" : "[0, 2]") +
                  " : tensor<" + kept + "xf32> -> tensor<4x6x6xf32>\n%s = train.matmul");
        }
        const bool infinite = form.causal;
        compare(text, type, form.causal, true, !infinite, -1, -1, /*trainsBias=*/true);
      }
}

// Products batched over samples and heads in one axis, softmax over both apart, as DeBERTa has
// them; the bias lies across the scores.
TEST_F(RaiseAttention, takesHeadsThatProductsMerge) {
  std::string text = R"(func.func @forward(
      %q: tensor<8x6x8xf32> {train.role = "parameter", train.name = "q", train.trainable},
      %k: tensor<8x6x8xf32> {train.role = "parameter", train.name = "k", train.trainable},
      %v: tensor<8x6x8xf32> {train.role = "parameter", train.name = "v", train.trainable},
      %bias: tensor<8x6x6xf32> {train.role = "parameter", train.name = "bias", train.trainable},
      %mask: tensor<2x6xi64> {train.role = "input", train.name = "mask"},
      %w: tensor<8x6x8xf32> {train.role = "input", train.name = "w"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %s = train.matmul %q, %k transposed : tensor<8x6x8xf32>, tensor<8x6x8xf32> -> tensor<8x6x6xf32>
  %two = train.full 2.0 : f32 : tensor<8x6x6xf32>
  %b = train.div %bias, %two : tensor<8x6x6xf32>
  %bt = train.transpose %b permutation = [0, 2, 1] : tensor<8x6x6xf32> -> tensor<8x6x6xf32>
  %both = train.add %b, %bt : tensor<8x6x6xf32>
  %biased = train.add %s, %both : tensor<8x6x6xf32>
  %apart = train.reshape %biased : tensor<8x6x6xf32> -> tensor<2x4x6x6xf32>
  %valid = train.cast %mask : tensor<2x6xi64> -> tensor<2x6xi1>
  %wide = train.broadcast %valid axes = [0, 3] : tensor<2x6xi1> -> tensor<2x4x6x6xi1>
  %least = train.full -3.40282347E+38 : f32 : tensor<2x4x6x6xf32>
  %m = train.select %wide, %apart, %least : tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
  %p = train.softmax %m axis = 3 : tensor<2x4x6x6xf32>
  %merged = train.reshape %p : tensor<2x4x6x6xf32> -> tensor<8x6x6xf32>
  %o = train.matmul %merged, %v : tensor<8x6x6xf32>, tensor<8x6x8xf32> -> tensor<8x6x8xf32>
  %x = train.mul %o, %w : tensor<8x6x8xf32>
  %loss = train.reduce sum %x axes = [0, 1, 2] : tensor<8x6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
})";
  compare(text, "bf16", false, true, /*restoresMean=*/true, -1, -1, /*trainsBias=*/true);
}

TEST_F(RaiseAttention, takesKeysBeforeTheyAreRepeated) {
  std::string text = R"(func.func @forward(
      %q: tensor<2x4x6x8xf32> {train.role = "parameter", train.name = "q", train.trainable},
      %k: tensor<2x2x6x8xf32> {train.role = "parameter", train.name = "k", train.trainable},
      %v: tensor<2x2x6x8xf32> {train.role = "parameter", train.name = "v", train.trainable},
      %w: tensor<2x4x6x8xf32> {train.role = "input", train.name = "w"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %k1 = train.broadcast %k axes = [0, 1, 3, 4] : tensor<2x2x6x8xf32> -> tensor<2x2x2x6x8xf32>
  %k2 = train.reshape %k1 : tensor<2x2x2x6x8xf32> -> tensor<2x4x6x8xf32>
  %v1 = train.broadcast %v axes = [0, 1, 3, 4] : tensor<2x2x6x8xf32> -> tensor<2x2x2x6x8xf32>
  %v2 = train.reshape %v1 : tensor<2x2x2x6x8xf32> -> tensor<2x4x6x8xf32>
  %kt = train.transpose %k2 permutation = [0, 1, 3, 2] : tensor<2x4x6x8xf32> -> tensor<2x4x8x6xf32>
  %s = train.matmul %q, %kt : tensor<2x4x6x8xf32>, tensor<2x4x8x6xf32> -> tensor<2x4x6x6xf32>
  %p = train.softmax %s axis = 3 : tensor<2x4x6x6xf32>
  %o = train.matmul %p, %v2 : tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32> -> tensor<2x4x6x8xf32>
  %x = train.mul %o, %w : tensor<2x4x6x8xf32>
  %loss = train.reduce sum %x axes = [0, 1, 2, 3] : tensor<2x4x6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
})";
  compare(text, "bf16", false, false);
  auto raised = harness.run(text, "func.func(raise-attention{type=bf16})");
  ASSERT_TRUE(raised);
  EXPECT_EQ(countOps(*raised, "train.broadcast"), 0u);
}

TEST_F(RaiseAttention, takesRankThree) {
  std::string text = R"(func.func @forward(
      %q: tensor<2x6x8xf32> {train.role = "parameter", train.name = "q", train.trainable},
      %k: tensor<2x6x8xf32> {train.role = "parameter", train.name = "k", train.trainable},
      %v: tensor<2x8x6xf32> {train.role = "parameter", train.name = "v", train.trainable},
      %mask: tensor<2x6xi64> {train.role = "input", train.name = "mask"},
      %w: tensor<2x6x8xf32> {train.role = "input", train.name = "w"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %s = train.matmul %q, %k transposed : tensor<2x6x8xf32>, tensor<2x6x8xf32> -> tensor<2x6x6xf32>
  %valid = train.cast %mask : tensor<2x6xi64> -> tensor<2x6xi1>
  %wide = train.broadcast %valid axes = [0, 2] : tensor<2x6xi1> -> tensor<2x6x6xi1>
  %least = train.full 0xFF800000 : f32 : tensor<2x6x6xf32>
  %m = train.select %wide, %s, %least : tensor<2x6x6xi1>, tensor<2x6x6xf32>
  %p = train.softmax %m axis = 2 guarded : tensor<2x6x6xf32>
  %o = train.matmul %p, %v transposed : tensor<2x6x6xf32>, tensor<2x8x6xf32> -> tensor<2x6x8xf32>
  %x = train.mul %o, %w : tensor<2x6x8xf32>
  %loss = train.reduce sum %x axes = [0, 1, 2] : tensor<2x6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
})";
  compare(text, "bf16", false, true);
}
