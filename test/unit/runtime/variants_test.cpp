// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variants of functions: when a batch allows them, when they pay, what is said where they are not
// used.

#include "plan/batch_facts.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

using Kind = Condition::Kind;

Condition binary(uint32_t input) { return {Kind::Binary, UINT32_MAX, input, 0, 0, 0, 0}; }
Condition fixed(uint32_t mask, int64_t padding, uint32_t input, int64_t shift, int64_t value) {
  return {Kind::FixedWherePadded, mask, input, padding, shift, value, 0};
}
Condition realAt(uint32_t mask, int64_t padding, int64_t index) {
  return {Kind::RealAt, mask, UINT32_MAX, padding, 0, 0, index};
}

/// The verdict on one condition about arrays of `rows` rows.
template <typename T, typename U = T>
Verdict judge(const Condition &condition, int64_t rows, DType type, const std::vector<T> &mask,
              DType inputType = DType::I64, const std::vector<U> &input = {}) {
  Program program;
  program.functions.resize(2);
  program.functions[0].variants = {1};
  program.functions[1].conditions = {condition};
  const int64_t columns = int64_t(mask.size()) / rows;
  std::vector<ArrayView> arrays = {
      {mask.data(), type, {rows, columns}, int64_t(mask.size() * sizeof(T))},
      {input.data(), inputType, {rows, columns}, int64_t(input.size() * sizeof(U))}};
  return lookAt(program, program.functions[0], arrays, {false, false}).verdicts.at(0);
}

} // namespace

TEST(Conditions, Binary) {
  EXPECT_EQ(judge<int64_t>(binary(0), 2, DType::I64, {1, 0, 1, 1}).condition, -1);
  EXPECT_EQ(judge<int64_t>(binary(0), 3, DType::I64, {1, 0, 1, 2, -1, 0}).row, 1);
  EXPECT_EQ(judge<float>(binary(0), 2, DType::F32, {1, 0, 0, 0.5f}).row, 1);
  EXPECT_EQ(judge<float>(binary(0), 2, DType::F32, {1, NAN, 0, 1}).row, 0);
  EXPECT_EQ(judge<uint16_t>(binary(0), 1, DType::F16, {0x3c00, 0x8000}).condition, -1);
  EXPECT_EQ(judge<uint16_t>(binary(0), 1, DType::BF16, {0x3c00, 0}).row, 0);
  EXPECT_EQ(judge<uint8_t>(binary(0), 1, DType::Bool, {1, 0}).condition, -1);
}

TEST(Conditions, FixedWherePadded) {
  const std::vector<int64_t> mask = {1, 1, 0, 0, /**/ 1, 1, 1, 0};
  auto of = [&](int64_t shift, const std::vector<int64_t> &labels) {
    return judge<int64_t, int64_t>(fixed(0, 0, 1, shift, -100), 2, DType::I64, mask, DType::I64,
                                   labels);
  };
  EXPECT_EQ(of(0, {5, 6, -100, -100, 7, 8, 9, -100}).condition, -1);
  EXPECT_EQ(of(0, {5, 6, -100, -100, 7, 8, 9, 3}).row, 1);
  EXPECT_EQ(of(0, {5, 6, 1, -100, 7, 8, 9, 3}).row, 0);
  // Shifted, the second row's padding is beyond the end.
  EXPECT_EQ(of(1, {5, 6, 1, -100, 7, 8, 9, 3}).condition, -1);
  EXPECT_EQ(of(1, {5, 6, 1, 2, 7, 8, 9, 3}).row, 0);
  EXPECT_EQ(of(4, {5, 6, 1, 2, 7, 8, 9, 3}).condition, -1);
  // Other types; a value that the elements cannot have is never met.
  EXPECT_EQ((judge<uint8_t, int8_t>(fixed(0, 0, 1, 0, -100), 1, DType::Bool, {1, 0}, DType::I8,
                                    {3, -100}))
                .condition,
            -1);
  EXPECT_EQ((judge<uint8_t, uint8_t>(fixed(0, 0, 1, 0, -100), 1, DType::Bool, {1, 0}, DType::U8,
                                     {3, 156}))
                .row,
            0);
  EXPECT_EQ(
      (judge<uint8_t, uint8_t>(fixed(0, 256, 1, 0, 5), 1, DType::U8, {0, 0}, DType::U8, {3, 4}))
          .condition,
      -1);
  EXPECT_EQ((judge<float, int64_t>(fixed(0, 0, 1, 0, 7), 1, DType::F32, {1, 0}, DType::I64, {3, 7}))
                .condition,
            -1);
}

TEST(Conditions, RealAt) {
  const std::vector<int32_t> ids = {5, 6, 0, /**/ 0, 7, 8};
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, 0), 2, DType::I32, ids).row, 1);
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, 1), 2, DType::I32, ids).condition, -1);
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, -1), 2, DType::I32, ids).row, 0);
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, 3), 2, DType::I32, ids).row, 0); // there is no such column
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, -2), 2, DType::I32, ids).condition, -1);
  EXPECT_EQ(judge<int32_t>(realAt(0, 0, -2), 2, DType::I32, {5, 0, 0, 0, 0, 0}).row, 1);
}

TEST(Conditions, Contiguous) {
  const Condition whole{Kind::Contiguous, 0, UINT32_MAX, 0, 0, 0, 0};
  EXPECT_EQ(judge<int64_t>(whole, 2, DType::I64, {1, 1, 2, 0, /**/ 7, 3, 3, 9}).condition, -1);
  EXPECT_EQ(judge<int64_t>(whole, 2, DType::I64, {1, 2, 1, 0, /**/ 1, 1, 2, 2}).row, 0);
  EXPECT_EQ(judge<int64_t>(whole, 2, DType::I64, {1, 2, 2, 0, /**/ 9, 2, 5, 9}).row, 1);
  // Padding is left out wherever it lies; what is no number of the type is in no row.
  EXPECT_EQ(judge<int32_t>(whole, 1, DType::I32, {0, 4, 0, 4, -1, 0}).condition, -1);
  EXPECT_EQ(
      judge<uint8_t>({Kind::Contiguous, 0, UINT32_MAX, 256, 0, 0, 0}, 1, DType::U8, {0, 4, 0}).row,
      0);
  EXPECT_EQ(judge<int8_t>({Kind::Contiguous, 0, UINT32_MAX, -1, 0, 0, 0}, 1, DType::I8, {0, -1, 0})
                .condition,
            -1);
}

TEST(Conditions, Unbroken) {
  const Condition whole{Kind::Unbroken, 0, UINT32_MAX, 0, 0, 0, 0};
  EXPECT_EQ(judge<int64_t>(whole, 3, DType::I64, {0, 1, 1, 0, /**/ 1, 1, 0, 0, /**/ 0, 0, 0, 0})
                .condition,
            -1);
  EXPECT_EQ(judge<int64_t>(whole, 2, DType::I64, {1, 1, 0, 0, /**/ 1, 0, 0, 1}).row, 1);
  // Padding between documents is no harm.
  EXPECT_EQ(judge<int32_t>(whole, 1, DType::I32, {0, 4, 4, 0, 0, 5, 2, 0, 3}).condition, -1);
  EXPECT_EQ(judge<int32_t>(whole, 1, DType::I32, {0, 4, 4, 0, 4}).row, 0);
  EXPECT_EQ(judge<uint8_t>({Kind::Unbroken, 0, UINT32_MAX, 256, 0, 0, 0}, 1, DType::U8, {4, 0, 4})
                .condition,
            -1);
}

TEST(Conditions, Above) {
  const Condition above{Kind::Above, 0, UINT32_MAX, 0, 0, 0, 0};
  EXPECT_EQ(judge<int64_t>(above, 2, DType::I64, {1, 0, 5, 3}).condition, -1);
  EXPECT_EQ(judge<int64_t>(above, 2, DType::I64, {1, 0, -1, 3}).row, 1);
  EXPECT_EQ(judge<uint64_t>(above, 1, DType::U64, {UINT64_MAX, 0}).condition, -1);
  EXPECT_EQ(
      judge<uint16_t>({Kind::Above, 0, UINT32_MAX, 7, 0, 0, 0}, 2, DType::U16, {7, 8, 6, 9}).row,
      1);
}

namespace {

class VariantTest : public testing::Test {
protected:
  void open(TinyVariant variant, SessionOptions sessionOptions = {}) {
    TinyOptions options;
    options.variant = std::move(variant);
    session.reset();
    const std::string path = folder / ("m" + std::to_string(++opened) + ".tpk");
    writeTinyPackage(path, options);
    ASSERT_TRUE(Package::open(path, package).ok());
    sessionOptions.commandDone = [this](const CommandRecord &record) {
      ran = record.function->name;
    };
    ASSERT_TRUE(Session::create(package, sessionOptions, session).ok());
  }
  /// The function that runs a batch of these ids.
  std::string runs(const TinyBatch &batch, size_t times = 1) {
    StepResult result;
    Status status = session->step(std::vector<Batch>(times, batch.batch()), {}, result);
    EXPECT_TRUE(status.ok()) << status.message();
    return ran;
  }
  static TinyBatch ids(std::vector<int64_t> ids) {
    TinyBatch batch(int64_t(ids.size()));
    batch.id = std::move(ids);
    return batch;
  }
  std::vector<float> w() {
    ArrayView array;
    EXPECT_TRUE(session->parameter(0, array).ok());
    auto *values = static_cast<const float *>(array.data);
    return {values, values + 3};
  }

  TemporaryFolder folder;
  int opened = 0;
  std::shared_ptr<const Package> package;
  std::unique_ptr<Session> session;
  std::string ran;
};

} // namespace

TEST_F(VariantTest, UsedWhereTheBatchAllowsIt) {
  open({{binary(1)}});
  EXPECT_EQ(runs(ids({0, 1, 1, 0})), "step.packed");
  EXPECT_EQ(runs(ids({0, 1, 2, 3})), "step"); // of the same shape
  EXPECT_EQ(runs(ids({0, 1, 1, 2})), "step");
  EXPECT_EQ(runs(ids({0, 1})), "step.packed");
  const PlanUse &use = session->planUse();
  EXPECT_EQ(use.batches, 4);
  EXPECT_EQ(use.byVariants, 2);
  ASSERT_EQ(use.declined.size(), 1u);
  EXPECT_EQ(
      describe(package->program(), use.declined[0]),
      "'step' ran instead of 'step.packed' for 2 batches: condition 'binary' ('id' is 0 or 1) "
      "did not hold, first for row 2");
}

TEST_F(VariantTest, MicroBatchesGetTheirOwn) {
  open({{binary(1)}});
  StepResult result;
  const TinyBatch good = ids({0, 1, 1, 0}), other = ids({0, 1, 1, 3});
  ASSERT_TRUE(session->step({good.batch(), other.batch()}, {}, result).ok());
  EXPECT_EQ(session->planUse().batches, 2);
  EXPECT_EQ(session->planUse().byVariants, 1);
  // The same values as without variants.
  const std::vector<float> mixed = w();
  SessionOptions options;
  options.variants = false;
  open({{binary(1)}}, options);
  ASSERT_TRUE(session->step({good.batch(), other.batch()}, {}, result).ok());
  EXPECT_EQ(session->planUse().byVariants, 0);
  EXPECT_EQ(w(), mixed);
  EXPECT_EQ(runs(good), "step");
  EXPECT_TRUE(session->planUse().declined.empty()); // nobody has asked
}

TEST_F(VariantTest, OnlyWhereItPays) {
  TinyVariant variant;
  variant.flops = 95;
  open(variant);
  EXPECT_EQ(runs(ids({0, 1})), "step.packed");
  variant.flops = 96;
  variant.conditions = {binary(1)};
  open(variant);
  EXPECT_EQ(runs(ids({0, 1})), "step");
  EXPECT_EQ(runs(ids({0, 3})), "step");
  EXPECT_TRUE(session->planUse().declined.empty());
  // Without the work of one side, wherever it may.
  variant.baseFlops = -1;
  open(variant);
  EXPECT_EQ(runs(ids({0, 1})), "step.packed");
  EXPECT_EQ(runs(ids({0, 3})), "step");
}

TEST_F(VariantTest, AllConditionsHold) {
  open({{binary(1), realAt(0, 0, 0), fixed(0, 0, 0, 1, 0)}});
  TinyBatch batch = ids({0, 1});
  batch.x = {1, 0, 0, 2, 3, 4};
  EXPECT_EQ(runs(batch), "step.packed");
  batch.x[2] = 5; // behind a padded one
  EXPECT_EQ(runs(batch), "step");
  batch.x[0] = 0;
  EXPECT_EQ(runs(batch), "step");
  const auto &declined = session->planUse().declined;
  ASSERT_EQ(declined.size(), 2u);
  EXPECT_NE(
      describe(package->program(), declined[0]).find("'x' is 0, 1 further on, where 'x' is 0"),
      std::string::npos);
  EXPECT_NE(describe(package->program(), declined[1]).find("'x' is not 0 in column 0"),
            std::string::npos);
  for (const auto &[column, text] : {std::pair(-1, "'x' is not 0 in the last column"),
                                     std::pair(-2, "is not 0 in some column")}) {
    open({{realAt(0, 0, column)}});
    batch.x.assign(6, 0);
    EXPECT_EQ(runs(batch), "step");
    ASSERT_EQ(session->planUse().declined.size(), 1u);
    const std::string said = describe(package->program(), session->planUse().declined[0]);
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
}

TEST_F(VariantTest, WhatTheHostDoesNotSee) {
  Program program;
  program.functions.resize(2);
  program.functions[0].variants = {1};
  program.functions[1].conditions = {binary(0)};
  std::vector<int64_t> values = {1, 1};
  std::vector<ArrayView> arrays = {{values.data(), DType::I64, {2}, 16}};
  arrays[0].onDevice = true;
  Verdict verdict = lookAt(program, program.functions[0], arrays, {false}).verdicts.at(0);
  EXPECT_EQ(verdict.condition, 0);
  EXPECT_EQ(verdict.row, -1);
  arrays[0].onDevice = false;
  EXPECT_EQ(lookAt(program, program.functions[0], arrays, {true}).verdicts.at(0).condition, 0);
}

TEST_F(VariantTest, BadRecordsAreRefused) {
  auto expect = [&](TinyVariant variant, const std::string &part) {
    TinyOptions options;
    options.variant = std::move(variant);
    writeTinyPackage(folder / "bad.tpk", options);
    std::shared_ptr<const Package> ignored;
    Status status = Package::open(folder / "bad.tpk", ignored);
    EXPECT_EQ(status.code(), Code::BadPackage);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  expect({{binary(3)}}, "conditions[0].input is 3, but there are only 3");
  expect({{binary(UINT32_MAX)}}, "conditions[0].input is ");
  expect({{{Kind(9), 0, 0, 0, 0, 0, 0}}}, "conditions[0].kind 9 is unknown");
  expect({{realAt(1, 0, 0)}}, ".mask 'id' has 1 axes, not 2");
  expect({{realAt(0, 1, 0)}}, ".mask 'x' holds floats, which can only be 0");
  expect({{realAt(0, 0, -3)}}, "has a negative index or shift");
  for (Kind kind : {Kind::Contiguous, Kind::Above, Kind::Unbroken})
    expect({{{kind, 0, UINT32_MAX, 0, 0, 0, 0}}}, ".mask 'x' holds floats, not integers");
  expect({{fixed(0, 0, 0, -1, 0)}}, "has a negative index or shift");
  expect({{fixed(0, 0, 1, 0, 0)}}, ".input 'id' has another shape than 'x'");
  TinyVariant variant;
  variant.of = "stop";
  expect(variant, "function 'step.packed'.variant_of 'stop' is no function");
  variant.of = "step.packed";
  expect(variant, "is a variant itself");
  variant.of = "micro.packed";
  expect(variant, "is a variant itself");
  variant.of = "update";
  expect(variant, "computes other outputs");
  variant.of = "micro";
  expect(variant, "has access to other state or gradients");
  variant.of = "";
  variant.conditions = {binary(1)};
  expect(variant, "function 'step'.conditions: it is no variant of a function");
  variant = {};
  variant.otherOutputs = true;
  expect(variant, "computes other outputs");
  variant = {};
  variant.otherState = true;
  expect(variant, "has access to other state or gradients");
}
