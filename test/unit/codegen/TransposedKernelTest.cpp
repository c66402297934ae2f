// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that lie across what is written or summed: tiles of every shape, whole and cut off.

#include "FusionHarness.h"

using namespace trainc::test;
using namespace trainc::train;

/// Sizes that whole vectors divide, and others; beside and beyond the tiles.
static const std::vector<Symbols> kSizes = {
    {{"b", 1}, {"m", 1}, {"n", 1}},     {{"b", 2}, {"m", 8}, {"n", 16}},
    {{"b", 3}, {"m", 33}, {"n", 5}},    {{"b", 2}, {"m", 64}, {"n", 136}},
    {{"b", 1}, {"m", 200}, {"n", 72}},  {{"b", 2}, {"m", 130}, {"n", 131}},
    {{"b", 1}, {"m", 48}, {"n", 1001}},
};
static const char *const kTypes[] = {"f32", "bf16", "f64"};

static double toleranceOf(llvm::StringRef type) { return type == "bf16" ? 4.1e-3 : 2e-6; }

TEST(TransposedKernel, TwoAxes) {
  for (const char *type : kTypes)
    for (const char *shape : {"b, m, n", "2, 64, 96", "1, 128, 256", "3, 100, 44", "2, 133, 50",
                              "1, 32, 130", "2, 1000, 34", "1, 100, 8"}) {
      SCOPED_TRACE(std::string(type) + " of " + shape);
      bool fixed = shape[0] != 'b';
      checkFusion(
          {{shape, type}},
          [&](TrainBuilder &tb, mlir::ValueRange x) {
            return Values{tb.transpose(tb.mul(x[0], x[0]), {0, 2, 1})};
          },
          fixed ? std::vector<Symbols>{{}} : kSizes, toleranceOf(type));
    }
}

TEST(TransposedKernel, LargestPatches) {
  for (const char *type : {"f32", "bf16"})
    checkFusion(
        {{"1104, 2056", type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.transpose(tb.mul(x[0], x[0]), {1, 0})};
        },
        {{}}, toleranceOf(type));
}

TEST(TransposedKernel, AllPermutationsOfFourAxes) {
  std::vector<int64_t> p = {0, 1, 2, 3};
  do {
    SCOPED_TRACE(testing::PrintToString(p));
    checkFusion(
        {{"b, 130, m, 40", "bf16"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.transpose(tb.mul(x[0], x[0]), p)};
        },
        {{{"b", 3}, {"m", 2}}, {{"b", 1}, {"m", 16}}}, toleranceOf("bf16"));
  } while (std::next_permutation(p.begin(), p.end()));
}

TEST(TransposedKernel, WithDirectInputsOfOtherTypes) {
  for (const char *type : kTypes)
    checkFusion(
        {{"b, n, m", type}, {"b, m, n", "f32"}, {"b, n, m", "i1"}, {"n", "f32"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value turned = tb.transpose(tb.cast(x[0], tb.b().getF32Type()), {0, 2, 1});
          auto dims = getDims(x[1]);
          Value sum = tb.add(tb.add(turned, x[1]), tb.broadcast(x[3], dims, {2}));
          Value chosen = tb.select(tb.transpose(x[2], {0, 2, 1}), sum, x[1]);
          return Values{chosen, tb.cast(sum, x[0].getType())};
        },
        kSizes, toleranceOf(type));
}

TEST(TransposedKernel, RepeatedInputs) {
  for (const char *type : kTypes)
    checkFusion(
        {{"b, n, m", type}, {"n, m", "f32"}, {"b, n", type}, {"m", "f32"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          mlir::Type f32 = tb.b().getF32Type();
          auto dims = getDims(x[0]);
          Value y = tb.mul(tb.cast(x[0], f32), tb.broadcast(x[1], dims, {1, 2}));
          y = tb.add(y, tb.broadcast(tb.cast(x[2], f32), dims, {0, 1}));
          y = tb.add(y, tb.broadcast(x[3], dims, {2}));
          return Values{tb.cast(tb.transpose(y, {0, 2, 1}), x[0].getType())};
        },
        kSizes, toleranceOf(type));
}

TEST(TransposedKernel, SumWithItself) {
  checkFusion(
      {{"n, n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.add(x[0], tb.transpose(x[0], {1, 0}))};
      },
      kSizes);
}

TEST(TransposedKernel, CoordinatesAndLargeFormulas) {
  checkFusion(
      {{"m, n", "bf16"}, {"n, m", "f32"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        Value turned = tb.transpose(tb.cast(x[0], tb.b().getF32Type()), {1, 0});
        Value columns = tb.iota(getDims(x[1]), tb.b().getF32Type(), 1);
        Value y = tb.exp(tb.sub(tb.tanh(turned), tb.exp(tb.tanh(x[1]))));
        return Values{tb.add(y, columns)};
      },
      kSizes, 1e-5);
}

TEST(TransposedKernel, SumOfAll) {
  for (const char *type : kTypes)
    for (const char *shape : {"b, m, n", "2, 130, 264", "1, 40, 1001", "b, 50, 24"})
      for (std::vector<int64_t> p : {std::vector<int64_t>{0, 2, 1}, {1, 0, 2}, {2, 1, 0}}) {
        SCOPED_TRACE(std::string(type) + " of " + shape);
        bool fixed = shape[0] != 'b';
        // No cancellation: the tolerance is relative to what was added.
        checkFusion(
            {{shape, type, 0, 2}},
            [&](TrainBuilder &tb, mlir::ValueRange x) {
              Value turned = tb.transpose(tb.cast(x[0], tb.b().getF32Type()), p);
              return Values{tb.sum(turned, {0, 1, 2})};
            },
            fixed ? std::vector<Symbols>{{}} : kSizes);
      }
}

TEST(TransposedKernel, SumsOfFewRows) {
  for (const char *shape : {"5, m, n", "5, 200, 264"})
    checkFusion(
        {{shape, "bf16", 0, 2}, {shape, "f32", 0, 2}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value y = tb.transpose(tb.mul(tb.cast(x[0], tb.b().getF32Type()), x[1]), {0, 2, 1});
          return Values{tb.sum(y, {1, 2}), tb.reduce(ReduceKind::max, y, {1, 2})};
        },
        shape[3] == 'm' ? kSizes : std::vector<Symbols>{{}});
}
