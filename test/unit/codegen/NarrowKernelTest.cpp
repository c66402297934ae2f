// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels whose buffers are bf16 or f16: wide vectors of narrow elements, at sizes that no vector
// divides. What is computed is fp32; results are compared to a rounding.

#include "FusionHarness.h"

using namespace trainc::test;
using namespace trainc::train;

static const std::vector<Symbols> kSizes = {{{"a", 1}, {"c", 1}},
                                            {{"a", 3}, {"c", 8}},
                                            {{"a", 5}, {"c", 33}},
                                            {{"a", 9}, {"c", 130}},
                                            {{"a", 2}, {"c", 2088}}};
static const char *const kColumns[] = {"c", "3", "7", "24", "257", "1000", "1001", "9001"};

/// Half a unit in the last place, and something for what went before the rounding.
static double roundingOf(llvm::StringRef type) { return type == "f16" ? 6e-4 : 4.1e-3; }

static void forEachShape(llvm::function_ref<void(const char *, const std::string &)> check) {
  for (const char *type : {"bf16", "f16"})
    for (const char *columns : kColumns) {
      SCOPED_TRACE(std::string(type) + " of " + columns);
      check(type, std::string("a, ") + columns);
      if (testing::Test::HasFailure())
        return;
    }
}

static std::vector<Symbols> sizesOf(const std::string &shape) {
  if (shape.find('c') != std::string::npos)
    return kSizes;
  return {{{"a", 1}}, {{"a", 6}}};
}

TEST(NarrowKernel, Pointwise) {
  forEachShape([](const char *type, const std::string &shape) {
    checkFusion(
        {{shape, type}, {shape, "f32"}, {shape.substr(3), "f32"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value wide = tb.cast(x[0], x[1].getType());
          Value bias = tb.broadcast(x[2], getDims(x[1]), {1});
          Value y = tb.add(tb.mul(wide, x[1]), bias);
          return Values{tb.cast(y, x[0].getType()), y};
        },
        sizesOf(shape), roundingOf(type));
  });
}

// A gradient in the type of the products, and sums in that of the parameter.
TEST(NarrowKernel, ScatterInto) {
  forEachShape([](const char *type, const std::string &shape) {
    std::string columns = shape.substr(1);
    checkFusion(
        {{"a", "i64", 0, 8}, {shape}, {"9" + columns, type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value wide = tb.cast(x[2], tb.b().getF32Type());
          return Values{tb.add(wide, tb.scatterAdd(x[0], x[1], 0, wide.getType()))};
        },
        sizesOf(shape));
    checkFusion(
        {{"a", "i64", 0, 8}, {shape, type}, {"9" + columns, type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.add(x[2], tb.scatterAdd(x[0], x[1], 0, x[2].getType()))};
        },
        sizesOf(shape), 2 * roundingOf(type));
  });
}

// Few updates, lines in shared memory, and lines that one thread adds up: sums are rounded once.
TEST(NarrowKernel, ScatterElements) {
  for (const char *type : {"bf16", "f16"})
    for (int64_t axis : {0, 1})
      for (const char *updates : {"a, 7", "a, 200", "40, c"})
        checkFusion(
            {{updates, "i64", 0, 8}, {updates, type}},
            [&](TrainBuilder &tb, mlir::ValueRange x) {
              auto dims = getDims(x[1]);
              dims[axis] = tb.dimAttr(9);
              return Values{ScatterElementsAddOp::create(
                  tb.b(), tb.loc(), getTensorType(dims, getElementType(x[1])), x[0], x[1], axis)};
            },
            {{{"a", 3}, {"c", 8}}, {{"a", 40}, {"c", 33}}}, 2 * roundingOf(type));
}

TEST(NarrowKernel, Softmax) {
  forEachShape([](const char *type, const std::string &shape) {
    checkFusion(
        {{shape, type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          auto dims = getDims(x[0]);
          Value wide = tb.cast(x[0], tb.b().getF32Type());
          Value top = tb.reduce(ReduceKind::max, wide, {1});
          Value e = tb.exp(tb.sub(wide, tb.broadcastAlong(top, dims, {1})));
          Value sum = tb.sum(e, {1});
          Value y = tb.div(e, tb.broadcastAlong(sum, dims, {1}));
          return Values{tb.cast(y, x[0].getType()), tb.add(top, tb.log(sum))};
        },
        sizesOf(shape), roundingOf(type));
  });
}

TEST(NarrowKernel, ColumnSum) {
  forEachShape([](const char *type, const std::string &shape) {
    checkFusion(
        {{shape, type, 0, 2}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.sum(tb.cast(x[0], tb.b().getF32Type()), {0})};
        },
        sizesOf(shape), 2e-6);
  });
}

TEST(NarrowKernel, Transpose) {
  forEachShape([](const char *type, const std::string &shape) {
    checkFusion(
        {{shape, type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.transpose(x[0], {1, 0})}; },
        sizesOf(shape), 0);
  });
}

/// Logits whose rows are padded to a multiple of the vector; the kernels read the front of each.
TEST(NarrowKernel, FrontOfPaddedRows) {
  for (auto [length, padded] : {std::pair(257, 264), std::pair(1001, 1008), std::pair(9001, 9008)})
    checkFusion(
        {{"a, " + std::to_string(padded), "bf16"}, {"a", "i64", 0, 256}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value front = tb.sliceAxis(x[0], 1, tb.dimAttr(0), tb.dimAttr(length));
          auto dims = getDims(front);
          Value wide = tb.cast(front, tb.b().getF32Type());
          Value top = tb.reduce(ReduceKind::max, wide, {1});
          Value sum = tb.sum(tb.exp(tb.sub(wide, tb.broadcastAlong(top, dims, {1}))), {1});
          Value classes = tb.iota(dims, tb.b().getI64Type(), 1);
          Value hit = tb.compare("eq", classes, tb.broadcast(x[1], dims, {0}));
          Value chosen = tb.sum(tb.select(hit, wide, tb.scalarLike(wide, 0)), {1});
          return Values{tb.sub(tb.add(top, tb.log(sum)), chosen)};
        },
        {{{"a", 1}}, {{"a", 6}}}, 1e-5);
}
