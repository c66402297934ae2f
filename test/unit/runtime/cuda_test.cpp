// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions on a GPU, with a driver that is none: values travel, graphs are captured once a shape,
// results come late but are those of the CPU, and what can be missing is named.

#include "cuda_fixture.h"
#include "session/create_device.h"

TEST_F(CudaTest, TrainsAsTheCpuDoes) {
  EXPECT_EQ(package->target(), "cuda:sm_90");
  auto gpu = make(), cpu = makeCpu();
  for (int i = 0; i < 5; ++i) {
    TinyBatch batch(16, unsigned(i));
    StepResult a, b;
    Status status = gpu->step({batch.batch()}, {}, a);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(cpu->step({batch.batch()}, {}, b).ok());
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    EXPECT_EQ(a.step, i + 1);
  }
  expectNear(values(*gpu), values(*cpu));
  expectNear(values(*gpu, true), values(*cpu, true));
  // Micro-batches of two shapes, gradients, evaluation.
  TinyBatch one(3, 7), two(5, 8);
  StepResult a, b;
  ASSERT_TRUE(gpu->step({one.batch(), two.batch()}, {}, a).ok());
  ASSERT_TRUE(cpu->step({one.batch(), two.batch()}, {}, b).ok());
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  expectNear(values(*gpu), values(*cpu));
  ASSERT_TRUE(gpu->gradients({one.batch()}, {}, a).ok());
  ASSERT_TRUE(cpu->gradients({one.batch()}, {}, b).ok());
  ArrayView gradientA, gradientB;
  ASSERT_TRUE(gpu->gradient(0, gradientA).ok());
  ASSERT_TRUE(cpu->gradient(0, gradientB).ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(static_cast<const float *>(gradientA.data)[i],
                static_cast<const float *>(gradientB.data)[i], 1e-5f);
  double lossA, lossB;
  ASSERT_TRUE(gpu->eval(two.batch(), false, lossA).ok());
  ASSERT_TRUE(cpu->eval(two.batch(), false, lossB).ok());
  EXPECT_NEAR(lossA, lossB, 1e-5);
  ASSERT_TRUE(gpu->output(1, gradientA).ok());
  ASSERT_TRUE(cpu->output(1, gradientB).ok());
  EXPECT_EQ(gradientA.shape, std::vector<int64_t>{5});
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(static_cast<const float *>(gradientA.data)[i],
                static_cast<const float *>(gradientB.data)[i], 1e-5f);
}

TEST_F(CudaTest, ValuesTravelUnchanged) {
  auto session = make();
  EXPECT_EQ(values(*session), std::vector<float>(initialW, initialW + 3));
  ArrayView frozen;
  ASSERT_TRUE(session->parameter(1, frozen).ok());
  EXPECT_EQ(std::memcmp(frozen.data, table, sizeof table), 0);
  float w[] = {1, 2, 3}, average[] = {4, 5, 6};
  ASSERT_TRUE(session->setParameter(0, {w, DType::F32, {3}, 12}).ok());
  ASSERT_TRUE(session->setState(0, {average, DType::F32, {3}, 12}).ok());
  EXPECT_EQ(values(*session), std::vector<float>(w, w + 3));
  EXPECT_EQ(values(*session, true), std::vector<float>(average, average + 3));
}

TEST_F(CudaTest, RandomWeightsAreTheCpus) {
  SessionOptions options;
  options.weights = SessionOptions::Weights::Random;
  options.seed = 12;
  auto gpu = make(options);
  auto cpu = makeCpu();
  std::unique_ptr<Session> random;
  ASSERT_TRUE(
      Session::create(std::shared_ptr<const Package>(std::shared_ptr<void>(), &cpu->package()),
                      options, random)
          .ok());
  EXPECT_EQ(values(*gpu), values(*random));
}

TEST_F(CudaTest, OneGraphForEachFunctionAndShape) {
  auto session = make();
  auto step = [&](int64_t rows) {
    TinyBatch batch(rows);
    StepResult result;
    Status status = session->step({batch.batch()}, {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
  };
  step(16); // with the initialization; a graph for each of the two blocks of inputs
  EXPECT_EQ(fake->captures, 4);
  int launches = fake->launches;
  for (int i = 0; i < 10; ++i)
    step(16);
  EXPECT_EQ(fake->captures, 4);
  EXPECT_EQ(fake->launches, launches);
  EXPECT_EQ(fake->graphRuns, 12);
  step(8); // smaller: nothing moves
  EXPECT_EQ(fake->captures, 6);
  step(16);
  EXPECT_EQ(fake->captures, 6);
  step(200); // memory grows: all graphs are made again when they are needed
  EXPECT_EQ(fake->captures, 8);
  step(16);
  EXPECT_EQ(fake->captures, 10);
  step(200);
  EXPECT_EQ(fake->captures, 10);
  // The 32 most recently used are kept.
  for (int64_t rows = 20; rows < 60; ++rows)
    step(rows);
  EXPECT_EQ(fake->liveGraphs, 2 * 32); // each twice, to be launched in turn
  fake->captures = 0;
  step(59);
  EXPECT_EQ(fake->captures, 0);
  step(200);
  EXPECT_EQ(fake->captures, 2);
}

TEST_F(CudaTest, KernelsThatWaitBeginEarly) {
  auto step = [&] {
    auto session = make();
    TinyBatch batch(16);
    StepResult result;
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  };
  step();
  EXPECT_GT(fake->early, 0);
  EXPECT_LT(fake->early, fake->launches); // the gradient's kernel has no mark
  fake->early = 0;
  setenv("TRAINRT_EARLY_KERNELS", "0", 1);
  step();
  unsetenv("TRAINRT_EARLY_KERNELS");
  EXPECT_EQ(fake->early, 0);
}

TEST_F(CudaTest, LagReturnsTheSameOneStepLater) {
  auto through = make(), late = make();
  StepOptions lag;
  lag.lag = true;
  std::vector<double> expected, losses;
  for (int i = 0; i < 6; ++i) {
    StepResult result;
    // The batch is gone when the step runs.
    ASSERT_TRUE(through->step({TinyBatch(16, unsigned(i)).batch()}, {}, result).ok());
    expected.push_back(result.loss);
  }
  for (int i = 0; i < 6; ++i) {
    StepResult result;
    TinyBatch batch(16, unsigned(i));
    ASSERT_TRUE(late->step({batch.batch()}, lag, result).ok());
    EXPECT_EQ(result.step, i);
    EXPECT_EQ(late->stepCount(), i);
    std::fill(batch.x.begin(), batch.x.end(), NAN);
    if (i)
      losses.push_back(result.loss);
  }
  StepResult last;
  ASSERT_TRUE(late->finish(last).ok());
  EXPECT_EQ(last.step, 6);
  losses.push_back(last.loss);
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(values(*late), values(*through));
  EXPECT_EQ(late->stepCount(), 6);
  ASSERT_TRUE(late->finish(last).ok());
  EXPECT_EQ(last.step, 0);
}

TEST_F(CudaTest, LagDoesNotWaitForTheStepItStarts) {
  auto session = make();
  StepOptions lag;
  lag.lag = true;
  StepResult result;
  TinyBatch batch(16);
  ASSERT_TRUE(session->step({batch.batch()}, lag, result).ok());
  fake->waits = 0;
  ASSERT_TRUE(session->step({batch.batch()}, lag, result).ok());
  int waits = fake->waits;
  EXPECT_LE(waits, 2); // for a staging block, and for the step before
  ASSERT_TRUE(session->finish(result).ok());
  EXPECT_GT(fake->waits, waits);
}

TEST_F(CudaTest, LagAndANonfiniteLoss) {
  StepOptions lag;
  lag.lag = true;
  auto session = make(), reference = make();
  StepResult result;
  auto run = [&](Session &on, const TinyBatch &batch, const StepOptions &options) {
    return on.step({batch.batch()}, options, result);
  };
  ASSERT_TRUE(run(*reference, TinyBatch(16, 1), {}).ok());
  ASSERT_TRUE(run(*session, TinyBatch(16, 1), lag).ok());
  ASSERT_TRUE(run(*session, bad(16), lag).ok());
  Status status = run(*session, TinyBatch(16, 2), lag);
  EXPECT_EQ(status.code(), Code::Nonfinite);
  EXPECT_EQ(result.step, 2);
  EXPECT_TRUE(result.nonfinite);
  EXPECT_EQ(session->stepCount(), 1);
  // Neither the bad step nor the one enqueued behind it has happened.
  EXPECT_EQ(values(*session), values(*reference));
  ASSERT_TRUE(session->finish(result).ok());
  EXPECT_EQ(result.step, 0);
  ASSERT_TRUE(run(*session, TinyBatch(16, 3), {}).ok());
  ASSERT_TRUE(run(*reference, TinyBatch(16, 3), {}).ok());
  EXPECT_EQ(values(*session), values(*reference));
}

TEST_F(CudaTest, LagAndAllowedNonfiniteLosses) {
  auto late = make(), through = make();
  std::vector<TinyBatch> batches = {TinyBatch(16, 1), bad(16),          TinyBatch(16, 2), bad(16),
                                    bad(16),          TinyBatch(16, 3), bad(16)};
  StepOptions allow, lag;
  allow.allowNonfinite = lag.allowNonfinite = lag.lag = true;
  std::vector<StepResult> expected, results;
  StepResult result;
  for (const TinyBatch &batch : batches) {
    ASSERT_TRUE(through->step({batch.batch()}, allow, result).ok());
    expected.push_back(result);
    ASSERT_TRUE(late->step({batch.batch()}, lag, result).ok());
    results.push_back(result);
  }
  ASSERT_TRUE(late->finish(result).ok());
  results.push_back(result);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(results[i + 1].step, expected[i].step);
    EXPECT_EQ(results[i + 1].nonfinite, expected[i].nonfinite) << i;
    if (!expected[i].nonfinite)
      EXPECT_EQ(results[i + 1].loss, expected[i].loss) << i;
  }
  EXPECT_EQ(values(*late), values(*through));
  EXPECT_EQ(late->stepCount(), through->stepCount());
}

TEST_F(CudaTest, LagAndANewValueThatIsNotFinite) {
  TinyBatch good(16, 1), steep(16, 1);
  for (float &x : steep.x)
    x *= 1000;
  StepResult result;
  auto run = [&](Session &session, double lr, bool allow) {
    StepOptions options;
    options.lag = true;
    options.allowNonfinite = allow;
    options.lr = lr;
    return session.step({(lr > 1 ? steep : good).batch()}, options, result);
  };
  {
    auto session = make();
    ASSERT_TRUE(run(*session, 0.1, false).ok());
    ASSERT_TRUE(run(*session, 3e38, false).ok());
    EXPECT_EQ(run(*session, 0.1, false).code(), Code::Nonfinite);
    EXPECT_EQ(result.step, 2);
    EXPECT_TRUE(result.inPart);
    EXPECT_EQ(session->stepCount(), 1);
    EXPECT_FALSE(run(*session, 0.1, false).ok()); // load a checkpoint
  }
  auto session = make();
  // Each step has its own outcome, though the one behind it is under way.
  const std::vector<double> rates = {0.1, 3e38, 0.1, 3e38, 0.1, 0.1};
  for (size_t i = 0; i < rates.size(); ++i) {
    ASSERT_TRUE(run(*session, rates[i], true).ok());
    ASSERT_EQ(result.step, int64_t(i));
    if (i > 0)
      EXPECT_EQ(result.inPart, rates[i - 1] > 1) << i;
  }
  ASSERT_TRUE(session->finish(result).ok());
  EXPECT_FALSE(result.nonfinite);
  EXPECT_EQ(session->stepCount(), int64_t(rates.size()));
  for (float value : values(*session))
    EXPECT_TRUE(std::isfinite(value));
}

TEST_F(CudaTest, LagAndABadIndexBehindANonfiniteLoss) {
  TinyOptions options;
  options.valueRule = false;
  open(options);
  TinyBatch wrong(16, 3);
  wrong.id[3] = 9;
  StepOptions lag;
  lag.lag = true;
  StepResult result;
  {
    auto session = make();
    ASSERT_TRUE(session->step({TinyBatch(16, 1).batch()}, lag, result).ok());
    ASSERT_TRUE(session->step({bad(16).batch()}, lag, result).ok());
    const std::vector<float> before = values(*session);
    // The first of the two is what ends the run, from a state that can go on.
    EXPECT_EQ(session->step({wrong.batch()}, lag, result).code(), Code::Nonfinite);
    EXPECT_EQ(result.step, 2);
    EXPECT_EQ(values(*session), before);
    EXPECT_TRUE(session->step({TinyBatch(16, 2).batch()}, {}, result).ok());
    EXPECT_EQ(result.step, 2);
  }
  lag.allowNonfinite = true;
  auto session = make();
  ASSERT_TRUE(session->step({TinyBatch(16, 1).batch()}, lag, result).ok());
  ASSERT_TRUE(session->step({bad(16).batch()}, lag, result).ok());
  Status status = session->step({wrong.batch()}, lag, result);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(result.step, 2);
  EXPECT_TRUE(result.nonfinite);
  EXPECT_EQ(session->step({TinyBatch(16, 2).batch()}, lag, result).code(), Code::BadData);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(session->stepCount(), 2);
  EXPECT_TRUE(session->step({TinyBatch(16, 2).batch()}, {}, result).ok());
  EXPECT_EQ(result.step, 3);
}

TEST_F(CudaTest, LagWithMicroBatches) {
  auto late = make(), through = make();
  StepOptions lag;
  lag.lag = true;
  StepResult result;
  TinyBatch one(4, 1), two(6, 2);
  double expected[2];
  for (double &loss : expected) {
    ASSERT_TRUE(through->step({one.batch(), two.batch()}, {}, result).ok());
    loss = result.loss;
  }
  ASSERT_TRUE(late->step({one.batch(), two.batch()}, lag, result).ok());
  EXPECT_EQ(result.step, 0);
  ASSERT_TRUE(late->step({one.batch(), two.batch()}, lag, result).ok());
  EXPECT_EQ(result.loss, expected[0]);
  ASSERT_TRUE(late->finish(result).ok());
  EXPECT_EQ(result.loss, expected[1]);
  EXPECT_EQ(values(*late), values(*through));
}

TEST_F(CudaTest, CheckpointsWaitForTheStepUnderWay) {
  auto session = make();
  StepOptions lag;
  lag.lag = true;
  StepResult result;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(session->step({TinyBatch(16, unsigned(i)).batch()}, lag, result).ok());
  CheckpointInfo info;
  ASSERT_TRUE(saveCheckpoint(*session, folder / "ck", 0, "", info).ok());
  EXPECT_EQ(info.step, 3);
  ASSERT_TRUE(session->finish(result).ok());
  EXPECT_EQ(result.step, 3);
  // A CPU session goes on from it.
  auto cpu = makeCpu();
  Status status = loadCheckpoint(*cpu, folder / "ck", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(values(*cpu), values(*session));
  auto other = make();
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok());
  EXPECT_EQ(values(*other), values(*session));
  EXPECT_EQ(values(*other, true), values(*session, true));
  EXPECT_EQ(other->stepCount(), 3);
}

TEST_F(CudaTest, InputsInGpuMemory) {
  auto session = make(), reference = make();
  TinyBatch batch(16, 4);
  // Memory of that GPU which is not the session's.
  std::unique_ptr<Device> device;
  ASSERT_TRUE(createDevice(package, {}, [](Space, uint32_t) { return nullptr; }, device).ok());
  DeviceMemory x;
  ASSERT_TRUE(device->allocate(16 * 12, "x", false, x).ok());
  std::memcpy(x.data(), batch.x.data(), 16 * 12);
  Batch inputs = batch.batch();
  inputs[0].array.data = x.data();
  StepResult a, b;
  Status status = session->step({inputs}, {}, a);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(reference->step({batch.batch()}, {}, b).ok());
  EXPECT_EQ(a.loss, b.loss);
  inputs[0].array.dtype = DType::BF16;
  EXPECT_EQ(session->step({inputs}, {}, a).code(), Code::BadData);
  x.release();
}

TEST_F(CudaTest, CountsOfInputsInGpuMemory) {
  TinyOptions options;
  options.count.emplace();
  options.variant.emplace().conditions = {{Condition::Kind::Binary, 0, 1, 0, 0, 0, 0}};
  options.variant->flopsOfCount = 100;
  open(options);
  auto session = make();
  TinyBatch batch(100, 4);
  std::fill(batch.id.begin(), batch.id.end(), -100);
  std::unique_ptr<Device> device;
  ASSERT_TRUE(createDevice(package, {}, [](Space, uint32_t) { return nullptr; }, device).ok());
  DeviceMemory id;
  ASSERT_TRUE(device->allocate(100 * 8, "id", false, id).ok());
  std::memcpy(id.data(), batch.id.data(), 100 * 8);
  Batch inputs = batch.batch();
  inputs[1].array.data = id.data();
  auto bound = [&] {
    StepResult result;
    Status status = session->step({inputs}, {}, result);
    EXPECT_TRUE(status.ok()) << status.message();
    return session->boundPlans().front();
  };
  // The host sees nothing: all may count, and no condition holds.
  EXPECT_EQ(bound().symbols, (std::vector<int64_t>{100, 104}));
  EXPECT_EQ(bound().function->name, "step");
  EXPECT_EQ(session->planUse().declined.at(0).first.row, -1);
  ASSERT_TRUE(session->setCount(1, 20).ok());
  EXPECT_EQ(bound().symbols, (std::vector<int64_t>{100, 24}));
  id.release();
}

TEST_F(CudaTest, FewGraphsForManyCounts) {
  TinyOptions options;
  options.count.emplace();
  open(options);
  auto session = make();
  for (int64_t i = 0; i < 300; ++i) {
    const int64_t rows = 100 + i % 3 * 100;
    TinyBatch batch(rows);
    for (int64_t row = 0; row < rows; ++row)
      if (row >= i * 97 % rows)
        batch.id[size_t(row)] = -100;
    StepResult result;
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  }
  EXPECT_LE(fake->liveGraphs, 2 * int(PlanCache::few));
  EXPECT_LE(session->planUse().plans, 40);
  EXPECT_GT(session->planUse().buildSeconds, 0);
}

TEST_F(CudaTest, PinnedInputsAreReadWhereTheyLie) {
  auto session = make(), reference = make();
  TinyBatch first(16, 4), second(16, 5);
  void *memory = nullptr;
  ASSERT_TRUE(session->allocateHost(16 * 12, memory).ok());
  Batch inputs = first.batch();
  inputs[0].array.data = memory;
  StepOptions lag;
  lag.lag = true;
  StepResult a, b;
  std::memcpy(memory, first.x.data(), 16 * 12);
  ASSERT_TRUE(session->step({inputs}, {}, a).ok());
  ASSERT_TRUE(reference->step({first.batch()}, {}, b).ok());
  EXPECT_EQ(a.loss, b.loss);
  // Nobody has waited for this step, so it sees what is written behind it: there is no copy.
  ASSERT_TRUE(session->step({inputs}, lag, a).ok());
  std::memcpy(memory, second.x.data(), 16 * 12);
  ASSERT_TRUE(session->finish(a).ok());
  Batch mixed = first.batch();
  mixed[0].array.data = second.x.data();
  ASSERT_TRUE(reference->step({mixed}, {}, b).ok());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(values(*session), values(*reference));
  session->releaseHost(memory);
}

TEST_F(CudaTest, CallersStream) {
  const trainrt::cuda::Driver *driver = nullptr;
  ASSERT_TRUE(trainrt::cuda::Driver::load(driver).ok());
  trainrt::cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver->cuStreamCreate(&stream, 0), trainrt::cuda::CUDA_SUCCESS);
  SessionOptions options;
  options.stream = stream;
  auto session = make(options), reference = make();
  TinyBatch batch(16, 4);
  std::unique_ptr<Device> device;
  ASSERT_TRUE(createDevice(package, {}, [](Space, uint32_t) { return nullptr; }, device).ok());
  DeviceMemory x;
  ASSERT_TRUE(device->allocate(16 * 12, "x", true, x).ok());
  Batch inputs = batch.batch();
  inputs[0].array.data = x.data();
  StepResult a, b;
  for (int i = 0; i < 3; ++i) {
    // What the caller has enqueued is done before the step reads its result.
    driver->cuMemsetD8Async(reinterpret_cast<uintptr_t>(x.data()), 0, 16 * 12, stream);
    driver->cuMemcpyHtoDAsync(reinterpret_cast<uintptr_t>(x.data()), batch.x.data(), 16 * 12,
                              stream);
    ASSERT_TRUE(session->step({inputs}, {}, a).ok());
    ASSERT_TRUE(reference->step({batch.batch()}, {}, b).ok());
    EXPECT_EQ(a.loss, b.loss);
  }
  x.release();
  session.reset();
  // It is still the caller's.
  EXPECT_EQ(driver->cuStreamSynchronize(stream), trainrt::cuda::CUDA_SUCCESS);
  driver->cuStreamDestroy(stream);
}

TEST_F(CudaTest, BadIndexNamesTheNode) {
  TinyOptions options;
  options.valueRule = false;
  open(options);
  auto session = make();
  TinyBatch batch(16);
  batch.id[3] = 9;
  double loss;
  Status status = session->eval(batch.batch(), false, loss);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(),
            "node '/model/Gather': index 9 at position 3 of its indices is out of range");
  batch.id[3] = 0;
  EXPECT_TRUE(session->eval(batch.batch(), false, loss).ok());
}

TEST_F(CudaTest, BadIndexOfACancelledRun) {
  TinyOptions options;
  options.valueRule = false;
  open(options);
  struct Progress {
    bool stops = true;
    static int call(void *self, int64_t done, int64_t total) {
      return static_cast<Progress *>(self)->stops && done == total;
    }
  } progress;
  SessionOptions sessionOptions;
  sessionOptions.progress = Progress::call;
  sessionOptions.progressUser = &progress;
  auto session = make(sessionOptions);
  TinyBatch batch(16);
  batch.id[3] = 9;
  double loss;
  EXPECT_EQ(session->eval(batch.batch(), false, loss).code(), Code::Cancelled);
  progress.stops = false;
  batch.id[3] = 0;
  Status status = session->eval(batch.batch(), false, loss);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(CudaTest, BlocksEndAtAMultipleOf256) {
  std::unique_ptr<Device> device;
  ASSERT_TRUE(createDevice(package, {}, [](Space, uint32_t) { return nullptr; }, device).ok());
  const size_t before = fake->allocated;
  DeviceMemory memory;
  ASSERT_TRUE(device->allocate(300, "x", false, memory).ok());
  EXPECT_EQ(fake->allocated, before + 512);
  EXPECT_EQ(memory.size(), 300);
  memory.release();
}

TEST_F(CudaTest, NoMemoryForAGraph) {
  fake->graphBytes = 1000;
  auto session = make();
  StepResult result;
  ASSERT_TRUE(session->step({TinyBatch(8).batch()}, {}, result).ok());
  const int graphs = fake->liveGraphs;
  const int64_t driver = session->memory().driver;
  // The second one of the two.
  fake->failingGraph = 2;
  EXPECT_EQ(session->step({TinyBatch(6).batch()}, {}, result).code(), Code::OutOfMemory);
  EXPECT_EQ(fake->liveGraphs, graphs);
  EXPECT_EQ(session->memory().driver, driver);
  ASSERT_TRUE(session->step({TinyBatch(6).batch()}, {}, result).ok());
  EXPECT_EQ(result.step, 2);
  EXPECT_EQ(session->memory().driver, driver + 2000);
}

TEST_F(CudaTest, OutOfMemory) {
  fake->memory = fake->allocated + 100;
  std::unique_ptr<Session> session;
  Status status = Session::create(package, {}, session);
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  fake->memory = fake->allocated + 6500;
  session = make();
  StepResult result;
  status = session->step({TinyBatch(500).batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  for (const char *part : {"GPU 0 (Fake GPU)", "function 'step'", "activations", "are free",
                           "parameters 512 bytes", "--batch-size"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  // It is as before.
  EXPECT_TRUE(session->step({TinyBatch(4).batch()}, {}, result).ok());
  EXPECT_EQ(result.step, 1);
}

TEST_F(CudaTest, FaultsNameTheKernelWhenAsked) {
  fake->faultingKernel = "loss_and_gradient";
  StepResult result;
  {
    auto session = make();
    Status status = session->step({TinyBatch(4).batch()}, {}, result);
    EXPECT_EQ(status.code(), Code::DeviceError);
    for (const char *part : {"function 'step'", "CUDA_ERROR_ILLEGAL_ADDRESS", "--sync"})
      EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  }
  SessionOptions options;
  options.synchronous = true;
  auto session = make(options);
  Status status = session->step({TinyBatch(4).batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::DeviceError);
  for (const char *part : {"kernel 'loss_and_gradient'", "'/model/Gather'", "ILLEGAL_ADDRESS"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  fake->faultingKernel = nullptr;
}

TEST_F(CudaTest, SynchronousSessionsTrainAlike) {
  SessionOptions options;
  options.synchronous = true;
  auto session = make(options), reference = make();
  StepResult a, b;
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_TRUE(session->step({TinyBatch(16, i).batch()}, {}, a).ok());
    ASSERT_TRUE(reference->step({TinyBatch(16, i).batch()}, {}, b).ok());
    EXPECT_EQ(a.loss, b.loss);
  }
  EXPECT_EQ(values(*session), values(*reference));
}

TEST_F(CudaTest, MissingDriver) {
  setenv("TRAINRT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  std::unique_ptr<Session> session;
  Status status = Session::create(package, {}, session);
  EXPECT_EQ(status.code(), Code::DeviceError);
  for (const char *part : {"needs an NVIDIA GPU", "/nowhere/libcuda.so.1", "--target cpu"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
}

TEST_F(CudaTest, MissingDevice) {
  fake->devices = 0;
  std::unique_ptr<Session> session;
  EXPECT_EQ(Session::create(package, {}, session).code(), Code::DeviceError);
  fake->devices = 1;
  SessionOptions options;
  options.device = 1;
  Status status = Session::create(package, options, session);
  EXPECT_EQ(status.code(), Code::DeviceError);
  EXPECT_NE(status.message().find("there is no GPU 1: this process sees 1"), std::string::npos)
      << status.message();
}

TEST_F(CudaTest, KernelsOfAnotherArchitecture) {
  std::unique_ptr<Session> session;
  fake->major = 8;
  Status status = Session::create(package, {}, session);
  EXPECT_EQ(status.code(), Code::BadPackage);
  for (const char *part : {"cuda:sm_90", "sm_80", "--target cuda:sm_80"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  fake->major = 10;
  EXPECT_EQ(Session::create(package, {}, session).code(), Code::BadPackage);
  // A later minor version runs them.
  fake->major = 9;
  fake->minor = 1;
  make();
  TinyOptions options;
  options.cudaKernels = "kernels/cuda-sm_90a-0.cubin";
  open(options);
  EXPECT_EQ(Session::create(package, {}, session).code(), Code::BadPackage);
  fake->minor = 0;
  make();
}

TEST_F(CudaTest, ArraysOfAnotherGpu) {
  auto session = make();
  cuda::CUdeviceptr memory = 0;
  const cuda::Driver *driver;
  ASSERT_TRUE(cuda::Driver::load(driver).ok());
  ASSERT_EQ(driver->cuMemAlloc(&memory, 12), cuda::CUDA_SUCCESS);
  fake->ordinalOfMemory = 1;
  const ArrayView array{reinterpret_cast<const void *>(memory), DType::F32, {3}, 12};
  Status status = session->setParameter(0, array);
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_EQ(status.message(), "parameter 'w': the array lies on GPU 1, the session is on GPU 0 "
                              "(Fake GPU)");
  status = session->setState(0, array);
  EXPECT_EQ(status.message().find("state 'w/exp_avg': the array lies on GPU 1"), 0u)
      << status.message();
  TinyBatch data(4);
  Batch batch = data.batch();
  batch[2].array = {reinterpret_cast<const void *>(memory), DType::F32, {4}, 12};
  StepResult result;
  status = session->step({batch}, {}, result);
  EXPECT_EQ(status.message(),
            "input 'y': the array lies on GPU 1, the session is on GPU 0 (Fake GPU)");
  session.reset();
  driver->cuMemFree(memory);
}
