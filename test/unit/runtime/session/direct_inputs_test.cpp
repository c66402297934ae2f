// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batches in the GPU's memory: read where they lie, or copied there and said why.

#include "cuda_fixture.h"
#include "device/cuda/direct_inputs.h"
#include "session/create_device.h"

namespace {

class DirectInputs : public CudaTest {
protected:
  /// A batch whose arrays all lie in memory of the GPU that is not the session's.
  struct Resident {
    Resident(const trainrt::cuda::Driver &driver, const TinyBatch &values, size_t offset = 0)
        : driver(driver), inputs(values.batch()) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        ArrayView &array = inputs[i].array;
        EXPECT_EQ(driver.cuMemAlloc(&blocks[i], offset + size_t(array.bytes)), 0);
        auto *to = reinterpret_cast<unsigned char *>(blocks[i]) + offset;
        std::memcpy(to, array.data, size_t(array.bytes));
        array.data = to;
      }
    }
    ~Resident() {
      for (uint64_t block : blocks)
        driver.cuMemFree(block);
    }
    Resident(const Resident &) = delete;
    const trainrt::cuda::Driver &driver;
    Batch inputs;
    trainrt::cuda::CUdeviceptr blocks[3] = {};
  };

  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_TRUE(trainrt::cuda::Driver::load(driver).ok());
  }
  std::unique_ptr<Resident> resident(const TinyBatch &values, size_t offset = 0) {
    return std::make_unique<Resident>(*driver, values, offset);
  }
  static double step(Session &session, const Batch &batch, StepOptions options = {}) {
    StepResult result;
    Status status = session.step({batch}, options, result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result.loss;
  }
  static uint64_t copies(const Session &session) { return session.inputCopies().count; }

  const trainrt::cuda::Driver *driver = nullptr;
};

TEST_F(DirectInputs, AreNotCopiedOnceTheirAddressesRecur) {
  auto session = make(), reference = make();
  const TinyBatch values[3] = {TinyBatch(16, 1), TinyBatch(16, 2), TinyBatch(16, 3)};
  std::unique_ptr<Resident> batches[3];
  for (int i = 0; i < 3; ++i)
    batches[i] = resident(values[i]);
  int seen = 0;
  // Three turns of three, an odd number: all of them have met both sides of the staging blocks.
  for (int i = 0; i < 30; ++i) {
    if (i == 9)
      seen = fake->copiesWithin;
    EXPECT_EQ(step(*session, batches[i % 3]->inputs), step(*reference, values[i % 3].batch()));
  }
  EXPECT_EQ(fake->copiesWithin, seen);
  EXPECT_EQ(copies(*session), 9u) << "each of the first three batches, three arrays each";
  EXPECT_STREQ(session->inputCopies().reason, "no batch of late had its address");
  EXPECT_EQ(CudaTest::values(*session), CudaTest::values(*reference));
  EXPECT_EQ(copies(*reference), 0u);
  EXPECT_STREQ(reference->inputCopies().reason, "");
}

TEST_F(DirectInputs, AreReadWhenTheStepRuns) {
  auto session = make(), reference = make();
  TinyBatch first(16, 1), second(16, 2);
  auto batch = resident(first);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(step(*session, batch->inputs), step(*reference, first.batch()));
  // In the same place other values are another batch.
  std::memcpy(const_cast<void *>(batch->inputs[0].array.data), second.x.data(), 16 * 12);
  Batch mixed = first.batch();
  mixed[0].array.data = second.x.data();
  EXPECT_EQ(step(*session, batch->inputs), step(*reference, mixed));
  EXPECT_EQ(copies(*session), 3u);
}

TEST_F(DirectInputs, BesideInputsOfTheHost) {
  auto session = make(), reference = make();
  TinyBatch values(16, 1);
  auto batch = resident(values);
  Batch mixed = values.batch();
  mixed[2] = batch->inputs[2];
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(step(*session, mixed), step(*reference, values.batch()));
    for (float &x : values.x)
      x += 0.25f;
  }
  EXPECT_EQ(copies(*session), 1u);
}

TEST_F(DirectInputs, WithLag) {
  auto session = make(), reference = make();
  StepOptions lag;
  lag.lag = true;
  std::vector<TinyBatch> values;
  std::vector<std::unique_ptr<Resident>> batches;
  for (unsigned i = 0; i < 2; ++i)
    batches.push_back(resident(values.emplace_back(16, i + 1)));
  for (size_t i = 0; i < 12; ++i) {
    const double loss = step(*session, batches[i % 2]->inputs, lag),
                 expected = step(*reference, values[i % 2].batch(), lag);
    if (i > 0) // the first call has no result of a step before it
      EXPECT_EQ(loss, expected);
  }
  StepResult a, b;
  ASSERT_TRUE(session->finish(a).ok() && reference->finish(b).ok());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(CudaTest::values(*session), CudaTest::values(*reference));
  EXPECT_EQ(copies(*session), 6u);
}

TEST_F(DirectInputs, OfMicroBatchesAndEvaluations) {
  auto session = make(), reference = make();
  const TinyBatch values[2] = {TinyBatch(16, 1), TinyBatch(16, 2)};
  auto first = resident(values[0]), second = resident(values[1]);
  StepResult a, b;
  double lossA = 0, lossB = 0;
  for (int i = 0; i < 8; ++i) {
    if (i == 4)
      fake->copiesWithin = 0;
    ASSERT_TRUE(session->step({first->inputs, second->inputs}, {}, a).ok());
    ASSERT_TRUE(reference->step({values[0].batch(), values[1].batch()}, {}, b).ok());
    EXPECT_EQ(a.loss, b.loss);
    ASSERT_TRUE(session->eval(first->inputs, false, lossA).ok());
    ASSERT_TRUE(reference->eval(values[0].batch(), false, lossB).ok());
    EXPECT_EQ(lossA, lossB);
  }
  EXPECT_EQ(copies(*session), 9u) << "two micro-batches and an evaluation";
}

TEST_F(DirectInputs, OfAStepThatMayBeMadeAgain) {
  // The bad step is known when the next one has been enqueued, and its caller has other plans for
  // the memory by then.
  auto session = make(), reference = make();
  StepOptions lag;
  lag.lag = lag.allowNonfinite = true;
  TinyBatch good(16, 1), worse = bad(16);
  auto first = resident(good), second = resident(worse), third = resident(good);
  for (int i = 0; i < 6; ++i) {
    step(*session, (i % 3 == 1 ? second : i % 3 == 2 ? third : first)->inputs, lag);
    step(*reference, (i % 3 == 1 ? worse : good).batch(), lag);
    if (i % 3 != 2)
      continue;
    // In the order of the session's stream, as `signal` gives it.
    ASSERT_EQ(driver->cuMemsetD8Async(third->blocks[0], 0xff, 16 * 12,
                                      static_cast<trainrt::cuda::CUstream>(session->stream())),
              0);
    StepResult a, b;
    ASSERT_TRUE(session->finish(a).ok() && reference->finish(b).ok());
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_TRUE(std::isfinite(a.loss));
    driver->cuStreamSynchronize(static_cast<trainrt::cuda::CUstream>(session->stream()));
    std::memcpy(reinterpret_cast<void *>(third->blocks[0]), good.x.data(), 16 * 12);
  }
  EXPECT_NE(std::string(session->inputCopies().reason).find("this one is made again then"),
            std::string::npos);
  EXPECT_EQ(CudaTest::values(*session), CudaTest::values(*reference));
}

TEST_F(DirectInputs, WhatIsCopiedAlwaysAndWhy) {
  auto session = make(), reference = make();
  TinyBatch values(16, 1);
  {
    auto batch = resident(values, 16);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(step(*session, batch->inputs), step(*reference, values.batch()));
    EXPECT_EQ(copies(*session), 12u);
    EXPECT_STREQ(session->inputCopies().reason, "its address is not a multiple of 256");
  }
  // `pred`, which the step writes anew while it reads its input.
  double loss = 0;
  ASSERT_TRUE(session->eval(values.batch(), false, loss).ok());
  Session::Place place;
  ASSERT_TRUE(session->place(Session::Value::Output, 1, place).ok() ||
              session->place(Session::Value::Output, 0, place).ok());
  ASSERT_EQ(place.array.bytes, 64);
  for (int i = 0; i < 4; ++i) {
    Batch batch = values.batch();
    std::vector<float> seen(16);
    ArrayView view;
    ASSERT_TRUE(session->eval(batch, false, loss).ok());
    ASSERT_TRUE(session->stream());
    driver->cuStreamSynchronize(static_cast<trainrt::cuda::CUstream>(session->stream()));
    std::memcpy(seen.data(), place.array.data, 64);
    batch[2].array.data = place.array.data;
    Batch copied = values.batch();
    copied[2].array.data = seen.data();
    EXPECT_EQ(step(*session, batch), step(*reference, copied));
  }
  EXPECT_STREQ(session->inputCopies().reason, "it is the session's own memory");
  EXPECT_EQ(copies(*session), 16u);

  SessionOptions options;
  options.synchronous = true;
  auto slow = make(options);
  auto batch = resident(values);
  for (int i = 0; i < 3; ++i)
    step(*slow, batch->inputs);
  EXPECT_EQ(copies(*slow), 9u);
  EXPECT_STREQ(slow->inputCopies().reason, "commands run one by one, without a graph");
}

TEST_F(DirectInputs, GraphsAreBounded) {
  auto session = make(), reference = make();
  TinyBatch values(16, 1);
  std::vector<std::unique_ptr<Resident>> batches;
  for (int i = 0; i < 40; ++i)
    batches.push_back(resident(values));
  step(*session, values.batch());
  step(*reference, values.batch());
  // As the slices of a data set come: each again after all of the others.
  int captures = fake->captures;
  for (int i = 0; i < 120; ++i)
    EXPECT_EQ(step(*session, batches[size_t(i % 40)]->inputs), step(*reference, values.batch()));
  EXPECT_EQ(fake->captures, captures);
  // In an order that meets some of them again, always others: graphs have to have been of use.
  const int live = fake->liveGraphs;
  captures = fake->captures;
  for (unsigned i = 0, random = 1; i < 400; ++i) {
    random = random * 1664525 + 1013904223;
    step(*session, batches[(random >> 16) % 14]->inputs);
  }
  EXPECT_LE(fake->captures - captures, 26);
  EXPECT_LE(fake->liveGraphs, live + int(cuda::RecurringAddresses::mostGraphs));
}

TEST_F(DirectInputs, GraphsGoBeforeMemoryIsShort) {
  fake->graphBytes = 1000;
  auto session = make(), reference = make();
  TinyBatch values(16, 1);
  auto batch = resident(values);
  const int64_t driverBytes = [&] {
    step(*session, values.batch());
    return session->memory().driver;
  }();
  step(*reference, values.batch());
  // The first one finds no memory: the batch is copied, and the step made.
  fake->failingGraph = 1;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(step(*session, batch->inputs), step(*reference, values.batch()));
  EXPECT_STREQ(session->inputCopies().reason,
               "there was no memory for a graph that reads it where it is");
  EXPECT_EQ(copies(*session), 6u);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(step(*session, batch->inputs), step(*reference, values.batch()));
  EXPECT_EQ(copies(*session), 6u);
  EXPECT_EQ(session->memory().driver, driverBytes + 2000);
  // A larger batch gets what they hold.
  const TinyBatch more(64, 2);
  fake->memory = fake->allocated + 7000;
  const int live = fake->liveGraphs;
  std::vector<trainrt::cuda::CUdeviceptr> taken;
  while (fake->memory - fake->allocated > 512) {
    trainrt::cuda::CUdeviceptr block = 0;
    ASSERT_EQ(driver->cuMemAlloc(&block, 512), 0);
    taken.push_back(block);
  }
  const double loss = step(*session, more.batch());
  EXPECT_EQ(fake->liveGraphs, live) << "two for it, in the place of two";
  for (trainrt::cuda::CUdeviceptr block : taken)
    driver->cuMemFree(block);
  fake->memory = size_t(1) << 30;
  EXPECT_EQ(loss, step(*reference, more.batch()));
  EXPECT_EQ(step(*session, batch->inputs), step(*reference, values.batch()));
}

TEST_F(DirectInputs, OfMatmuls) {
  TinyOptions options;
  options.cudaGemm = true;
  open(options);
  auto session = make(), reference = make();
  const TinyBatch values[2] = {TinyBatch(16, 1), TinyBatch(16, 2)};
  auto first = resident(values[0]), second = resident(values[1]);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(step(*session, (i % 2 ? second : first)->inputs),
              step(*reference, values[i % 2].batch()));
  EXPECT_EQ(copies(*session), 6u);
  EXPECT_EQ(CudaTest::values(*session), CudaTest::values(*reference));
}

} // namespace
