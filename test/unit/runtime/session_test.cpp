// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions end to end on the tiny package: numbers against a plain reference, accumulation, bad
// data, non-finite losses, cancelling.

#include "io/safetensors.h"
#include "program_generated.h"
#include "session/checkpoint.h"
#include "session/estimate.h"
#include "session/session_fixture.h"

#include <cmath>
#include <cstring>

using namespace trainrt;
using namespace trainrt::test;

namespace {

/// The model in double.
struct Reference {
  double w[3] = {initialW[0], initialW[1], initialW[2]}, m[3] = {};
  double step(const std::vector<TinyBatch> &batches, double lr) {
    double gradient[3] = {}, total = 0;
    for (const TinyBatch &batch : batches) {
      double loss = 0;
      for (int64_t i = 0; i < batch.rows; ++i) {
        const float *x = &batch.x[size_t(i) * 3];
        double d = x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + table[batch.id[size_t(i)]] -
                   batch.y[size_t(i)];
        loss += d * d;
        for (int j = 0; j < 3; ++j)
          gradient[j] += 2 * d * x[j] / double(batch.rows) / double(batches.size());
      }
      total += loss / double(batch.rows) / double(batches.size());
    }
    for (int j = 0; j < 3; ++j) {
      m[j] = 0.5 * m[j] + gradient[j];
      w[j] -= lr * m[j];
    }
    return total;
  }
};

} // namespace

TEST_F(SessionTest, StepsFollowTheReference) {
  auto session = make();
  Reference reference;
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    TinyBatch batch(i % 2 ? 16 : 24, unsigned(i) % 3); // two shapes
    StepResult result;
    Status status = session->step({batch.batch()}, {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(result.step, i + 1);
    EXPECT_EQ(result.lr, 0.1);
    EXPECT_NEAR(result.loss, reference.step({batch}, 0.1), 1e-5);
    (i ? last : first) = result.loss;
  }
  EXPECT_LT(last, first);
  for (int j = 0; j < 3; ++j)
    EXPECT_NEAR(w(*session)[size_t(j)], reference.w[j], 1e-5);
  EXPECT_EQ(session->memory().gradients, 0);
}

TEST_F(SessionTest, AccumulatesMicroBatches) {
  auto session = make();
  Reference reference;
  for (int i = 0; i < 5; ++i) {
    TinyBatch a(8, 1), b(4, 2), c(12, 3);
    StepResult result;
    Status status = session->step({a.batch(), b.batch(), c.batch()}, {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NEAR(result.loss, reference.step({a, b, c}, 0.1), 1e-5);
  }
  for (int j = 0; j < 3; ++j)
    EXPECT_NEAR(w(*session)[size_t(j)], reference.w[j], 1e-5);
  EXPECT_GT(session->memory().gradients, 0);
  EXPECT_EQ(session->stepCount(), 5);
}

TEST_F(SessionTest, ThreadsDoNotChangeABit) {
  std::vector<float> results[3];
  for (unsigned threads : {1u, 2u, 5u}) {
    SessionOptions options;
    options.threads = threads;
    auto session = make(options);
    EXPECT_EQ(session->threads(), threads);
    for (int i = 0; i < 10; ++i) {
      TinyBatch batch(200, unsigned(i));
      StepResult result;
      ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
    }
    results[threads / 2] = w(*session);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(SessionTest, GradientsChangeNothing) {
  auto session = make();
  TinyBatch batch(16);
  StepResult result;
  ArrayView gradient;
  EXPECT_EQ(session->gradient(0, gradient).code(), Code::NotFound);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(session->gradients({batch.batch()}, {}, result).ok());
    ASSERT_TRUE(session->gradient(0, gradient).ok());
    Reference reference;
    reference.step({batch}, 1.0);
    for (int j = 0; j < 3; ++j)
      EXPECT_NEAR(floats(gradient)[size_t(j)], initialW[j] - reference.w[j], 1e-5);
  }
  EXPECT_EQ(w(*session), std::vector<float>(initialW, initialW + 3));
  EXPECT_EQ(session->stepCount(), 0);
  Status frozen = session->gradient(1, gradient);
  EXPECT_EQ(frozen.code(), Code::NotFound);
  EXPECT_EQ(frozen.message(), "parameter 'table' is frozen, it has no gradient");
}

TEST_F(SessionTest, EvaluatesAndPredicts) {
  SessionOptions options;
  options.inference = true;
  auto session = make(options);
  TinyBatch batch(4);
  double loss = 0;
  ASSERT_TRUE(session->eval(batch.batch(), false, loss).ok());
  Reference reference;
  EXPECT_NEAR(loss, reference.step({batch}, 0), 1e-5);
  ArrayView pred;
  ASSERT_TRUE(session->output(1, pred).ok());
  EXPECT_EQ(pred.shape, std::vector<int64_t>{4});
  std::vector<float> expected = floats(pred);
  // Without labels.
  Batch partial = batch.batch();
  partial.pop_back();
  Status status = session->eval(partial, false, loss);
  EXPECT_NE(status.message().find("lacks the input 'y'; it has 'x', 'id'"), std::string::npos)
      << status.message();
  ASSERT_TRUE(session->eval(partial, true, loss).ok());
  EXPECT_TRUE(std::isnan(loss));
  ASSERT_TRUE(session->output(1, pred).ok());
  EXPECT_EQ(floats(pred), expected);
  // With them again.
  ASSERT_TRUE(session->eval(batch.batch(), true, loss).ok());
  EXPECT_NEAR(loss, reference.step({batch}, 0), 1e-5);
  // Everything is mapped, nothing copied.
  EXPECT_EQ(session->memory().parameters, 0);
  EXPECT_EQ(session->memory().state, 0);
  StepResult result;
  EXPECT_EQ(session->step({batch.batch()}, {}, result).code(), Code::Unsupported);
}

TEST_F(SessionTest, BadDataIsNamed) {
  auto session = make();
  std::vector<float> before = w(*session);
  auto expectError = [&](const Batch &batch, const std::string &message) {
    StepResult result;
    Status status = session->step({batch}, {}, result);
    EXPECT_EQ(status.code(), Code::BadData) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  TinyBatch good(6);
  Batch batch = good.batch();
  batch[0].name = "xx";
  expectError(batch, "lacks the input 'x'");
  batch = good.batch();
  batch[0].array.shape = {18};
  expectError(batch, "input 'x': expected 2 axes [batch, 3], got 1 [18]");
  batch = good.batch();
  batch[0].array.shape = {9, 2};
  expectError(batch, "axis 0 ('batch'): expected 9 as in input 'x', got 6");
  batch = good.batch();
  batch[0].array.shape = {6, 2};
  expectError(batch, "input 'x', axis 1: expected 3, got 2");
  batch = good.batch();
  batch[2].array.shape = {5};
  expectError(batch, "input 'y', axis 0 ('batch'): expected 6 as in input 'x', got 5");
  batch = good.batch();
  batch[1].array.dtype = DType::F32;
  expectError(batch, "data['id'].astype(numpy.int64)");
  TinyBatch bad(6);
  bad.id[4] = 4;
  expectError(bad.batch(),
              "input 'id': value 4 at [4] is out of range: allowed are 0 to 3, or -100 "
              "(node '/model/Gather')");
  bad.id[4] = -100;
  StepResult result;
  EXPECT_TRUE(make()->step({bad.batch()}, {}, result).ok());
  bad.id[2] = -1;
  expectError(bad.batch(), "value -1 at [2]");
  TinyBatch many(1001);
  expectError(many.batch(), "1001 is above the maximum 1000");
  TinyBatch none(0);
  expectError(none.batch(), "0 is below the minimum 1");
  TinyBatch large(600);
  expectError(large.batch(),
              "the size batch is 600, at most 512 is possible (node '/model/Gather')");
  batch = good.batch();
  batch.push_back(batch[0]);
  EXPECT_EQ(session->step({batch}, {}, result).code(), Code::InvalidArgument);
  Status status = session->step({good.batch(), bad.batch()}, {}, result);
  EXPECT_NE(status.message().find("micro-batch 1: input 'id'"), std::string::npos);
  EXPECT_EQ(w(*session), before);
  EXPECT_EQ(session->stepCount(), 0);
}

TEST_F(SessionTest, ConvertsLosslessly) {
  auto session = make(), other = make();
  TinyBatch batch(6);
  std::vector<int32_t> narrow(batch.id.begin(), batch.id.end());
  Batch converted = batch.batch();
  converted[1].array.data = narrow.data();
  converted[1].array.dtype = DType::I32;
  StepResult a, b;
  ASSERT_TRUE(session->step({batch.batch()}, {}, a).ok());
  ASSERT_TRUE(other->step({converted}, {}, b).ok());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(w(*session), w(*other));
  EXPECT_GT(other->memory().inputs, 0);
  narrow[3] = 77;
  Status status = other->step({converted}, {}, b);
  EXPECT_NE(status.message().find("value 77 at [3]"), std::string::npos) << status.message();
}

TEST_F(SessionTest, RulesOfAPart) {
  TinyOptions options;
  options.editProgram = [](fb::ProgramT &program) {
    const uint32_t one = uint32_t(program.exprs.size());
    program.exprs.push_back({fb::ExprKind::constant, 0, 0, 1});
    program.exprs.push_back({fb::ExprKind::constant, 0, 0, 4});
    program.value_rules[0]->begin = {one};
    program.value_rules[0]->end = {one + 1};
  };
  makePackage(options);
  auto session = make();
  for (int64_t place : {0, 4, 5, 1, 3}) {
    TinyBatch batch(6);
    batch.id[size_t(place)] = 4;
    const Status status = session->check({batch.batch()});
    EXPECT_EQ(status.ok(), place == 0 || place > 3) << place;
    if (!status.ok())
      EXPECT_NE(status.message().find("value 4 at [" + std::to_string(place) + "] is out of range"),
                std::string::npos)
          << status.message();
  }
  // A part that is cut off with the batch.
  TinyBatch two(2);
  EXPECT_TRUE(session->check({two.batch()}).ok());
  two.id[1] = 4;
  EXPECT_FALSE(session->check({two.batch()}).ok());
}

TEST_F(SessionTest, KernelErrorsNameTheNode) {
  TinyOptions options;
  options.valueRule = false;
  makePackage(options);
  for (unsigned threads : {1u, 3u}) {
    SessionOptions sessionOptions;
    sessionOptions.threads = threads;
    auto session = make(sessionOptions);
    TinyBatch bad(300);
    bad.id[250] = 9;
    bad.id[17] = 8;
    double loss;
    Status status = session->eval(bad.batch(), false, loss);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_EQ(status.message(),
              "node '/model/Gather': index 8 at position 17 of its indices is out "
              "of range");
    StepResult result;
    // Micro-batches are undone; a fused step may have been cut off in the middle.
    EXPECT_EQ(session->step({bad.batch(), bad.batch()}, {}, result).code(), Code::BadData);
    TinyBatch good(8);
    EXPECT_TRUE(session->step({good.batch()}, {}, result).ok());
    EXPECT_EQ(session->step({bad.batch()}, {}, result).code(), Code::BadData);
    status = session->step({good.batch()}, {}, result);
    EXPECT_NE(status.message().find("load a checkpoint"), std::string::npos) << status.message();
  }
}

TEST_F(SessionTest, NonfiniteLossChangesNothing) {
  auto session = make();
  TinyBatch good(8), bad(8);
  bad.x[5] = INFINITY;
  StepResult result;
  ASSERT_TRUE(session->step({good.batch()}, {}, result).ok());
  std::vector<float> before = w(*session);
  for (size_t count : {1, 2}) {
    std::vector<Batch> batches(count, bad.batch());
    EXPECT_EQ(session->step(batches, {}, result).code(), Code::Nonfinite);
    EXPECT_TRUE(result.nonfinite);
    EXPECT_FALSE(std::isfinite(result.loss));
    EXPECT_EQ(w(*session), before);
    EXPECT_EQ(session->stepCount(), 1);
    StepOptions allow;
    allow.allowNonfinite = true;
    EXPECT_TRUE(session->step(batches, allow, result).ok());
    EXPECT_TRUE(result.nonfinite);
    EXPECT_EQ(w(*session), before);
    ASSERT_TRUE(session->step({good.batch()}, allow, result).ok());
    EXPECT_FALSE(result.nonfinite);
    EXPECT_NE(w(*session), before);
    ASSERT_TRUE(session->setParameter(0, {before.data(), DType::F32, {3}, 12}).ok());
    session->restored(1, 0);
  }
}

TEST_F(SessionTest, ANewValueThatIsNotFinite) {
  TinyBatch good(8), steep(8);
  for (float &x : steep.x)
    x *= 1000;
  StepOptions huge;
  huge.lr = 3e38;
  StepResult result;
  for (size_t count : {1, 2}) {
    std::vector<Batch> batches(count, good.batch()), bad(count, steep.batch());
    auto session = make();
    ASSERT_TRUE(session->step(batches, {}, result).ok());
    std::vector<float> before = w(*session);
    // The runtime is told in the step itself, by which others may have been updated.
    Status status = session->step(bad, huge, result);
    EXPECT_EQ(status.code(), Code::Nonfinite);
    EXPECT_NE(status.message().find("gradient of 'w'"), std::string::npos) << status.message();
    EXPECT_TRUE(result.nonfinite && result.inPart && std::isfinite(result.loss));
    EXPECT_EQ(session->stepCount(), 1);
    EXPECT_EQ(w(*session), before); // of which nothing is finite
    status = session->step(batches, {}, result);
    EXPECT_NE(status.message().find("load a checkpoint"), std::string::npos) << status.message();
    CheckpointInfo info;
    EXPECT_FALSE(saveCheckpoint(*session, folder / "ck", 0, "", info).ok());
    session->restored(1, 0);
    EXPECT_TRUE(session->step(batches, {}, result).ok());
    EXPECT_FALSE(result.nonfinite || result.inPart);
    // Where it is allowed, the step counts, and a warning tells of it.
    huge.allowNonfinite = true;
    session->warnings().clear();
    EXPECT_TRUE(session->step(bad, huge, result).ok());
    EXPECT_TRUE(result.nonfinite && result.inPart);
    EXPECT_EQ(session->stepCount(), 3);
    EXPECT_NE(session->warnings().find("step 3: the gradient of 'w'"), std::string::npos);
    EXPECT_TRUE(session->step(batches, {}, result).ok());
    EXPECT_FALSE(result.nonfinite);
    huge.allowNonfinite = false;
  }
}

TEST_F(SessionTest, CancelLosesNothing) {
  auto session = make();
  TinyBatch batch(8);
  StepResult result;
  std::vector<float> before = w(*session);
  session->cancel();
  Status status = session->step({batch.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Cancelled);
  EXPECT_EQ(status.message(), "cancelled before the step began");
  session->cancel();
  EXPECT_EQ(session->gradients({batch.batch()}, {}, result).message(), "cancelled before it began");
  EXPECT_EQ(w(*session), before);
  EXPECT_TRUE(session->step({batch.batch()}, {}, result).ok());

  struct Progress {
    int calls = 0;
  } seen;
  SessionOptions options;
  options.progressUser = &seen;
  options.progress = [](void *user, int64_t, int64_t) -> int {
    return ++static_cast<Progress *>(user)->calls == 5;
  };
  session = make(options);
  before = w(*session);
  EXPECT_EQ(session->step({batch.batch(), batch.batch()}, {}, result).code(), Code::Cancelled);
  EXPECT_EQ(w(*session), before);
  EXPECT_EQ(session->stepCount(), 0);
  EXPECT_TRUE(session->step({batch.batch(), batch.batch()}, {}, result).ok());
}

TEST_F(SessionTest, MemoryIsKnownBefore) {
  auto session = make();
  TinyBatch batch(100);
  StepResult result;
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  MemoryUse expected;
  ASSERT_TRUE(estimateMemory(*package, {100}, 1, 1, expected).ok());
  MemoryUse actual = session->memory();
  EXPECT_EQ(actual.parameters, expected.parameters);
  EXPECT_EQ(actual.state, expected.state);
  EXPECT_EQ(actual.arena, expected.arena);
  EXPECT_EQ(actual.outputs, expected.outputs);
  EXPECT_EQ(actual.scratch, expected.scratch);
  EXPECT_EQ(session->peakBytes(), expected.total());
  MemoryUse accumulated;
  ASSERT_TRUE(estimateMemory(*package, {100}, 4, 1, accumulated).ok());
  EXPECT_GT(accumulated.gradients, 0);
}

TEST_F(SessionTest, MemoryIsToldByPhase) {
  std::vector<MemoryRecord> told;
  SessionOptions options;
  options.memory = [&](const MemoryRecord &record) { told.push_back(record); };
  auto phases = [&] {
    std::string text;
    for (const MemoryRecord &record : told)
      text += std::string(text.empty() ? "" : " ") + std::to_string(record.step) + record.phase;
    return text;
  };
  TinyBatch batch(100);
  StepResult result;
  // A package that tells of no phases.
  auto session = make(options);
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  EXPECT_EQ(phases(), "1pre_step 1post_step");
  EXPECT_EQ(told[1].peak - told[1].allocated, session->memory().arenaLowerBound);
  told.clear();
  ASSERT_TRUE(session->step({batch.batch(), batch.batch()}, {}, result).ok());
  EXPECT_EQ(phases(), "2pre_step 2post_step 2pre_step 2post_step"); // and of the update
  double loss;
  told.clear();
  ASSERT_TRUE(session->eval(batch.batch(), false, loss).ok());
  EXPECT_EQ(phases(), "");

  TinyOptions marked;
  marked.phases = {1, 4};
  makePackage(marked);
  session = make(options);
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  EXPECT_EQ(phases(), "1pre_forward 1post_forward 1pre_backward 1post_backward 1pre_update "
                      "1post_update");
  const int64_t lasting = told[0].allocated, cached = session->memory().total();
  // 448 bytes of predictions, which the loss reads; the gradient's 12 last until the update.
  EXPECT_EQ(told[1].allocated, lasting + 448);
  EXPECT_EQ(told[2].allocated, told[1].allocated);
  EXPECT_EQ(told[3].allocated, lasting + 64);
  EXPECT_EQ(told[5].allocated, lasting);
  EXPECT_EQ(told[0].peak, lasting);
  EXPECT_EQ(told[5].peak, lasting + session->memory().arenaLowerBound);
  for (const MemoryRecord &record : told)
    EXPECT_EQ(record.cached, cached);
}

TEST_F(SessionTest, NothingToAccumulateWith) {
  TinyOptions without;
  without.editProgram = [](fb::ProgramT &program) {
    std::erase_if(program.functions, [](const auto &function) {
      return function->name == "micro" || function->name == "update";
    });
  };
  makePackage(without);
  auto session = make();
  TinyBatch batch(4);
  StepResult result;
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  auto says = [](const Status &status, const char *message) {
    EXPECT_EQ(status.code(), Code::Unsupported);
    EXPECT_EQ(status.message(), message);
  };
  const std::vector<Batch> two = {batch.batch(), batch.batch()};
  says(session->step(two, {}, result),
       "the package cannot accumulate micro-batches (it has no functions 'micro' and 'update'); "
       "compile it again");
  says(session->gradients({batch.batch()}, {}, result),
       "the package has no function 'micro'; compile it again");
  TuningResult tuned;
  says(session->tune(two, 1, tuned),
       "the package cannot accumulate micro-batches; compile it again");
  MemoryUse use;
  says(estimateMemory(*package, {4}, 2, 1, use),
       "the package cannot accumulate micro-batches; compile it again");
}

TEST_F(SessionTest, EvaluationHasNoState) {
  SessionOptions options;
  options.inference = true;
  auto session = make(options);
  ArrayView array;
  const std::string message = "state 'w/exp_avg': this session is for evaluation only";
  EXPECT_EQ(session->state(0, array).message(), message);
  EXPECT_EQ(session->setState(0, {initialW, DType::F32, {3}, 12}).message(), message);
  options.threads = 1025;
  EXPECT_EQ(Session::create(package, options, session).message(),
            "threads: 1025 are too many (at most 1024)");
}

TEST_F(SessionTest, HyperParametersAreChecked) {
  auto session = make();
  TinyBatch batch(4);
  StepResult result;
  StepOptions options;
  options.lr = 0.025;
  ASSERT_TRUE(session->step({batch.batch()}, options, result).ok());
  EXPECT_EQ(result.lr, 0.025);
  options.lr = INFINITY;
  Status infinite = session->step({batch.batch()}, options, result);
  EXPECT_EQ(infinite.code(), Code::InvalidArgument);
  EXPECT_NE(infinite.message().find("inf is no value for it (it must be finite and not negative)"),
            std::string::npos)
      << infinite.message();
  options = {};
  options.clipNorm = 1;
  Status status = session->step({batch.batch()}, options, result);
  EXPECT_NE(status.message().find("compiled without clipping"), std::string::npos);
}

TEST_F(SessionTest, BatchesAreCheckedAhead) {
  auto session = make();
  TinyBatch batch(6);
  EXPECT_TRUE(session->check({batch.batch()}).ok());
  EXPECT_EQ(session->check({}).code(), Code::InvalidArgument);
  batch.id[4] = 4;
  Status ahead = session->check({batch.batch()});
  StepResult result;
  Status now = session->step({batch.batch()}, {}, result);
  EXPECT_EQ(ahead.code(), Code::BadData);
  EXPECT_EQ(ahead.message(), now.message());
  // Values that were found good are not looked at again; shapes are.
  StepOptions checked;
  checked.checked = true;
  Batch narrow = batch.batch();
  narrow[0].array.shape[1] += 1;
  Batch odd = batch.batch();
  odd[0].array.data = static_cast<const char *>(odd[0].array.data) + 1;
  EXPECT_EQ(session->step({odd}, {}, result).message(),
            "input 'x': data is not aligned to its 4-byte elements");
  EXPECT_EQ(session->step({narrow}, checked, result).code(), Code::BadData);
  EXPECT_NE(session->step({batch.batch()}, checked, result).message(), now.message());
}

TEST_F(SessionTest, NothingToComputeWith) {
  auto session = make();
  TinyBatch batch(6);
  StepResult result;
  TuningResult tuned;
  auto says = [](const Status &status, const char *message) {
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  says(session->step({}, {}, result), "a step needs at least one batch");
  says(session->gradients({}, {}, result), "gradients need at least one batch");
  says(session->tune({}, 1, tuned), "tuning needs at least one batch");
  StepOptions options;
  const double weights[] = {INFINITY};
  options.weights = weights;
  says(session->step({batch.batch()}, options, result),
       "weights[0]: inf is no factor of a loss (it must be finite)");
  ArrayView array;
  ASSERT_TRUE(session->parameter(0, array).ok());
  array.data = nullptr;
  says(session->setParameter(0, array), "parameter 'w': data is NULL");
}

TEST_F(SessionTest, HostAllocator) {
  struct Count {
    int64_t bytes = 0;
    bool refuse = false;
  } count;
  SessionOptions options;
  options.allocator.user = &count;
  options.allocator.allocate = [](void *user, size_t bytes, size_t alignment) -> void * {
    auto *count = static_cast<Count *>(user);
    if (count->refuse)
      return nullptr;
    count->bytes += int64_t(bytes);
    void *memory = nullptr;
    return posix_memalign(&memory, alignment, bytes) ? nullptr : memory;
  };
  options.allocator.deallocate = [](void *user, void *memory, size_t bytes) {
    static_cast<Count *>(user)->bytes -= int64_t(bytes);
    std::free(memory);
  };
  {
    auto session = make(options);
    TinyBatch batch(8), large(400);
    StepResult result;
    ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
    EXPECT_GT(count.bytes, 0);
    std::vector<float> before = w(*session);
    count.refuse = true;
    Status status = session->step({large.batch()}, {}, result);
    EXPECT_EQ(status.code(), Code::OutOfMemory);
    EXPECT_NE(status.message().find("smaller batch"), std::string::npos);
    EXPECT_EQ(w(*session), before);
    count.refuse = false;
    EXPECT_TRUE(session->step({batch.batch()}, {}, result).ok());
  }
  EXPECT_EQ(count.bytes, 0);
}

TEST_F(SessionTest, AdviceWhereMemoryEnds) {
  // Refuses blocks of more bytes.
  struct Limit {
    size_t most = 0;
  } limit;
  SessionOptions options;
  options.threads = 1;
  options.allocator.user = &limit;
  options.allocator.allocate = [](void *user, size_t bytes, size_t alignment) -> void * {
    void *memory = nullptr;
    return bytes > static_cast<Limit *>(user)->most || posix_memalign(&memory, alignment, bytes)
               ? nullptr
               : memory;
  };
  options.allocator.deallocate = [](void *, void *memory, size_t) { std::free(memory); };
  std::unique_ptr<Session> session;
  Status status = Session::create(package, options, session);
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  EXPECT_NE(status.message().find("no memory for the parameters"), std::string::npos);
  EXPECT_NE(status.message().find("does not depend on the batch: use a smaller model"),
            std::string::npos);
  EXPECT_EQ(status.message().find("smaller batch"), std::string::npos) << status.message();
  limit.most = SIZE_MAX;
  ASSERT_TRUE(Session::create(package, options, session).ok());
  TinyBatch batch(4);
  StepResult result;
  ASSERT_TRUE(session->step({batch.batch()}, {}, result).ok());
  limit.most = 0;
  status = session->step({batch.batch(), batch.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  EXPECT_NE(status.message().find("gradient accumulators"), std::string::npos);
  EXPECT_NE(status.message().find("one micro-batch need none"), std::string::npos)
      << status.message();
}
