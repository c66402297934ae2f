// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The row and column templates: every choice of axes, dependent passes, results on both spaces.

#include "FusionHarness.h"
#include <cmath>
#include <numeric>

using namespace trainc::test;
using namespace trainc::train;

static const std::vector<Symbols> kSizes = {
    {{"a", 1}, {"b", 1}, {"c", 1}},    {{"a", 2}, {"b", 3}, {"c", 5}},
    {{"a", 3}, {"b", 17}, {"c", 16}},  {{"a", 7}, {"b", 40}, {"c", 33}},
    {{"a", 2}, {"b", 70}, {"c", 130}}, {{"a", 33}, {"b", 2}, {"c", 1100}}};

TEST(ReductionKernel, EveryAxisSubset) {
  for (unsigned mask = 1; mask < 8; ++mask) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < 3; ++axis)
      if (mask >> axis & 1)
        axes.push_back(axis);
    SCOPED_TRACE(mask);
    checkFusion(
        {{"a, b, c"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.sum(x[0], axes), tb.reduce(ReduceKind::max, x[0], axes)};
        },
        kSizes, 1e-5);
  }
}

TEST(ReductionKernel, StaticShapes) {
  for (const char *shape : {"1, 1", "2, 1", "1, 2", "5, 1", "3, 7", "7, 16", "1000, 2", "2, 1000",
                            "64, 64", "100, 384", "1, 40000", "40000, 1", "2100, 20"})
    for (int64_t axis : {0, 1}) {
      SCOPED_TRACE(shape);
      // No cancellation: the tolerance is relative to what was added.
      checkFusion(
          {{shape, "f32", 0, 2}},
          [&](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.sum(x[0], {axis})}; }, {{}});
    }
}

TEST(ReductionKernel, FullReductionOfManyElements) {
  checkFusion(
      {{"n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.sumAll(tb.mul(x[0], x[0]))}; },
      {{{"n", 1}}, {{"n", 1000003}}}, 2e-7);
}

/// All of a tensor of known shape: less than a vector, one part, the last part short or full.
TEST(ReductionKernel, Totals) {
  auto totals = [](TrainBuilder &tb, mlir::ValueRange x) {
    Value wide = tb.cast(x[0], tb.b().getF32Type());
    // What is made of the totals, and a number that is read and may be written over.
    Value mean = tb.mul(tb.sumAll(tb.mul(wide, wide)), x[1]);
    std::vector<int64_t> axes(getRank(wide));
    std::iota(axes.begin(), axes.end(), 0);
    return Values{mean, tb.reduce(ReduceKind::max, wide, axes)};
  };
  for (const char *shape :
       {"1", "3", "2, 5", "16", "1000", "8191", "8200", "3, 5461", "16384", "16385", "70, 257, 2"})
    for (const char *type : {"f32", "bf16"}) {
      SCOPED_TRACE(shape);
      checkFusion({{shape, type}, {""}}, totals, {{}}, 1e-5);
    }
}

/// Rows of a larger tensor, behind what widens it, and what cuts away a padding.
TEST(ReductionKernel, TotalsOfRows) {
  for (const char *type : {"f32", "bf16"})
    for (int64_t first : {0, 2, 5}) {
      checkFusion({{"6, 3, 8", type}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    Value wide = tb.cast(x[0], tb.b().getF32Type());
                    Value rows = tb.sliceAxis(wide, 0, tb.dimAttr(first), tb.dimAttr(1));
                    return Values{tb.sumAll(tb.mul(rows, rows))};
                  },
                  {{}});
      // Rows that vectors do not begin at.
      checkFusion(
          {{"6, 3", type}},
          [&](TrainBuilder &tb, mlir::ValueRange x) {
            Value rows = tb.sliceAxis(x[0], 0, tb.dimAttr(first), tb.dimAttr(1));
            return Values{tb.sumAll(rows)};
          },
          {{}}, 1e-2);
    }
  checkFusion({{"16, 40"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                Value rows = tb.pad(x[0], 0, {tb.dimAttr(-2), tb.dimAttr(0)},
                                    {tb.dimAttr(10), tb.dimAttr(40)});
                return Values{tb.sumAll(tb.mul(rows, rows))};
              },
              {{}});
}

static Values softmax(TrainBuilder &tb, Value x, int64_t axis) {
  auto dims = getDims(x);
  Value top = tb.reduce(ReduceKind::max, x, {axis});
  Value e = tb.exp(tb.sub(x, tb.broadcastAlong(top, dims, {axis})));
  Value sum = tb.sum(e, {axis});
  return {tb.div(e, tb.broadcastAlong(sum, dims, {axis})), tb.add(top, tb.log(sum))};
}

TEST(ReductionKernel, SoftmaxAlongEveryAxis) {
  for (int64_t axis : {0, 1, 2})
    checkFusion(
        {{"a, b, c"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) { return softmax(tb, x[0], axis); }, kSizes);
}

TEST(ReductionKernel, SoftmaxOfLongRowsWithInfinities) {
  // Everything below the limit is -infinity: in one row the first elements, in one all of them.
  for (double limit : {-1.99, 0.0, 2.0})
    for (const char *shape : {"3, 20000", "3, n"}) {
      SCOPED_TRACE(limit);
      SCOPED_TRACE(shape);
      checkFusion({{shape}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    Value masked = tb.select(tb.compare("lt", x[0], tb.scalarLike(x[0], limit)),
                                             tb.scalarLike(x[0], -INFINITY), x[0]);
                    return softmax(tb, masked, 1);
                  },
                  {{{"n", 1}}, {{"n", 7}}, {{"n", 9000}}});
    }
}

/// Of labels that may be out of range: their row has no element to pick.
static Values crossEntropy(TrainBuilder &tb, Value logits, Value labels) {
  auto dims = getDims(logits);
  Value top = tb.reduce(ReduceKind::max, logits, {1});
  Value below = tb.sub(logits, tb.broadcastAlong(top, dims, {1}));
  Value logSum = tb.log(tb.sum(tb.exp(below), {1}));
  Value classes = tb.iota(dims, getElementType(labels), 1);
  Value isLabel = tb.compare("eq", classes, tb.broadcastAlong(labels, dims, {1}));
  Value picked = tb.sum(tb.select(isLabel, below, tb.scalarLike(below, 0.0)), {1});
  return {tb.sub(logSum, picked), tb.add(top, logSum)};
}

TEST(ReductionKernel, CrossEntropy) {
  for (const char *shape : {"a, c", "a, 96", "a, 20000"})
    checkFusion(
        {{shape}, {"a", "i64", -20, 150}},
        [](TrainBuilder &tb, mlir::ValueRange x) { return crossEntropy(tb, x[0], x[1]); }, kSizes,
        1e-5);
  // Rows inside of longer ones, whose size is no multiple of a vector's.
  checkFusion(
      {{"a, 9024", "bf16"}, {"a", "i32", -20, 150}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        Value logits = tb.sliceAxis(x[0], 1, tb.dimAttr(0), tb.dimAttr(9001));
        return crossEntropy(tb, tb.cast(logits, tb.b().getF32Type()), x[1]);
      },
      kSizes, 1e-5);
}

static Values layerNorm(TrainBuilder &tb, mlir::ValueRange x, std::vector<int64_t> axes,
                        int64_t parameterAxis) {
  auto dims = getDims(x[0]);
  Value sum = tb.add(x[0], x[1]);
  Value mean = tb.mean(sum, axes);
  Value centred = tb.sub(sum, tb.broadcastAlong(mean, dims, axes));
  Value variance = tb.mean(tb.mul(centred, centred), axes);
  Value rstd = tb.rsqrt(tb.add(variance, tb.scalarLike(variance, 1e-5)));
  Value y = tb.mul(centred, tb.broadcastAlong(rstd, dims, axes));
  y = tb.add(tb.mul(y, tb.broadcast(x[2], dims, {parameterAxis})),
             tb.broadcast(x[3], dims, {parameterAxis}));
  return {y, sum, mean, rstd};
}

TEST(ReductionKernel, LayerNormWithResidual) {
  checkFusion(
      {{"a, b, c"}, {"a, b, c"}, {"c"}, {"c"}},
      [](TrainBuilder &tb, mlir::ValueRange x) { return layerNorm(tb, x, {2}, 2); }, kSizes, 1e-5);
  checkFusion(
      {{"a, b, 48"}, {"a, b, 48"}, {"48"}, {"48"}},
      [](TrainBuilder &tb, mlir::ValueRange x) { return layerNorm(tb, x, {2}, 2); }, kSizes, 1e-5);
}
TEST(ReductionKernel, NormOverLeadingAxes) {
  checkFusion(
      {{"a, b, c"}, {"a, b, c"}, {"c"}, {"c"}},
      [](TrainBuilder &tb, mlir::ValueRange x) { return layerNorm(tb, x, {0, 1}, 2); }, kSizes,
      1e-5);
}
/// Enough rows for parts of them: the last part is short, or there are no rows at all.
TEST(ReductionKernel, ColumnsOfManyRows) {
  static const std::vector<Symbols> sizes = {
      {{"a", 1}, {"c", 1}}, {{"a", 5}, {"c", 17}}, {{"a", 2}, {"c", 270}}, {{"a", 0}, {"c", 5}}};
  auto norm = [](TrainBuilder &tb, mlir::ValueRange x) { return layerNorm(tb, x, {0, 1}, 2); };
  checkFusion({{"a, 64, c"}, {"a, 64, c"}, {"c"}, {"c"}}, norm, sizes, 1e-5);
  // More parts than are added up at a time; results of the columns alone, and others than sums.
  checkFusion(
      {{"65, 64, c", "f32", 0, 2}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.sum(x[0], {0, 1}), tb.reduce(ReduceKind::max, x[0], {0, 1})};
      },
      {{{"c", 1}}, {{"c", 18}}}, 1e-6);
}
/// Passes over so few rows that they are written out on a GPU, in whole blocks of columns and not;
/// 16-bit rows that were joined, and sums beside long formulas of the columns.
TEST(ReductionKernel, ColumnsOfAFewRows) {
  auto moments = [](TrainBuilder &tb, Value x) {
    Value mean = tb.mean(x, {0});
    Value centred = tb.sub(x, tb.broadcastAlong(mean, getDims(x), {0}));
    Value variance = tb.mean(tb.mul(centred, centred), {0});
    return Values{mean, tb.rsqrt(tb.add(variance, tb.scalarLike(variance, 1e-5)))};
  };
  for (const char *shape : {"1, 3, 24", "3, 64, 32", "9, 7, 24", "16, 5, 8", "17, 2, 8"}) {
    SCOPED_TRACE(shape);
    checkFusion(
        {{shape, "f32", 0, 2}},
        [&](TrainBuilder &tb, mlir::ValueRange x) { return moments(tb, x[0]); }, {{}}, 1e-5);
  }
  for (int64_t rows : {9, 300}) {
    SCOPED_TRACE(rows);
    checkFusion(
        {{std::to_string(rows * 7) + ", 24", "bf16", 0, 2}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value wide = tb.cast(x[0], tb.b().getF32Type());
          return moments(tb, tb.reshape(wide, {tb.dimAttr(rows), tb.dimAttr(7), tb.dimAttr(24)}));
        },
        {{}}, 1e-5);
  }
}

/// Gradients of a layer norm of x by those of its result, with the bias's and a gradient that is
/// added; sums over all axes but the last one.
static Values normGradients(TrainBuilder &tb, mlir::ValueRange x) {
  auto f32 = [&](Value value) { return tb.cast(value, tb.b().getF32Type()); };
  Value dy = f32(x[0]), in = f32(x[1]), weight = f32(x[2]), rest = f32(x[3]);
  auto dims = getDims(dy);
  int64_t last = dims.size() - 1;
  std::vector<int64_t> rows(last);
  std::iota(rows.begin(), rows.end(), 0);
  Value g = tb.mul(dy, tb.broadcast(weight, dims, {last}));
  Value mean = tb.mean(in, {last});
  Value centred = tb.sub(in, tb.broadcastAlong(mean, dims, {last}));
  Value dot = tb.mean(tb.mul(g, centred), {last});
  Value dx = tb.sub(g, tb.mul(centred, tb.broadcastAlong(dot, dims, {last})));
  dx = tb.cast(tb.add(dx, rest), getElementType(x[0]));
  Value scale = tb.sum(tb.mul(dy, centred), rows);
  Values results = {dx, mean, tb.cast(scale, getElementType(x[2])), tb.sum(dy, rows),
                    tb.reduce(ReduceKind::max, dy, rows)};
  // Of what is stored over an input; what is rounded first differs by its last place from the
  // reference here and there, and such sums by more than one rounding.
  if (getElementType(x[0]).isF32())
    results.push_back(tb.sum(dx, rows));
  return results;
}

TEST(ReductionKernel, ColumnsWithRows) {
  // Rows of a few threads, of a warp, of a block; vectors that divide them, and none; more rows
  // than blocks take at once, and as many rows as columns.
  struct Case {
    const char *rows, *columns, *type;
    std::vector<Symbols> sizes;
  };
  const Case cases[] = {{"n, 3", "3", "f32", {{{"n", 0}}, {{"n", 37}}}},
                        {"n, 7, 64", "64", "bf16", {{{"n", 1}}, {{"n", 11}}}},
                        {"n, 100", "100", "f32", {{{"n", 50}}}},
                        {"n, 1000", "1000", "bf16", {{{"n", 300}}}},
                        {"n, 1100", "1100", "f32", {{{"n", 3}}}},
                        {"64, 64", "64", "f32", {{}}},
                        {"n, 16", "16", "f32", {{{"n", 9000}}}}};
  for (const Case &each : cases) {
    SCOPED_TRACE(each.rows);
    // One rounding to 8 bits.
    const bool narrow = std::string(each.type) == "bf16";
    checkGpuFusion({{each.rows, each.type},
                    {each.rows, each.type},
                    {each.columns, each.type},
                    {each.rows, each.type}},
                   normGradients, each.sizes, narrow ? 4e-3 : 1e-3);
  }
}

TEST(ReductionKernel, UpdateByColumnsWithRows) {
  // What is updated is read by the rows: they are done by then.
  checkGpuFusion(
      {{"n, 96"}, {"96"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        auto dims = getDims(x[0]);
        Value scaled = tb.mul(x[0], tb.broadcast(x[1], dims, {1}));
        Value dot = tb.sum(scaled, {1});
        Value gradient = tb.mul(x[0], tb.broadcastAlong(dot, dims, {1}));
        return Values{dot, tb.sub(x[1], tb.mul(tb.sum(gradient, {0}), tb.scalarLike(x[1], 0.1)))};
      },
      {{{"n", 40}}, {{"n", 300}}}, 1e-4);
}

/// The gradient of a pool whose windows move by 2, channels last: on a GPU a thread does all phases
/// of a position, whose windows it reads once. Edges on all sides, and what is computed of the
/// sums.
TEST(ReductionKernel, PhasesOfAPool) {
  for (const char *type : {"f32", "bf16"})
    for (const char *channels : {"8", "24"}) {
      SCOPED_TRACE(type);
      SCOPED_TRACE(channels);
      const std::string c = channels;
      auto body = [&](TrainBuilder &tb, mlir::ValueRange in) {
        DimAttr n = getDims(in[0])[0], last = getDims(in[0])[3];
        auto dims = [&](std::initializer_list<int64_t> sizes) {
          llvm::SmallVector<DimAttr> list;
          for (int64_t size : sizes)
            list.push_back(size < 0 ? n : size == 0 ? last : tb.dimAttr(size));
          return list;
        };
        auto low = dims({1, 1}), starts = low;
        low.append(4, tb.dimAttr(0)), starts = llvm::SmallVector<DimAttr>(8, tb.dimAttr(0));
        starts[3] = starts[5] = tb.dimAttr(1);
        Value x = tb.cast(in[0], tb.b().getF32Type());
        x = tb.div(x, tb.scalarLike(x, 9));
        x = tb.broadcast(x, dims({3, 3, -1, 4, 5, 0}), {2, 3, 4, 5});
        // Each window gives to some of its taps.
        Value tap = tb.cast(tb.iota(getDims(x), tb.b().getI64Type(), 1), tb.b().getF32Type());
        x = tb.select(tb.compare("gt", x, tb.mul(tap, tb.scalarLike(tap, 0.05))), x,
                      tb.scalarLike(x, 0));
        x = tb.pad(x, 0, low, dims({4, 4, -1, 4, 5, 0}));
        auto cut = dims({4, 4, -1, 4, 2, 5, 2, 0});
        x = tb.broadcast(x, cut, {0, 1, 2, 3, 5, 7});
        auto slide = [&](int64_t size, int64_t axis, int64_t taps, bool window) {
          cut[axis] = tb.dimAttr(size);
          auto to = getTensorType(cut, getElementType(x));
          x = window ? WindowOp::create(tb.b(), tb.loc(), to, x, axis, taps, 2, 1).getResult()
                     : SpreadOp::create(tb.b(), tb.loc(), to, x, axis, taps, 1, 1).getResult();
        };
        slide(2, 0, 4, true), slide(2, 1, 6, true), slide(6, 5, 1, false), slide(5, 3, 0, false);
        x = tb.sum(tb.slice(x, starts, dims({2, 2, -1, 4, 2, 5, 2, 0})), {0, 1});
        return Values{tb.cast(x, getElementType(in[0])), tb.mul(x, in[1])};
      };
      checkFusion({{"n, 4, 5, " + c, type, 0, 2}, {"n, 4, 2, 5, 2, " + c}}, body,
                  {{{"n", 1}}, {{"n", 9}}}, *type == 'b' ? 1e-2 : 2e-6);
    }
}

TEST(ReductionKernel, NormOverTwoAxes) {
  checkFusion(
      {{"a, b, c"}, {"a, b, c"}, {"c"}, {"c"}},
      [](TrainBuilder &tb, mlir::ValueRange x) { return layerNorm(tb, x, {1, 2}, 2); }, kSizes,
      1e-5);
}

TEST(ReductionKernel, KindsAndTypes) {
  checkFusion(
      {{"a, c", "i64", -50, 50}, {"a, c", "i1"}, {"a, c", "f64"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.sum(x[0], {1}), tb.reduce(ReduceKind::min, x[0], {1}),
                      tb.reduce(ReduceKind::max, x[1], {1}), tb.reduce(ReduceKind::min, x[1], {1}),
                      tb.sum(x[2], {1})};
      },
      kSizes);
  checkFusion(
      {{"a, c", "i64", -50, 50}, {"a, c", "i1"}, {"a, c", "f64"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.sum(x[0], {0}), tb.reduce(ReduceKind::min, x[0], {0}),
                      tb.reduce(ReduceKind::max, x[1], {0}), tb.reduce(ReduceKind::min, x[1], {0}),
                      tb.sum(x[2], {0})};
      },
      kSizes);
  checkFusion({{"3, 5", "f32", 0.5, 1.5}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                return Values{tb.reduce(ReduceKind::prod, x[0], {1})};
              },
              {{}});
}

TEST(ReductionKernel, GradientAccumulation) {
  checkFusion(
      {{"a, b, c"}, {"c"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.add(x[1], tb.sum(x[0], {0, 1}))};
      },
      kSizes);
}

TEST(ReductionKernel, ReductionOfGather) {
  checkFusion(
      {{"a, c"}, {"a, b", "i64", 0, 0}, {"c"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        Value rows = tb.gather(x[0], x[1], 0);
        auto dims = getDims(rows);
        Value scaled = tb.mul(rows, tb.broadcast(x[2], dims, {2}));
        Value mean = tb.mean(scaled, {2});
        return Values{tb.sub(scaled, tb.broadcastAlong(mean, dims, {2}))};
      },
      kSizes, 1e-5);
}

TEST(ReductionKernel, EmptyReduction) {
  checkFusion({{"a, b"}},
              [](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.sum(x[0], {1})}; },
              {{{"a", 3}, {"b", 0}}, {{"a", 0}, {"b", 3}}});
}
