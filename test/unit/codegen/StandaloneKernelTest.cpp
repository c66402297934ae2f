// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatter and scan kernels, with producers of their operands inside.

#include "FusionHarness.h"

using namespace trainc::test;
using namespace trainc::train;

static const std::vector<Symbols> kSizes = {{{"b", 1}, {"n", 1}},
                                            {{"b", 2}, {"n", 7}},
                                            {{"b", 5}, {"n", 16}},
                                            {{"b", 17}, {"n", 33}},
                                            {{"b", 6}, {"n", 130}}};

TEST(StandaloneKernel, ScatterRows) {
  FusionHarness h;
  checkFusion(
      {{"b, 3", "i64", -10, 9}, {"b, 3, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        auto type = getTensorType({tb.dimAttr(10), getDim(x[1], 2)}, tb.b().getF32Type());
        return Values{tb.scatterAdd(x[0], tb.mul(x[1], x[1]), 0, type)};
      },
      kSizes);
}

// So many that sorted chunks are merged in groups, the last of which is not full.
TEST(StandaloneKernel, ScatterManyRows) {
  checkFusion({{"b, 3", "i64", -10, 9}, {"b, 3, 2"}},
              [&](TrainBuilder &tb, mlir::ValueRange x) {
                auto type = getTensorType({tb.dimAttr(10), tb.dimAttr(2)}, tb.b().getF32Type());
                return Values{tb.scatterAdd(x[0], x[1], 0, type)};
              },
              {{{"b", 3000}}});
}

TEST(StandaloneKernel, ScatterInTheMiddleAndAtTheEnd) {
  checkFusion(
      {{"3", "i32", 0, 4}, {"b, 3, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        auto type =
            getTensorType({getDim(x[1], 0), tb.dimAttr(5), getDim(x[1], 2)}, tb.b().getF32Type());
        return Values{tb.scatterAdd(x[0], x[1], 1, type)};
      },
      kSizes);
  checkFusion(
      {{"n", "i64", 0, 4}, {"b, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        auto type = getTensorType({getDim(x[1], 0), tb.dimAttr(5)}, tb.b().getF32Type());
        return Values{tb.scatterAdd(x[0], x[1], 1, type)};
      },
      kSizes);
  checkFusion(
      {{"", "i64", 0, 4}, {"b, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        auto type =
            getTensorType({tb.dimAttr(5), getDim(x[1], 0), getDim(x[1], 1)}, tb.b().getF32Type());
        return Values{tb.scatterAdd(x[0], x[1], 0, type)};
      },
      kSizes);
}

// Also in place of what the sums are added to; rows without an update, and all updates in one. Sums
// of small whole numbers are exact, however many there are.
TEST(StandaloneKernel, ScatterRowsInto) {
  std::vector<Symbols> sizes = kSizes;
  sizes.push_back({{"b", 200}, {"n", 3}});
  for (int64_t rows : {9, 300})
    for (const char *columns : {"n", "8"})
      for (double last : {0, 8}) {
        std::string width = columns;
        checkFusion(
            {{"b, 3", "i64", 0, last},
             {"b, 3, " + width, "i32"},
             {std::to_string(rows) + ", " + width}},
            [&](TrainBuilder &tb, mlir::ValueRange x) {
              Value updates = tb.cast(x[1], tb.b().getF32Type());
              return Values{tb.add(x[2], tb.scatterAdd(x[0], updates, 0, x[2].getType()))};
            },
            sizes);
      }
}

// An optimizer's update of the rows: two results, each in place of what it updates.
TEST(StandaloneKernel, ScatterRowsUpdate) {
  for (const char *columns : {"n", "8"}) {
    std::string table = "30, " + std::string(columns);
    checkFusion(
        {{"b, 3", "i64", 0, 29}, {"b, 3, " + std::string(columns)}, {table}, {table}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          Value sums = tb.scatterAdd(x[0], x[1], 0, x[2].getType());
          Value average = tb.add(x[3], tb.mul(sums, sums));
          return Values{tb.sub(x[2], tb.mul(average, sums)), average};
        },
        kSizes);
  }
}

TEST(StandaloneKernel, ScatterIntoTheMiddleAndTheEnd) {
  checkFusion(
      {{"3", "i32", 0, 4}, {"b, 3, n"}, {"b, 5, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        Value sums = tb.scatterAdd(x[0], x[1], 1, x[2].getType());
        return Values{tb.add(tb.mul(x[2], tb.scalarLike(x[2], 0.5)), sums)};
      },
      kSizes);
  checkFusion(
      {{"n", "i64", 0, 4}, {"b, n"}, {"b, 5"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.add(x[2], tb.scatterAdd(x[0], x[1], 1, x[2].getType()))};
      },
      kSizes);
}

TEST(StandaloneKernel, ScatterUniqueRows) {
  checkFusion(
      {{"b, n, 3"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        // The first two rows go nowhere.
        mlir::Value place = tb.iota({getDim(x[0], 1)}, tb.b().getI32Type(), 0);
        return Values{tb.scatterAdd(tb.sub(place, tb.scalarLike(place, 2)), x[0], 1, x[0].getType(),
                                    /*unique=*/true)};
      },
      kSizes);
}

// Indices that rise along the line do not meet; those of the last do, in all 32 lanes.
TEST(StandaloneKernel, ScatterElementsInOrder) {
  for (int64_t step : {1, -1, 0})
    checkFusion(
        {{"b, n"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          auto dims = getDims(x[0]);
          mlir::Value place = tb.iota(dims, tb.b().getI32Type(), 1);
          if (step == -1)
            place = tb.sub(tb.scalarLike(place, 130), place);
          if (step == 0)
            place = tb.scalarLike(place, 5);
          dims[1] = tb.dimAttr(132);
          return Values{ScatterElementsAddOp::create(
              tb.b(), tb.loc(), getTensorType(dims, tb.b().getF32Type()), place, x[0], 1)};
        },
        kSizes);
}

TEST(StandaloneKernel, ScatterElements) {
  for (int64_t axis : {0, 1})
    checkFusion(
        {{"b, n", "i64", 0, 8}, {"b, n"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          auto dims = getDims(x[1]);
          dims[axis] = tb.dimAttr(9);
          return Values{ScatterElementsAddOp::create(
              tb.b(), tb.loc(), getTensorType(dims, tb.b().getF32Type()), x[0], x[1], axis)};
        },
        kSizes);
}

TEST(StandaloneKernel, Cumsum) {
  for (int64_t axis : {0, 1, 2})
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true})
        checkFusion(
            {{"b, 3, n"}},
            [&](TrainBuilder &tb, mlir::ValueRange x) {
              return Values{CumsumOp::create(tb.b(), tb.loc(), x[0].getType(), tb.exp(x[0]), axis,
                                             exclusive, reverse)};
            },
            kSizes, 1e-5);
  checkFusion(
      {{"b, n", "i1"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        Value counts = tb.cast(x[0], tb.b().getI64Type());
        return Values{
            CumsumOp::create(tb.b(), tb.loc(), counts.getType(), counts, 1, false, false)};
      },
      kSizes);
}
