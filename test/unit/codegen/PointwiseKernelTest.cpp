// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pointwise template: flat and row-wise spaces, tails, broadcasts, types.

#include "FusionHarness.h"
#include <cmath>

using namespace trainc::test;
using namespace trainc::train;

static std::vector<Symbols> lengths(std::initializer_list<int64_t> values) {
  std::vector<Symbols> sizes;
  for (int64_t n : values)
    sizes.push_back({{"n", n}});
  return sizes;
}

TEST(PointwiseKernel, FlatTails) {
  checkFusion(
      {{"n"}, {"n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.add(tb.mul(x[0], x[1]), x[0]), tb.exp(x[1])};
      },
      lengths({1, 7, 15, 16, 17, 33, 2047, 2048, 2049, 5000}));
}

TEST(PointwiseKernel, FlatOfHigherRank) {
  checkFusion({{"b, s, 3"}, {""}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                return Values{tb.mul(x[0], tb.splat(x[1], x[0]))};
              },
              {{{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 5}}, {{"b", 40}, {"s", 41}}});
}

TEST(PointwiseKernel, StaticSizes) {
  for (const char *shape :
       {"1", "2", "3", "7", "16", "48", "100", "2048", "4096", "5000", "2, 3", "1, 1"})
    checkFusion({{shape}, {shape}},
                [](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.sub(x[0], x[1])}; },
                {{}});
}

TEST(PointwiseKernel, Scalars) {
  checkFusion({{""}, {""}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                return Values{tb.div(x[0], tb.add(x[1], tb.scalarLike(x[1], 5))), tb.exp(x[0])};
              },
              {{}});
}

TEST(PointwiseKernel, BroadcastAtEveryPosition) {
  FusionHarness h;
  for (int axis = 0; axis < 3; ++axis)
    for (const char *space : {"b, s, n", "b, 4, 19", "2, s, 1", "b, 1, 32"}) {
      std::string shape;
      auto parts = h.dims(space);
      shape = parts[axis].str();
      checkFusion({{space}, {shape}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    return Values{tb.add(x[0], tb.broadcast(x[1], getDims(x[0]), {axis}))};
                  },
                  {{{"b", 1}, {"s", 1}, {"n", 1}},
                   {{"b", 2}, {"s", 3}, {"n", 17}},
                   {{"b", 3}, {"s", 2}, {"n", 5000}}});
    }
}

TEST(PointwiseKernel, BroadcastOfTwoAxes) {
  for (std::pair<int64_t, int64_t> axes : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)})
    checkFusion({{"b, b, b"}, {"b, b"}},
                [&](TrainBuilder &tb, mlir::ValueRange x) {
                  return Values{
                      tb.mul(x[0], tb.broadcast(x[1], getDims(x[0]), {axes.first, axes.second}))};
                },
                {{{"b", 1}}, {{"b", 5}}, {{"b", 18}}});
}

TEST(PointwiseKernel, Types) {
  checkFusion(
      {{"n", "i64", -9, 9}, {"n", "i32", -9, 9}, {"n", "i8", -9, 9}, {"n", "i1"}, {"n", "f64"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        Value wide = tb.cast(x[1], x[0].getType());
        Value sum = tb.add(x[0], wide);
        return Values{sum,
                      tb.select(x[3], sum, tb.cast(x[2], sum.getType())),
                      tb.compare("lt", x[0], wide),
                      tb.logicalNot(x[3]),
                      tb.exp(x[4]),
                      tb.cast(x[3], x[1].getType()),
                      tb.cast(x[4], tb.b().getF32Type()),
                      tb.cast(x[2], x[2].getType())};
      },
      lengths({1, 16, 45}));
}

TEST(PointwiseKernel, Iota) {
  checkFusion({{"b, n"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                Value rows = tb.iota(getDims(x[0]), tb.b().getI64Type(), 0);
                Value columns = tb.iota(getDims(x[0]), tb.b().getI64Type(), 1);
                return Values{
                    tb.select(tb.compare("le", columns, rows), x[0], tb.scalarLike(x[0], -100))};
              },
              {{{"b", 1}, {"n", 1}}, {{"b", 20}, {"n", 20}}, {{"b", 3}, {"n", 2100}}});
}

/// x and the condition, which the kernel reports.
static Values told(TrainBuilder &tb, Value condition, Value x) {
  Value value = tb.select(condition, x, x);
  value.getDefiningOp()->setAttr(kReportsAttr, tb.b().getUnitAttr());
  return {value, condition};
}

TEST(PointwiseKernel, Reports) {
  // Of few elements or none, and not of lanes beyond the last element, which hold zeros or
  // anything.
  for (double limit : {1.99, 1.5, 3.0})
    for (double least : {-2.0, 1.0}) {
      auto above = [&](TrainBuilder &tb, Value x) {
        Value isZero = tb.compare("eq", x, tb.scalarLike(x, 0));
        return tb.logicalOr(isZero, tb.compare("gt", x, tb.scalarLike(x, limit)));
      };
      checkFusion(
          {{"n, 5", "f32", least, 2}},
          [&](TrainBuilder &tb, mlir::ValueRange x) { return told(tb, above(tb, x[0]), x[0]); },
          {{{"n", 1}}, {{"n", 7}}, {{"n", 900}}});
      // A row's, and one that all columns share.
      checkFusion({{"b, 37", "f32", least, 2}, {"b", "f32", least, 2}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    Value y =
                        tb.add(tb.broadcast(x[1], getDims(x[0]), {0}), tb.scalarLike(x[0], 0));
                    Values values = told(tb, above(tb, x[0]), tb.mul(x[0], y));
                    values.push_back(tb.sum(values[0], {1}));
                    return values;
                  },
                  {{{"b", 1}}, {{"b", 6}}});
    }
}

TEST(PointwiseKernel, Dropout) {
  checkFusion({{"b, s, n"}, {"", "i64", 0, 1e9}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                return Values{tb.dropout(x[0], x[1], tb.b().getF64FloatAttr(0.3))};
              },
              {{{"b", 2}, {"s", 3}, {"n", 33}}, {{"b", 1}, {"s", 2}, {"n", 2500}}});
}

TEST(PointwiseKernel, DimAsValue) {
  checkFusion({{"b, n"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                Value count = tb.dim(getDim(x[0], 0) * getDim(x[0], 1), tb.b().getF32Type());
                return Values{tb.div(x[0], tb.splat(count, x[0]))};
              },
              {{{"b", 3}, {"n", 4}}, {{"b", 5}, {"n", 21}}});
}

TEST(PointwiseKernel, Functions) {
  checkFusion(
      {{"n"}, {"n", "f32", 0.01, 5}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.tanh(x[0]),
                      tb.erf(x[0]),
                      tb.log(x[1]),
                      tb.sin(x[0]),
                      tb.cos(x[0]),
                      tb.pow(x[1], x[0]),
                      tb.sigmoid(x[0]),
                      tb.rsqrt(x[1]),
                      tb.geluGrad(x[0], false),
                      tb.geluGrad(x[0], true),
                      tb.sign(x[0]),
                      tb.floor(x[0]),
                      tb.max(x[0], x[1]),
                      tb.relu(x[0])};
      },
      lengths({16, 50}));
}

TEST(PointwiseKernel, RowsOfLargerTensors) {
  // An optimizer's step of one of several weights whose gradients are one tensor.
  for (int64_t first : {0, 16, 41, 48})
    for (const char *type : {"f32", "bf16"}) {
      SCOPED_TRACE(first);
      checkFusion({{"64, 24", type}, {"16, 24"}, {"16, 24"}, {""}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    Value wide = tb.cast(x[0], tb.b().getF32Type());
                    Value rows = tb.sliceAxis(wide, 0, tb.dimAttr(first), tb.dimAttr(16));
                    Value step = tb.add(tb.mul(rows, tb.splat(x[3], rows)), x[2]);
                    return Values{tb.sub(x[1], step), step};
                  },
                  {{}});
    }
  // What is in the middle of rows has gaps, and two places of one tensor are two.
  checkFusion({{"8, 32"}, {"8, 16"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                Value columns = tb.sliceAxis(x[0], 1, tb.dimAttr(8), tb.dimAttr(16));
                return Values{tb.add(columns, x[1])};
              },
              {{}});
  checkFusion({{"8, 32"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                auto rows = [&](int64_t first) {
                  return tb.sliceAxis(x[0], 0, tb.dimAttr(first), tb.dimAttr(4));
                };
                return Values{tb.sub(rows(0), rows(4))};
              },
              {{}});
  // Large enough to know that blocks are whole.
  checkFusion({{"1032, 1024", "bf16"}, {"1028, 1024"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                Value rows = tb.sliceAxis(x[0], 0, tb.dimAttr(4), tb.dimAttr(1028));
                return Values{tb.add(tb.cast(rows, tb.b().getF32Type()), x[1])};
              },
              {{}});
}

TEST(PointwiseKernel, QuotientsByOneNumber) {
  // Divisors and dividends of every magnitude, 0 and infinities among them.
  for (double divisor : {0.0, 2e-38, 1e-30, 1.0, -3.0, 9.0, 1e30, 3e38, double(INFINITY)})
    for (double dividend : {0.0, 1e-30, 1.0, 1e30, double(INFINITY)}) {
      // The reference has no overflow.
      double quotient = std::fabs(dividend / divisor);
      if (quotient > 1e38 && !std::isinf(quotient))
        continue;
      SCOPED_TRACE(divisor);
      SCOPED_TRACE(dividend);
      checkFusion({{"a, 32"}, {"a", "f32", 0.5, 1}},
                  [&](TrainBuilder &tb, mlir::ValueRange x) {
                    Value y = tb.mul(x[1], tb.scalarLike(x[1], divisor));
                    Value scaled = tb.mul(x[0], tb.scalarLike(x[0], dividend));
                    // A number that is known, and one that is not.
                    return Values{tb.div(scaled, tb.scalarLike(scaled, divisor)),
                                  tb.div(scaled, tb.broadcast(y, getDims(x[0]), {0}))};
                  },
                  {{{"a", 5}}});
    }
}
