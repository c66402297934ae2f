// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning on a GPU: other kernels and algorithms, the same values.

#include "cuda_fixture.h"

class CudaTuningTest : public CudaTest {};

TEST_F(CudaTuningTest, TuningChangesNoValue) {
  TinyOptions options;
  options.cudaGemm = true;
  open(options);
  TinyBatch one(6, 1), two(5, 2);
  TuningResult found;
  auto train = [&](bool tunes) {
    auto session = make();
    StepResult ignored;
    EXPECT_TRUE(session->step({one.batch()}, {}, ignored).ok());
    // Into accumulators, which last.
    EXPECT_TRUE(session->gradients({two.batch()}, {}, ignored).ok());
    ArrayView array;
    if (tunes) {
      Status status = session->tune({one.batch()}, 10, found);
      EXPECT_TRUE(status.ok()) << status.message();
      found = {};
      status = session->tune({one.batch(), two.batch()}, 10, found);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(session->output(0, array).code(), Code::NotFound);
    }
    std::vector<std::vector<float>> all = {values(*session), values(*session, true)};
    EXPECT_TRUE(session->gradient(0, array).ok());
    auto *gradient = static_cast<const float *>(array.data);
    all.emplace_back(gradient, gradient + 3);
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(session->step({one.batch(), two.batch()}, {}, ignored).ok());
    all.push_back(values(*session));
    return all;
  };
  // The session itself goes on as it was.
  const auto expected = train(false);
  EXPECT_EQ(train(true), expected);
  ASSERT_EQ(found.choices.size(), 1u);
  EXPECT_EQ(found.choices.begin()->first, "matrix products, cuBLASLt 130100, Fake GPU, 4 SMs");
  EXPECT_EQ(found.choices.begin()->second.size(), 2u);
  ASSERT_EQ(found.lines.size(), 2u);
  for (const TuningResult::Line &line : found.lines) {
    EXPECT_EQ(line.candidates, 3u);
    EXPECT_TRUE(line.changed);
    EXPECT_LT(line.after, line.before);
  }
}

TEST_F(CudaTuningTest, ATunedPackageIsCheckedAndComplete) {
  TinyOptions options;
  options.cudaGemm = true;
  open(options);
  TinyBatch batch(6);
  TuningResult found;
  ASSERT_TRUE(make()->tune({batch.batch()}, 10, found).ok());
  ASSERT_TRUE(writeTuned(*package, found.choices, folder / "tuned.tpk").ok());
  const size_t entries = package->zip().entries().size();
  ASSERT_TRUE(Package::open(folder / "tuned.tpk", package).ok());
  EXPECT_EQ(package->zip().entries().size(), entries + 1);
  EXPECT_EQ(package->tuning(), found.choices);
  EXPECT_EQ(make()->warnings(), "");
  // What a choice says is only looked at where it is used.
  Tuning damaged = found.choices;
  damaged.begin()->second.begin()->second = "12 34";
  ASSERT_TRUE(writeTuned(*package, damaged, folder / "damaged.tpk").ok());
  ASSERT_TRUE(Package::open(folder / "damaged.tpk", package).ok());
  std::unique_ptr<Session> session;
  Status status = Session::create(package, {}, session);
  EXPECT_EQ(status.code(), Code::BadPackage);
  EXPECT_NE(status.message().find("is damaged"), std::string::npos) << status.message();
}

TEST_F(CudaTuningTest, TuningChoosesAmongKernels) {
  TinyOptions options;
  options.cudaVariants = true;
  open(options);
  TinyBatch batch(6);
  TuningResult found;
  StepResult result;
  {
    auto session = make();
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
    const std::vector<float> before = values(*session), state = values(*session, true);
    Status status = session->tune({batch.batch()}, 10, found);
    ASSERT_TRUE(status.ok()) << status.message();
    // Neither what they write nor what they meet in made up numbers is anybody's.
    EXPECT_EQ(values(*session), before);
    EXPECT_EQ(values(*session, true), state);
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  }
  const std::string machine = "kernels, Fake GPU, 4 SMs";
  EXPECT_EQ(found.choices, (Tuning{{machine,
                                    {{"forward 6 blocks of 1 dims 4 0", "forward_fast"},
                                     {"update 3 blocks of 1 dims", "update_fast"}}}}));
  auto write = [&](const Tuning &choices) {
    open(options);
    EXPECT_TRUE(writeTuned(*package, choices, folder / "tuned.tpk").ok());
    EXPECT_TRUE(Package::open(folder / "tuned.tpk", package).ok());
  };
  write(found.choices);
  std::vector<float> tuned, untuned;
  {
    auto session = make();
    EXPECT_EQ(session->warnings(), "");
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
    tuned = values(*session);
    // One that is in use is the first of those that tuning compares.
    TuningResult again;
    ASSERT_TRUE(session->tune({batch.batch()}, 10, again).ok());
    EXPECT_EQ(again.choices, found.choices);
    EXPECT_FALSE(again.lines.front().changed);
  }
  fake->faultingKernel = "update_fast";
  EXPECT_EQ(make()->step({batch.batch()}, {}, result).code(), Code::DeviceError);
  // Another machine's are not used, and that is said.
  write({{"kernels, Other GPU, 4 SMs", found.choices[machine]}});
  {
    auto session = make();
    EXPECT_NE(session->warnings().find("tuned for 'kernels, Other GPU, 4 SMs'; here is"),
              std::string::npos)
        << session->warnings();
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
    untuned = values(*session);
  }
  EXPECT_EQ(tuned, untuned);
  for (const auto &[name, part] :
       {std::pair{"nothing", "there is no kernel 'nothing'"},
        std::pair{"forward_fast", "'forward_fast' is none for update"}}) {
    write({{machine, {{"update 3 blocks of 1 dims", name}}}});
    std::unique_ptr<Session> session;
    Status status = Session::create(package, {}, session);
    if (status.ok())
      status = session->step({batch.batch()}, {}, result);
    EXPECT_EQ(status.code(), Code::BadPackage);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST_F(CudaTuningTest, TuningForTooManyShapes) {
  TinyOptions options;
  options.cudaGemm = true;
  open(options);
  std::vector<TinyBatch> arrays;
  std::vector<Batch> batches;
  for (int64_t rows = 1; rows <= 31; ++rows)
    arrays.emplace_back(rows);
  for (const TinyBatch &batch : arrays)
    batches.push_back(batch.batch());
  auto session = make();
  TuningResult found;
  Status status = session->tune(batches, 0, found);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("more than 30 different shapes"), std::string::npos)
      << status.message();
  batches.pop_back();
  status = session->tune(batches, 0, found);
  EXPECT_TRUE(status.ok()) << status.message();
}
