// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes that a batch's values decide: buckets, counting, and what a session makes of them.

#include "plan/counts.h"
#include "program_generated.h"
#include "session/checkpoint.h"
#include "tiny_package.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <tuple>

using namespace trainrt;
using namespace trainrt::test;

namespace {

Symbol countSymbol(int64_t min, int64_t divisor, int64_t max = INT64_MAX) {
  Symbol symbol;
  symbol.min = min;
  symbol.max = max;
  symbol.divisor = divisor;
  symbol.counts = true;
  return symbol;
}

template <typename T> int64_t countOf(const std::vector<T> &values, DType dtype, int64_t differs) {
  return countDiffering(
      {values.data(), dtype, {int64_t(values.size())}, int64_t(values.size() * sizeof(T))},
      differs);
}

} // namespace

TEST(Buckets, AreLargeEnoughAndFew) {
  constexpr int64_t whole = int64_t(1) << 40;
  for (int64_t divisor : {1, 2, 3, 7, 8, 12, 16, 64, 100}) {
    const Symbol symbol = countSymbol(0, divisor);
    std::set<int64_t> octave;
    int64_t before = 0, end = 16;
    for (int64_t n = 0; n <= 20000; ++n) {
      const int64_t bucket = bucketOf(symbol, n, whole);
      ASSERT_GE(bucket, n);
      ASSERT_EQ(bucket % divisor, 0);
      ASSERT_GE(bucket, before);
      // At most an eighth more than needed, and the divisor's rounding twice.
      ASSERT_LE(bucket, n + n / 8 + 2 * divisor);
      ASSERT_GE(bucketOf(symbol, bucket, whole), bucket);
      before = bucket;
      if (n > end) {
        if (end > 16)
          ASSERT_LE(octave.size(), 10u) << "up to " << end << " by " << divisor;
        octave.clear();
        end *= 2;
      }
      octave.insert(bucket);
    }
  }
  // Where the divisor is a power of two, as it is in practice, just eight.
  for (int64_t divisor : {1, 8, 32}) {
    std::set<int64_t> octave;
    for (int64_t n = 1025; n <= 2048; ++n)
      octave.insert(bucketOf(countSymbol(32, divisor), n, whole));
    EXPECT_EQ(octave, (std::set<int64_t>{1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048}));
  }
}

TEST(Buckets, KeepTheirBounds) {
  EXPECT_EQ(bucketOf(countSymbol(8, 8), 0, 100), 8);
  EXPECT_EQ(bucketOf(countSymbol(64, 8), 3, 100), 64);
  EXPECT_EQ(bucketOf(countSymbol(8, 8), 97, 100), 104); // not 112: the whole, rounded up
  EXPECT_EQ(bucketOf(countSymbol(0, 8), 0, 0), 0);
  EXPECT_EQ(bucketOf(countSymbol(8, 8), 0, 0), 8);
  EXPECT_EQ(bucketOf(countSymbol(8, 8, 1600), 1545, 100000), 1600); // not 1664: the maximum
  EXPECT_EQ(bucketOf(countSymbol(8, 8, 1600), 100000, 100000), 1600);
  const int64_t most = INT64_MAX / 2;
  EXPECT_GE(bucketOf(countSymbol(0, 8), most, most), most);
}

TEST(Counting, EveryType) {
  EXPECT_EQ(countOf<int64_t>({1, -100, 3, -100, 0}, DType::I64, -100), 3);
  EXPECT_EQ(countOf<int32_t>({1, -100, 3, -100}, DType::I32, -100), 2);
  EXPECT_EQ(countOf<int16_t>({1, -100, 3}, DType::I16, -100), 2);
  EXPECT_EQ(countOf<int8_t>({1, -100, 3}, DType::I8, -100), 2);
  EXPECT_EQ(countOf<int8_t>({44, -100, 3}, DType::I8, 300), 3); // 300 is none of them
  EXPECT_EQ(countOf<uint8_t>({156, 0, 3}, DType::U8, -100), 3);
  EXPECT_EQ(countOf<uint8_t>({1, 0, 0, 1}, DType::Bool, 0), 2);
  EXPECT_EQ(countOf<uint16_t>({7, 0}, DType::U16, 7), 1);
  EXPECT_EQ(countOf<uint32_t>({7, 4294967295u}, DType::U32, 4294967295), 1);
  EXPECT_EQ(countOf<uint64_t>({7, UINT64_MAX}, DType::U64, -1), 2);
  EXPECT_EQ(countOf<float>({1.0f, 0.0f, -0.0f, NAN, 1e-45f}, DType::F32, 0), 3);
  EXPECT_EQ(countOf<double>({1.0, 0.0, -0.0, INFINITY}, DType::F64, 0), 2);
  EXPECT_EQ(countOf<uint16_t>({0x8000, 0x3c00, 0, 1}, DType::F16, 0), 2);
  EXPECT_EQ(countOf<uint16_t>({0x8000, 0x3f80, 0}, DType::BF16, 0), 1);
  EXPECT_EQ(countDiffering({nullptr, DType::I64, {0}, 0}, 1), 0);
}

TEST(Counting, Runs) {
  const std::vector<int64_t> rows = {3, 3, 0, 3,      5, 5, 5, /**/ 0, 0, 0, 0,
                                     0, 0, 0, /**/ 5, 5, 3, 3, 9,      0, 0};
  const ArrayView array = {rows.data(), DType::I64, {3, 7}, int64_t(rows.size() * 8)};
  Symbol symbol = countSymbol(8, 8);
  EXPECT_EQ(countOf(symbol, array), 11);
  EXPECT_EQ(mostOf(symbol, array.shape), 21);
  symbol.what = Symbol::What::Runs;
  EXPECT_EQ(countOf(symbol, array), 5);
  EXPECT_EQ(mostOf(symbol, array.shape), 21);
  symbol.what = Symbol::What::LongestRun;
  EXPECT_EQ(countOf(symbol, array), 3);
  EXPECT_EQ(mostOf(symbol, array.shape), 7);
  symbol.differs = 3;
  EXPECT_EQ(countOf(symbol, array), 7);
  EXPECT_EQ(countOf(symbol, {nullptr, DType::I64, {0, 7}, 0}), 0);
}

TEST(Counting, Sequences) {
  // The second row goes on where the first one ends, and is one of its own.
  const std::vector<int64_t> rows = {0, 1, 2, 0, 1, 0, 0, /**/ 1, 2, 3, 4, 5, 7, 6};
  const ArrayView array = {rows.data(), DType::I64, {2, 7}, int64_t(rows.size() * 8)};
  Symbol symbol = countSymbol(8, 8);
  symbol.what = Symbol::What::Sequences;
  EXPECT_EQ(countOf(symbol, array), 7);
  EXPECT_EQ(mostOf(symbol, array.shape), 14);
  symbol.what = Symbol::What::LongestSequence;
  EXPECT_EQ(countOf(symbol, array), 5);
  EXPECT_EQ(mostOf(symbol, array.shape), 7);
  EXPECT_EQ(countOf(symbol, {nullptr, DType::I64, {0, 7}, 0}), 0);
  const std::vector<uint8_t> small = {255, 0, 1, 1}; // as 8 bits wrap around
  const std::vector<int32_t> negative = {-2, -1, 0, 2};
  EXPECT_EQ(countOf(symbol, {small.data(), DType::I8, {1, 4}, 4}), 3);
  EXPECT_EQ(countOf(symbol, {negative.data(), DType::I32, {1, 4}, 16}), 3);
}

namespace {

class CountTest : public testing::Test {
protected:
  CountTest() { open({}); }
  void open(TinyCount count) {
    TinyOptions options;
    options.count = count;
    session.reset();
    writeTinyPackage(folder / "m.tpk", options);
    ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
    ASSERT_TRUE(Session::create(package, {}, session).ok());
  }
  /// `labelled` of `rows` ids are not -100.
  static TinyBatch make(int64_t rows, int64_t labelled) {
    TinyBatch batch(rows);
    for (int64_t i = 0; i < rows; ++i)
      batch.id[size_t(i * 7 % rows)] = i < labelled ? i % 4 : -100;
    return batch;
  }
  /// What the arena must be for so many.
  int64_t arenaFor(int64_t rows, int64_t labelled) {
    ExecutionPlan plan;
    EXPECT_TRUE(makePlan(package->program(), *package->step(), {rows, labelled}, plan).ok());
    return plan.arenaBytes;
  }
  Status step(const TinyBatch &batch) {
    StepResult result;
    return session->step({batch.batch()}, {}, result);
  }

  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  std::unique_ptr<Session> session;
};

} // namespace

TEST_F(CountTest, FollowsTheBatch) {
  // Shapes stay the same, values change: the second batch is bound by what was known of the first.
  ASSERT_TRUE(step(make(100, 3)).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 8));
  ASSERT_TRUE(step(make(100, 41)).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 48));
  ASSERT_TRUE(step(make(100, 100)).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 104));
  // A narrower type has the same values.
  TinyBatch batch = make(200, 60);
  std::vector<int16_t> narrow(batch.id.begin(), batch.id.end());
  Batch converted = batch.batch();
  converted[1].array.data = narrow.data();
  converted[1].array.dtype = DType::I16;
  open({});
  StepResult result;
  ASSERT_TRUE(session->step({converted}, {}, result).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(200, 64));
}

TEST_F(CountTest, FilledInputsAreZeros) {
  double loss;
  TinyBatch batch = make(40, 5);
  Batch given = batch.batch();
  given.erase(given.begin() + 1);
  ASSERT_TRUE(session->eval(given, true, loss).ok());
  ExecutionPlan plan;
  ASSERT_TRUE(makePlan(package->program(), *package->eval(), {40, 40}, plan).ok());
  EXPECT_EQ(session->memory().arena, plan.arenaBytes);
}

TEST_F(CountTest, GivenCounts) {
  ASSERT_TRUE(session->setCount(1, 50).ok());
  ASSERT_TRUE(step(make(100, 3)).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 56));
  const TinyBatch many = make(100, 51);
  Status status = step(many);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(),
            "the count 'labelled' was given as 50, but input 'id' needs 51: so many "
            "of its elements are not -100");
  EXPECT_EQ(session->check({many.batch()}).message(), status.message());
  ASSERT_TRUE(session->setCount(1, -1).ok());
  EXPECT_TRUE(step(many).ok());
  EXPECT_EQ(session->setCount(1, -2).code(), Code::InvalidArgument);
  status = session->setCount(0, 5);
  EXPECT_NE(status.message().find("'batch' is no count"), std::string::npos) << status.message();
}

TEST_F(CountTest, WhatWasCheckedIsNotCountedAgain) {
  TinyBatch batch = make(100, 3);
  ASSERT_TRUE(session->check({batch.batch()}).ok());
  // Against the rules, to see where the number comes from.
  std::fill(batch.id.begin(), batch.id.end(), 1);
  StepResult result;
  StepOptions options;
  options.checked = true;
  ASSERT_TRUE(session->step({batch.batch()}, options, result).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 8));
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  EXPECT_EQ(session->memory().arena, arenaFor(100, 104));
}

TEST_F(CountTest, CheckpointsKeepTheChoices) {
  // Work depends little on the count, so what is bound first is used for all that it covers.
  auto bound = [](const Session &session) {
    std::vector<std::vector<int64_t>> symbols;
    for (const PlanCache::Key &key : session.boundPlans())
      symbols.push_back(key.symbols);
    return symbols;
  };
  TinyOptions options;
  options.count.emplace();
  options.variant.emplace().flopsOfCount = 1;
  writeTinyPackage(folder / "w.tpk", options);
  ASSERT_TRUE(Package::open(folder / "w.tpk", package).ok());
  ASSERT_TRUE(Session::create(package, {}, session).ok());
  ASSERT_TRUE(step(make(100, 90)).ok());
  ASSERT_TRUE(step(make(200, 40)).ok());
  CheckpointInfo info;
  ASSERT_TRUE(saveCheckpoint(*session, folder / "c", 0, "", info).ok());
  ASSERT_TRUE(step(make(100, 9)).ok());
  const auto expected = bound(*session);
  EXPECT_EQ(expected.front(), (std::vector<int64_t>{100, 96}));
  ASSERT_TRUE(Session::create(package, {}, session).ok());
  ASSERT_TRUE(loadCheckpoint(*session, folder / "c", info).ok());
  EXPECT_EQ(session->planUse().plans, 0); // they are made when they are needed
  ASSERT_TRUE(step(make(100, 9)).ok());
  EXPECT_EQ(bound(*session), expected);
  // Of a program whose sizes have other bounds, those that fit are left.
  options.count->min = 64;
  writeTinyPackage(folder / "other.tpk", options);
  ASSERT_TRUE(Package::open(folder / "other.tpk", package).ok());
  ASSERT_TRUE(Session::create(package, {}, session).ok());
  ASSERT_TRUE(loadCheckpoint(*session, folder / "c", info).ok());
  for (const auto &symbols : bound(*session))
    EXPECT_TRUE(symbols[1] == 0 || symbols[1] >= 64);
}

TEST_F(CountTest, AboveTheMaximum) {
  TinyCount count;
  count.max = 64;
  open(count);
  EXPECT_TRUE(step(make(100, 64)).ok());
  Status status = step(make(100, 65));
  EXPECT_EQ(status.message(), "input 'id': 65 elements are not -100, at most 64 may be (the count "
                              "'labelled')");
  EXPECT_EQ(session->setCount(1, 65).code(), Code::InvalidArgument);
}

TEST_F(CountTest, WhatIsSaidOfRuns) {
  // "id" has a column, so that it has runs.
  for (auto [kind, name, text] : {std::tuple(fb::CountKind::runs, "runs", "runs are not of -100"),
                                  std::tuple(fb::CountKind::longest_run, "longest_run",
                                             "elements of one run are not -100")}) {
    TinyOptions options;
    options.count.emplace();
    options.editProgram = [&](fb::ProgramT &program) {
      program.symbols[1]->what = kind;
      const auto one = std::find_if(program.exprs.begin(), program.exprs.end(), [](const auto &e) {
        return e.kind() == fb::ExprKind::constant && e.value() == 1;
      });
      program.inputs[1]->shape.push_back(uint32_t(one - program.exprs.begin()));
    };
    options.editManifest = [&](std::string &manifest) {
      auto insertBehind = [&](size_t from, const std::string &what, const std::string &more) {
        const size_t at = manifest.find(what, from);
        ASSERT_NE(at, std::string::npos) << what;
        manifest.insert(at + what.size(), more);
      };
      insertBehind(0, "\"differs\": -100", std::string(", \"counts\": \"") + name + "\"");
      insertBehind(manifest.find("\"name\": \"id\""), "[\"batch\"", ", 1");
    };
    session.reset();
    writeTinyPackage(folder / "m.tpk", options);
    Status status = Package::open(folder / "m.tpk", package);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(Session::create(package, {}, session).ok());
    TinyBatch batch = make(10, 10);
    Batch given = batch.batch();
    given[1].array.shape = {10, 1};
    StepResult result;
    status = session->step({given}, {}, result);
    EXPECT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(session->setCount(1, 0).ok());
    status = session->step({given}, {}, result);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_TRUE(status.message().ends_with(text)) << status.message();
  }
}

TEST_F(CountTest, LargestValueInEstimates) {
  std::vector<int64_t> symbols{100, 0};
  std::vector<bool> known{true, false};
  fillCounts(package->program(), symbols, known);
  EXPECT_EQ(symbols[1], 104);
  EXPECT_TRUE(known[1]);
  known = {false, false};
  fillCounts(package->program(), symbols, known);
  EXPECT_FALSE(known[1]); // the batch is not known
}

TEST_F(CountTest, BadRecordsAreRefused) {
  auto refused = [&](auto edit) {
    TinyOptions options;
    options.count.emplace();
    edit(*options.count);
    writeTinyPackage(folder / "bad.tpk", options);
    std::shared_ptr<const Package> ignored;
    Status status = Package::open(folder / "bad.tpk", ignored);
    EXPECT_EQ(status.code(), Code::BadPackage);
    return status.message();
  };
  auto has = [](const std::string &message, const std::string &part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused([](TinyCount &count) { count.input = 3; }), "'labelled'.source_input is 3");
  has(refused([](TinyCount &count) { count.input = -1; }), "'labelled'.source_input is ");
  has(refused([](TinyCount &count) { count.axis = 0; }), ".source_axis is 0 of a count");
  has(refused([](TinyCount &count) { count.min = 9; }), "no multiples of 8");
  has(refused([](TinyCount &count) { count.max = 100; }), "no multiples of 8");
  has(refused([](TinyCount &count) { count.divisor = 0; }), ".divisor is 0");
  has(refused([](TinyCount &count) { count.input = 0; }), "'x' holds floats");
  has(refused([](TinyCount &count) { count.inInput = true; }),
      "inputs 'y' has the extent labelled, which depends on a count");
  has(refused([](TinyCount &count) { count.inOutput = true; }),
      "outputs 'pred' has the extent labelled, which depends on a count");
  has(refused([](TinyCount &count) { count.inRule = true; }),
      "value_rules: labelled depends on a count");
}
