// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that move elements, inside pointwise and reducing kernels.

#include "FusionHarness.h"

using namespace trainc::test;
using namespace trainc::train;

static const std::vector<Symbols> kSizes = {{{"b", 1}, {"n", 1}},
                                            {{"b", 2}, {"n", 7}},
                                            {{"b", 5}, {"n", 16}},
                                            {{"b", 17}, {"n", 33}},
                                            {{"b", 20}, {"n", 70}}};

TEST(AccessKernel, Transpose) {
  std::vector<std::vector<int64_t>> permutations = {
      {0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}};
  for (auto &p : permutations)
    checkFusion(
        {{"b, 3, n"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.exp(tb.transpose(x[0], p))}; },
        kSizes);
}

/// Axes of rows that a reshape joins or cuts otherwise are taken apart by divisions: windows of an
/// image put back, among them lanes of several rows where rows are short.
TEST(AccessKernel, ReshapeThatJoinsRows) {
  for (auto [type, row] : {std::pair("f32", 40), std::pair("bf16", 24), std::pair("f32", 3)}) {
    SCOPED_TRACE(std::string(type) + " rows of " + std::to_string(row));
    auto size = [](int64_t number) { return std::to_string(number); };
    checkFusion(
        {{"b, 2, 3, 5, 4, " + size(row), type}, {"b, 120, " + size(row), type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          auto dims = getDims(x[1]);
          Value turned = tb.reshape(tb.transpose(x[0], {0, 1, 3, 2, 4, 5}), dims);
          Value sum =
              tb.add(tb.cast(turned, tb.b().getF32Type()), tb.cast(x[1], tb.b().getF32Type()));
          return Values{sum, tb.reduce(ReduceKind::sum, sum, 2)};
        },
        kSizes, 1e-5);
    checkFusion(
        {{"b, 6, 10, " + size(row), type}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          auto dims = getDims(x[0]);
          dims[1] = tb.dimAttr(3), dims[2] = tb.dimAttr(20);
          return Values{tb.exp(tb.cast(tb.reshape(x[0], dims), tb.b().getF32Type()))};
        },
        kSizes);
  }
}

/// What is joined of values that the kernel computes is stored part by part, from one evaluation of
/// what they share: the whole before a part, a part of its own, and one that is there twice.
TEST(AccessKernel, JoinOfComputedParts) {
  for (auto [type, shape] :
       {std::pair("f32", "b, 3, n"), std::pair("bf16", "4, 2, 40"), std::pair("bf16", "1, 1, 33")})
    for (int64_t axis = 0; axis < 3; ++axis) {
      SCOPED_TRACE(std::string(type) + " of " + shape + " along " + std::to_string(axis));
      checkFusion(
          {{shape, type}, {shape, "f32"}},
          [&](TrainBuilder &tb, mlir::ValueRange x) {
            Value wide = tb.cast(x[0], tb.b().getF32Type());
            Value shared = tb.exp(tb.mul(wide, x[1]));
            Value first = tb.cast(tb.add(shared, x[1]), x[0].getType());
            Value second = tb.cast(tb.mul(shared, wide), x[0].getType());
            return Values{tb.concat({first, second}, axis), second,
                          tb.concat({second, first, second}, axis)};
          },
          shape[0] == 'b' ? kSizes : std::vector<Symbols>{{}},
          llvm::StringRef(type) == "bf16" ? 4.1e-3 : 2e-6);
    }
}

/// Columns of one element lie between each other in the whole, which is computed element by
/// element.
TEST(AccessKernel, JoinOfColumns) {
  checkFusion(
      {{"b, n, 1"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.concat({tb.exp(x[0]), tb.mul(x[0], x[0])}, 2)};
      },
      kSizes);
}

/// The gradient of both halves of one product's result, as of an MLP with a gate.
TEST(AccessKernel, JoinedGradientOfHalves) {
  for (int64_t columns : {20, 48}) {
    const std::string one = "b, " + std::to_string(columns),
                      both = "b, " + std::to_string(2 * columns);
    checkFusion(
        {{one, "bf16"}, {both, "bf16"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          const DimAttr size = tb.dimAttr(columns);
          Value gate = tb.sliceAxis(x[1], 1, tb.dimAttr(0), size);
          Value up = tb.sliceAxis(x[1], 1, size, size);
          mlir::Type f32 = tb.b().getF32Type();
          Value dy = tb.cast(x[0], f32), wide = tb.cast(gate, f32);
          Value dGate = tb.mul(tb.mul(dy, tb.cast(up, f32)), tb.exp(wide));
          return Values{tb.concat(
              {tb.cast(dGate, x[0].getType()), tb.cast(tb.mul(dy, tb.tanh(wide)), x[0].getType())},
              1)};
        },
        kSizes, 4.1e-3);
  }
}

/// Parts that lie across what is read.
TEST(AccessKernel, JoinOfPartsAcross) {
  for (const char *type : {"f32", "bf16"})
    for (int64_t axis : {0, 1})
      checkFusion(
          {{"m, n", type}},
          [&](TrainBuilder &tb, mlir::ValueRange x) {
            Value turned = tb.transpose(x[0], {1, 0});
            return Values{tb.concat({tb.mul(turned, turned), tb.neg(turned)}, axis)};
          },
          {{{"m", 128}, {"n", 136}}, {{"m", 131}, {"n", 70}}},
          llvm::StringRef(type) == "bf16" ? 4.1e-3 : 2e-6);
}

TEST(AccessKernel, SoftmaxOfTranspose) {
  checkFusion(
      {{"n, b"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        Value t = tb.transpose(x[0], {1, 0});
        auto dims = getDims(t);
        Value e =
            tb.exp(tb.sub(t, tb.broadcastAlong(tb.reduce(ReduceKind::max, t, {1}), dims, {1})));
        return Values{tb.div(e, tb.broadcastAlong(tb.sum(e, {1}), dims, {1}))};
      },
      kSizes);
}

TEST(AccessKernel, Slice) {
  checkFusion(
      {{"b, 20"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        auto d = [&](int64_t v) { return tb.dimAttr(v); };
        DimAttr b = getDim(x[0], 0);
        return Values{tb.slice(x[0], {d(0), d(3)}, {b, d(8)}),
                      tb.slice(x[0], {d(0), d(1)}, {b, d(8)}, {1, 2}),
                      tb.slice(x[0], {d(0), d(19)}, {b, d(8)}, {1, -1})};
      },
      kSizes);
  checkFusion(
      {{"b, n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.sliceAxis(x[0], 0, getDim(x[0], 0) - tb.dimAttr(1), tb.dimAttr(1))};
      },
      kSizes);
}

TEST(AccessKernel, Pad) {
  checkFusion(
      {{"b, n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        auto d = [&](int64_t v) { return tb.dimAttr(v); };
        return Values{tb.exp(
            tb.pad(x[0], 0.5, {d(1), d(2)}, {getDim(x[0], 0) + d(3), getDim(x[0], 1) + d(4)}))};
      },
      kSizes);
  checkFusion(
      {{"b, n"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        auto d = [&](int64_t v) { return tb.dimAttr(v); };
        return Values{tb.pad(x[0], -1, {d(2), d(0)}, {getDim(x[0], 0) + d(2), getDim(x[0], 1)})};
      },
      kSizes);
  checkFusion({{"5, 9", "i1"}},
              [](TrainBuilder &tb, mlir::ValueRange x) {
                auto d = [&](int64_t v) { return tb.dimAttr(v); };
                return Values{tb.pad(x[0], 1, {d(-1), d(2)}, {d(6), d(10)})};
              },
              {{}});
}

TEST(AccessKernel, Concat) {
  for (int64_t axis : {0, 1})
    checkFusion(
        {{"b, n"}, {"b, n"}, {"b, n"}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.concat({tb.exp(x[0]), x[1], tb.mul(x[2], x[2])}, axis)};
        },
        kSizes);
  checkFusion(
      {{"b, 3"}, {"b, n"}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        Value y = tb.concat({x[0], x[1]}, 1);
        return Values{tb.sum(y, {1}), tb.add(y, y)};
      },
      kSizes);
}

TEST(AccessKernel, Split) {
  checkFusion(
      {{"b, n, 48"}},
      [](TrainBuilder &tb, mlir::ValueRange x) {
        auto parts = tb.split(x[0], 2, {tb.dimAttr(16), tb.dimAttr(16), tb.dimAttr(16)});
        return Values{tb.transpose(parts[0], {1, 0, 2}),
                      tb.transpose(tb.mul(parts[1], parts[2]), {1, 0, 2})};
      },
      kSizes);
}

TEST(AccessKernel, Gather) {
  for (const char *type : {"i64", "i32"})
    for (int64_t axis : {0, 1, 2})
      checkFusion(
          {{"4, 5, n"}, {"b, 2", type, axis == 2 ? -1.0 : -4.0, axis == 2 ? 0.0 : 3.0}},
          [&](TrainBuilder &tb, mlir::ValueRange x) {
            return Values{tb.exp(tb.gather(x[0], x[1], axis))};
          },
          kSizes);
}

TEST(AccessKernel, GatherByScalar) {
  checkFusion(
      {{"b, 6, n"}, {"", "i64", 0, 5}},
      [&](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.gather(x[0], x[1], 1)}; },
      kSizes);
}

TEST(AccessKernel, EmbeddingAndPosition) {
  checkFusion(
      {{"50, 40"}, {"70, 40"}, {"b, n", "i64", 0, 49}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        Value words = tb.gather(x[0], x[2], 0);
        Value places = tb.sliceAxis(x[1], 0, tb.dimAttr(0), getDim(words, 1));
        return Values{tb.add(words, tb.broadcast(places, getDims(words), {1, 2}))};
      },
      kSizes);
}

TEST(AccessKernel, GatherElements) {
  for (int64_t axis : {0, 1})
    checkFusion(
        {{"b, n"}, {"b, n", "i64", -1, 0}},
        [&](TrainBuilder &tb, mlir::ValueRange x) {
          return Values{tb.gatherElements(x[0], x[1], axis)};
        },
        kSizes);
}

TEST(AccessKernel, CrossEntropyParts) {
  checkFusion(
      {{"b, 40"}, {"b", "i64", 0, 39}},
      [&](TrainBuilder &tb, mlir::ValueRange x) {
        auto dims = getDims(x[0]);
        Value top = tb.reduce(ReduceKind::max, x[0], {1});
        Value sum = tb.sum(tb.exp(tb.sub(x[0], tb.broadcastAlong(top, dims, {1}))), {1});
        Value lse = tb.add(top, tb.log(sum));
        Value classes = tb.iota(dims, tb.b().getI64Type(), 1);
        Value hit = tb.compare("eq", classes, tb.broadcast(x[1], dims, {0}));
        Value chosen = tb.sum(tb.select(hit, x[0], tb.scalarLike(x[0], 0)), {1});
        Value p = tb.exp(tb.sub(x[0], tb.broadcastAlong(lse, dims, {1})));
        return Values{tb.sub(lse, chosen), tb.sub(p, tb.cast(hit, p.getType()))};
      },
      kSizes);
}

TEST(AccessKernel, IndexOutOfRangeIsReported) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  FusionOp fusion = h.build({{"5, 20"}, {"3", "i64"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
    return Values{tb.gather(x[0], x[1], 0)};
  });
  FusionOp lanes = h.build({{"50"}, {"40", "i64"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
    return Values{tb.gather(x[0], x[1], 0)};
  });
  auto info = codegen.add(fusion), lanesInfo = codegen.add(lanes);
  ASSERT_TRUE(mlir::succeeded(info) && mlir::succeeded(lanesInfo));
  for (llvm::StringRef level : cpuLevels()) {
    auto object = codegen.emitSharedObject(level);
    ASSERT_TRUE(mlir::succeeded(object));
    LoadedKernels loaded(*object);
    std::vector<float> data(100, 1.0f), out(60);
    std::vector<int64_t> indices = {4, -5, 7};
    int64_t error[3] = {};
    struct {
      void *scratch;
      int64_t *error;
    } context{nullptr, error};
    void *args[] = {data.data(), indices.data(), out.data()};
    reinterpret_cast<Kernel *>(loaded.find(info->stages[0].name))(args, nullptr, 0, 3, &context);
    EXPECT_EQ(error[0], 1);
    EXPECT_EQ(error[1], 2);
    EXPECT_EQ(error[2], 7);

    indices.assign(40, 3);
    indices[35] = -60;
    indices[37] = 99;
    args[1] = indices.data();
    error[0] = 0;
    reinterpret_cast<Kernel *>(loaded.find(lanesInfo->stages[0].name))(args, nullptr, 0, 1,
                                                                       &context);
    EXPECT_EQ(error[0], 1);
    EXPECT_EQ(error[1], 35);
    EXPECT_EQ(error[2], -60);
  }
}
