// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which plans there are after which batches.

#include "plan/plan_cache.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace trainrt;

namespace {

using Kind = Expr::Kind;
using Symbols = std::vector<int64_t>;

/// Two functions of `rows` and the counts `labelled` and `real`; the second one, a variant, tells
/// its work: 1000 rows and 10 labelled.
struct Fixture {
  Fixture() {
    for (const char *name : {"rows", "labelled", "real"}) {
      Symbol symbol;
      symbol.name = name;
      symbol.counts = symbol.name != "rows";
      program.symbols.push_back(symbol);
    }
    program.exprs = {{Kind::Symbol, 0, 0, 0},      {Kind::Symbol, 1, 0, 0},
                     {Kind::Constant, 0, 0, 1000}, {Kind::Constant, 0, 0, 10},
                     {Kind::Mul, 0, 2, 0},         {Kind::Mul, 1, 3, 0},
                     {Kind::Add, 4, 5, 0}};
    program.functions.resize(2);
    for (Function &function : program.functions) {
      function.symbols = {true, true, true};
      function.counts = {1, 2};
      function.exprs.resize(program.exprs.size());
    }
    // Its work counts, as it is compared with that of another one.
    program.functions[1].base = 0;
    program.functions[1].flops = {0, 1, 2, 3, 4, 5, 6};
  }
  Symbols choose(Symbols symbols, int function = 0) {
    cache.choose(program, program.functions[size_t(function)], symbols);
    return symbols;
  }
  Program program;
  PlanCache cache{64};
};

} // namespace

TEST(PlanCache, OwnPlansWhileThereAreFew) {
  Fixture f;
  EXPECT_EQ(f.choose({4, 64, 128}), (Symbols{4, 64, 128}));
  EXPECT_EQ(f.choose({4, 32, 128}), (Symbols{4, 32, 128}));    // half the work: a plan of its own
  EXPECT_EQ(f.choose({4, 32, 124}), (Symbols{4, 32, 128}));    // 3 % more work is none
  EXPECT_EQ(f.choose({4, 32, 120}), (Symbols{4, 32, 120}));    // 7 % is
  EXPECT_EQ(f.choose({5, 32, 124}), (Symbols{5, 32, 124}));    // other sizes are equal or of no use
  EXPECT_EQ(f.choose({4, 64, 256}), (Symbols{4, 64, 256}));    // none covers it
  EXPECT_EQ(f.choose({4, 32, 124}, 1), (Symbols{4, 32, 124})); // nor that of another function
}

TEST(PlanCache, TheWorkThatFunctionsTellCounts) {
  Fixture f;
  EXPECT_EQ(f.choose({4, 64, 128}, 1), (Symbols{4, 64, 128}));
  // 4640 against 4480 and 4330: less than 5 %, more than that.
  EXPECT_EQ(f.choose({4, 48, 8}, 1), (Symbols{4, 64, 128}));
  EXPECT_EQ(f.choose({4, 32, 8}, 1), (Symbols{4, 32, 8}));
  // Of several the cheapest.
  EXPECT_EQ(f.choose({4, 24, 8}, 1), (Symbols{4, 32, 8}));
}

TEST(PlanCache, FewPlansForAnyBatches) {
  Fixture f;
  std::mt19937 random(1);
  std::set<Symbols> used;
  double work = 0, needed = 0;
  f.choose({4, 1024, 1024});
  for (int i = 0; i < 5000; ++i) {
    const Symbols wanted{4, int64_t(random() % 128 + 1) * 8, int64_t(random() % 128 + 1) * 8};
    const Symbols found = f.choose(wanted);
    ASSERT_GE(found[1], wanted[1]);
    ASSERT_GE(found[2], wanted[2]);
    work += double(found[1]) * double(found[2]);
    needed += double(wanted[1]) * double(wanted[2]);
    used.insert(found);
  }
  EXPECT_LE(used.size(), PlanCache::few);
  EXPECT_LT(work, 2 * needed);
}

TEST(PlanCache, UncoveredOnesTakeThePlaceOfTheOldest) {
  Fixture f;
  f.cache.setCapacity(PlanCache::few);
  for (int64_t i = 1; i <= int64_t(PlanCache::few); ++i)
    f.choose({i, 8, 8});
  f.choose({1, 8, 8}); // used again, so the second is the oldest
  EXPECT_EQ(f.choose({1, 16, 16}), (Symbols{1, 16, 16}));
  const auto keys = f.cache.keys();
  EXPECT_EQ(keys.size(), PlanCache::few);
  EXPECT_EQ(keys.front().symbols, (Symbols{1, 16, 16}));
  EXPECT_EQ(keys.back().symbols, (Symbols{3, 8, 8}));
}

TEST(PlanCache, PlansAreMadeWhenTheyAreAskedFor) {
  Fixture f;
  const ExecutionPlan *plan, *again;
  f.choose({4, 64, 128});
  EXPECT_EQ(f.cache.made(), 0);
  ASSERT_TRUE(f.cache.get(f.program, f.program.functions[0], {4, 64, 128}, plan).ok());
  ASSERT_TRUE(f.cache.get(f.program, f.program.functions[0], {4, 64, 128}, again).ok());
  EXPECT_EQ(plan, again);
  EXPECT_EQ(f.cache.made(), 1);
  EXPECT_EQ(plan->symbols, (Symbols{4, 64, 128}));
}

TEST(PlanCache, RestoredOnesChooseAlike) {
  Fixture f, g;
  std::mt19937 random(2);
  auto batch = [&] {
    return Symbols{int64_t(random() % 3 + 1), int64_t(random() % 32 + 1) * 8,
                   int64_t(random() % 32 + 1) * 8};
  };
  for (int i = 0; i < 300; ++i)
    f.choose(batch(), int(random() % 2));
  auto keys = f.cache.keys();
  for (PlanCache::Key &key : keys)
    key.function = &g.program.functions[size_t(key.function - f.program.functions.data())];
  g.cache.restore(keys);
  for (int i = 0; i < 300; ++i) {
    const Symbols wanted = batch();
    const int function = int(random() % 2);
    ASSERT_EQ(f.choose(wanted, function), g.choose(wanted, function));
  }
}
