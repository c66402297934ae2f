// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which fusions share a kernel, and how a kernel's launch is described.

#include "FusionHarness.h"
#include <set>

using namespace trainc::test;
using namespace trainc::train;

static Values scaled(TrainBuilder &tb, mlir::ValueRange x) {
  return {tb.mul(x[0], tb.broadcast(x[1], getDims(x[0]), {1}))};
}

TEST(Sharing, SymbolsAreRenamed) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  auto first = codegen.add(h.build({{"b, n"}, {"n"}}, scaled));
  auto second = codegen.add(h.build({{"rows, columns"}, {"columns"}}, scaled));
  ASSERT_TRUE(mlir::succeeded(first) && mlir::succeeded(second));
  EXPECT_EQ(codegen.size(), 1u);
  EXPECT_EQ(first->stages[0].name, second->stages[0].name);
  ASSERT_EQ(second->dims.size(), 2u);
  EXPECT_EQ(second->dims[0].str(), "rows");
  EXPECT_EQ(second->dims[1].str(), "columns");
  // The same symbol twice, and static sizes, are other kernels.
  auto square = codegen.add(h.build({{"b, b"}, {"b"}}, scaled));
  auto fixed = codegen.add(h.build({{"b, 8"}, {"8"}}, scaled));
  ASSERT_TRUE(mlir::succeeded(square) && mlir::succeeded(fixed));
  EXPECT_EQ(codegen.size(), 3u);
}

/// What ends a padded row is the end of the input's, moved: with one zero in front of it and none
/// behind it, that is the size of the result.
TEST(Sharing, SizesDependOnEachOther) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  auto padded = [](int64_t by) {
    return [by](TrainBuilder &tb, mlir::ValueRange x) {
      DimAttr none = tb.dimAttr(0), one = tb.dimAttr(1);
      return Values{
          tb.pad(x[0], 0, {none, one}, {getDim(x[0], 0), getDim(x[0], 1) + tb.dimAttr(by)})};
    };
  };
  auto first = codegen.add(h.build({{"b, n"}}, padded(1)));
  auto second = codegen.add(h.build({{"b, n"}}, padded(2)));
  ASSERT_TRUE(mlir::succeeded(first) && mlir::succeeded(second));
  EXPECT_NE(first->stages[0].name, second->stages[0].name);
  auto renamed = codegen.add(h.build({{"rows, columns"}}, padded(1)));
  ASSERT_TRUE(mlir::succeeded(renamed));
  EXPECT_EQ(first->stages[0].name, renamed->stages[0].name);
}

TEST(Sharing, AttributesAndTypesDiffer) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  auto plus = [](double value) {
    return [value](TrainBuilder &tb, mlir::ValueRange x) {
      return Values{tb.add(x[0], tb.scalarLike(x[0], value))};
    };
  };
  ASSERT_TRUE(mlir::succeeded(codegen.add(h.build({{"b"}}, plus(1)))));
  ASSERT_TRUE(mlir::succeeded(codegen.add(h.build({{"b"}}, plus(2)))));
  ASSERT_TRUE(mlir::succeeded(codegen.add(h.build({{"b", "f64"}}, plus(1)))));
  EXPECT_EQ(codegen.size(), 3u);
  ASSERT_TRUE(mlir::succeeded(codegen.add(h.build({{"c"}}, plus(1)))));
  EXPECT_EQ(codegen.size(), 3u);
}

TEST(Sharing, SeenBeforeIsTheSame) {
  FusionHarness h;
  trainc::codegen::GpuCodegen codegen(h.context, {});
  auto difference = [](unsigned left, unsigned right) {
    return [=](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.sub(x[left], x[right])}; };
  };
  // Small ones are known by their flat form, too.
  for (const char *sizes : {"b, 8", "4, 8", "8, 4", "4096, 4096"}) {
    auto first = codegen.add(h.build({{sizes}, {sizes}}, difference(0, 1)));
    const size_t kernels = codegen.size();
    auto second = codegen.add(h.build({{sizes}, {sizes}}, difference(0, 1)));
    ASSERT_TRUE(mlir::succeeded(first) && mlir::succeeded(second));
    EXPECT_EQ(codegen.size(), kernels);
    EXPECT_EQ(first->stages[0].name, second->stages[0].name);
    EXPECT_EQ(first->stages[0].work, second->stages[0].work);
    EXPECT_EQ(first->dims, second->dims);
    EXPECT_EQ(first->inPlace, second->inPlace);
    auto turned = codegen.add(h.build({{sizes}, {sizes}}, difference(1, 0)));
    ASSERT_TRUE(mlir::succeeded(turned));
    EXPECT_NE(first->stages[0].name, turned->stages[0].name);
  }
}

/// Whatever the shape, and wherever the rows begin: one kernel, and as much work as there is.
TEST(Sharing, FlatForms) {
  FusionHarness h;
  trainc::codegen::GpuCodegen codegen(h.context, {});
  auto squares = [](int64_t first, int64_t rows) {
    return [=](TrainBuilder &tb, mlir::ValueRange x) {
      Value part = tb.sliceAxis(x[0], 0, tb.dimAttr(first), tb.dimAttr(rows));
      return Values{tb.sumAll(tb.mul(part, part))};
    };
  };
  auto vector = codegen.add(h.build({{"1024"}}, squares(0, 1024)));
  auto weight = codegen.add(h.build({{"1024, 784"}}, squares(0, 1024)));
  auto rows = codegen.add(h.build({{"30, 1024"}}, squares(10, 20)));
  ASSERT_TRUE(mlir::succeeded(vector) && mlir::succeeded(weight) && mlir::succeeded(rows));
  EXPECT_EQ(codegen.size(), 1u);
  EXPECT_EQ(vector->stages[0].name, weight->stages[0].name);
  // One part needs no second stage.
  EXPECT_TRUE(vector->stages[0].work.isConstant(1) && vector->stages[1].work.isConstant(0));
  EXPECT_TRUE(weight->stages[0].work.isConstant(98) && weight->stages[1].work.isConstant(1));
  EXPECT_TRUE(rows->stages[0].work.isConstant(3) && rows->stages[1].work.isConstant(1));
  // Large elementwise kernels know that blocks are whole; only sizes that allow it share them.
  auto doubled = [](TrainBuilder &tb, mlir::ValueRange x) { return Values{tb.add(x[0], x[0])}; };
  std::set<std::string> names;
  for (const char *shape : {"4096, 4096", "8192, 1024", "30, 1024", "3, 500001", "7"}) {
    auto kernel = codegen.add(h.build({{shape}}, doubled));
    ASSERT_TRUE(mlir::succeeded(kernel));
    names.insert(kernel->stages[0].name);
  }
  EXPECT_EQ(names.size(), 2u);
  // A part of a buffer is no place for the result.
  auto moved = codegen.add(h.build({{"8, 32"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
    Value part = tb.sliceAxis(x[0], 0, tb.dimAttr(4), tb.dimAttr(4));
    return Values{tb.add(part, part)};
  }));
  ASSERT_TRUE(mlir::succeeded(moved));
  EXPECT_TRUE(names.count(moved->stages[0].name));
  EXPECT_TRUE(moved->inPlace.empty());
}

TEST(Sharing, InPlacePairs) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  using Pairs = llvm::SmallVector<std::pair<unsigned, unsigned>>;
  auto update = codegen.add(h.build({{"b"}, {"b"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
    return Values{tb.sub(x[0], x[1])};
  }));
  EXPECT_EQ(update->inPlace, (Pairs{{0, 0}, {1, 0}}));
  // A transposed read meets elements that another work item has written.
  auto transposed =
      codegen.add(h.build({{"b, b"}, {"b, b"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.add(x[0], tb.transpose(x[1], {1, 0}))};
      }));
  EXPECT_EQ(transposed->inPlace, (Pairs{{0, 0}}));
  // The first result is stored in the pass before the last read of the input.
  auto norm = codegen.add(h.build({{"b, c"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
    Value top = tb.reduce(ReduceKind::max, x[0], {1});
    return Values{tb.add(x[0], x[0]), tb.sub(x[0], tb.broadcastAlong(top, getDims(x[0]), {1}))};
  }));
  EXPECT_EQ(norm->inPlace, (Pairs{{0, 1}}));
}

TEST(Sharing, WhatDoesNotFitIsAnError) {
  FusionHarness h;
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&h.context,
                                        [&](mlir::Diagnostic &d) { message = d.str(); });
  trainc::codegen::CpuCodegen codegen(h.context);
  EXPECT_TRUE(
      mlir::failed(codegen.add(h.build({{"b, c"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.sum(x[0], {0}), tb.sum(x[0], {1})};
      }))));
  EXPECT_NE(message.find("reduces other axes"), std::string::npos) << message;
  EXPECT_TRUE(
      mlir::failed(codegen.add(h.build({{"b"}, {"c"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
        return Values{tb.exp(x[0]), tb.exp(x[1])};
      }))));
  EXPECT_NE(message.find("belongs neither"), std::string::npos) << message;
  EXPECT_TRUE(
      mlir::failed(codegen.add(h.build({{"b, b"}}, [](TrainBuilder &tb, mlir::ValueRange x) {
        Value sums = tb.broadcastAlong(tb.sum(x[0], {1}), getDims(x[0]), {1});
        return Values{tb.transpose(sums, {1, 0})};
      }))));
  EXPECT_NE(message.find("another position"), std::string::npos) << message;
  EXPECT_EQ(codegen.size(), 0u);
}
