// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loop of the runtime: pointers are resolved, then kernels run on chunks of their work.

#include "core/executor.h"
#include "core/plan.h"
#include "cpu/attention.h"
#include "cpu/gemm.h"
#include "cpu/working_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

namespace trainrt {

namespace {
/// A worker's error slot, a cache line of its own.
struct alignas(64) WorkerError {
  int64_t fields[8] = {};
};

/// Bytes a thread should copy at least.
constexpr int64_t copyGrain = 1 << 18;
} // namespace

Status Executor::run(const ExecutionPlan &plan, const Run &run, const Allocator &allocator,
                     Reports &reports) {
  int64_t stride = padded(plan.scratchBytes);
  if (stride > scratchStride) {
    scratchStride = 0;
    TRAINRT_TRY(
        scratch.allocate(allocator, stride * int64_t(pool.size()), "kernels' scratch", false));
    scratchStride = stride;
  }
  using Clock = std::chrono::steady_clock;
  const CommandObserver::Read read = [&](uint32_t buffer, int64_t offset, int64_t,
                                         const void *&host) {
    host = static_cast<unsigned char *>(run.buffers[buffer]) + offset;
    return Status();
  };
  if (run.observer)
    TRAINRT_TRY(run.observer->begin(plan, read));
  const Clock::time_point began = Clock::now();
  auto since = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (run.stop && run.stop(int64_t(i), int64_t(plan.steps.size())))
      return Status(Code::Cancelled, "cancelled");
    if (!run.observer) {
      perform(plan.steps[i], plan, run, reports);
    } else {
      const Clock::time_point start = Clock::now();
      perform(plan.steps[i], plan, run, reports);
      TRAINRT_TRY(
          run.observer->ran(plan, i, since(began, start), since(start, Clock::now()), read));
    }
    if (reports.badIndex)
      return {};
  }
  return {};
}

void Executor::perform(const ExecutionPlan::Step &step, const ExecutionPlan &plan, const Run &run,
                       Reports &reports) {
  auto address = [&](const ExecutionPlan::Place &place) {
    return static_cast<unsigned char *>(run.buffers[place.buffer]) + place.offset;
  };
  const auto &op = step.command->op;
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  if (auto *launchOp = std::get_if<Launch>(&op)) {
    launch(*launchOp, step, plan, run, reports);
  } else if (auto *gemmOp = std::get_if<Gemm>(&op)) {
    gemm(*gemmOp, step, plan, run);
  } else if (auto *attentionOp = std::get_if<Attention>(&op)) {
    attention(*attentionOp, step, plan, run, reports);
  } else if (std::holds_alternative<Copy>(op)) {
    unsigned char *from = address(places[0]), *to = address(places[1]);
    if (from != to)
      pool.parallelFor(values[0], copyGrain, [=](unsigned, int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, size_t(end - begin));
      });
  } else {
    unsigned char *to = address(places[0]);
    int value = std::get<Fill>(op).value;
    pool.parallelFor(values[0], copyGrain, [=](unsigned, int64_t begin, int64_t end) {
      std::memset(to + begin, value, size_t(end - begin));
    });
  }
}

void Executor::launch(const Launch &op, const ExecutionPlan::Step &step, const ExecutionPlan &plan,
                      const Run &run, Reports &reports) {
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  arguments.resize(op.args.size());
  for (size_t i = 0; i < op.args.size(); ++i)
    arguments[i] = static_cast<unsigned char *>(run.buffers[places[i].buffer]) + places[i].offset;

  struct Job {
    KernelFunction kernel;
    void *const *args;
    const int64_t *dims;
    unsigned char *scratch;
    int64_t scratchStride;
    WorkerError *errors;
  };
  // Most launches have few threads; no allocation for these.
  WorkerError few[16];
  std::vector<WorkerError> many;
  if (pool.size() > 16)
    many.resize(pool.size());
  Job job{
      run.kernels->kernel(op.kernel),  arguments.data(), values + 2, scratch.data(), scratchStride,
      many.empty() ? few : many.data()};
  pool.parallelFor(values[0], values[1], [&job](unsigned worker, int64_t begin, int64_t end) {
    KernelContext context{job.scratch + int64_t(worker) * job.scratchStride,
                          job.errors[worker].fields};
    job.kernel(job.args, job.dims, begin, end, &context);
  });

  // Of several threads' errors the one at the lowest position, so that the message is always the
  // same.
  const int64_t *first = nullptr;
  bool number = false;
  for (unsigned worker = 0; worker < pool.size(); ++worker) {
    const int64_t *fields = job.errors[worker].fields;
    if (fields[0] && (!first || fields[1] < first[1]))
      first = fields;
    number |= fields[3] != 0;
  }
  if (number)
    reports.numbers.push_back({step.command});
  if (!first)
    return;
  reports.badIndex = step.command;
  reports.position = first[1];
  reports.value = first[2];
}

/// All but the operands' addresses and factors.
static GemmArgs gemmArgs(const Gemm &op, const int64_t *values) {
  GemmArgs args = {};
  args.m = values[0];
  args.n = values[1];
  args.k = values[2];
  args.a_m = values[3];
  args.a_k = values[4];
  args.b_k = values[5];
  args.b_n = values[6];
  args.c_m = values[7];
  args.c_n = values[8];
  size_t rank = op.batch.size();
  args.batchRank = int(rank);
  args.batch = values + 9;
  args.aBatch = values + 9 + rank;
  args.bBatch = values + 9 + 2 * rank;
  args.cBatch = values + 9 + 3 * rank;
  return args;
}

void Executor::gemm(const Gemm &op, const ExecutionPlan::Step &step, const ExecutionPlan &plan,
                    const Run &run) {
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  auto address = [&](int i) {
    return reinterpret_cast<float *>(static_cast<unsigned char *>(run.buffers[places[i].buffer]) +
                                     places[i].offset);
  };
  GemmArgs args = gemmArgs(op, plan.values.data() + step.firstValue);
  args.a = address(0);
  args.b = address(1);
  args.c = address(2);
  args.alpha = op.alpha;
  args.beta = op.beta;
  gemmF32(args, pool);
}

int64_t estimateScratch(const std::vector<const ExecutionPlan *> &plans, unsigned threads) {
  int64_t kernels = 0, library = 0;
  std::optional<WorkingMemory> memory;
  for (const ExecutionPlan *plan : plans) {
    kernels = std::max(kernels, padded(plan->scratchBytes));
    for (const ExecutionPlan::Step &step : plan->steps) {
      const int64_t *values = plan->values.data() + step.firstValue;
      const auto *gemm = std::get_if<Gemm>(&step.command->op);
      const auto *attention = std::get_if<Attention>(&step.command->op);
      if (!memory && (gemm || attention))
        memory.emplace(gemmTile(), threads);
      if (gemm)
        memory->addGemm(gemmArgs(*gemm, values));
      else if (attention && std::find(values, values + 7, 0) == values + 7)
        memory->addAttention(
            {values[36], values[5], values[6], attention->backward, attention->ratio > 0});
    }
  }
  if (memory)
    library = memory->bytes();
  return kernels * int64_t(threads) + library;
}

void Executor::attention(const Attention &op, const ExecutionPlan::Step &step,
                         const ExecutionPlan &plan, const Run &run, Reports &reports) {
  using Which = AttentionOperand;
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  auto address = [&](Which which) -> unsigned char * {
    const ExecutionPlan::Place &place = places[size_t(which)];
    if (place.buffer == ExecutionPlan::Place::none)
      return nullptr;
    return static_cast<unsigned char *>(run.buffers[place.buffer]) + place.offset;
  };
  if (std::find(values, values + 7, 0) != values + 7)
    return; // nothing to write, and no place was checked
  auto strides = [&](Which which) {
    // Behind the sizes: q, k, v, o, bias (which has four), d_o, d_q, d_k, d_v.
    const size_t i = size_t(which);
    return values + (which <= Which::O ? 7 + 3 * i : 23 + 3 * (i - size_t(Which::DO)));
  };
  auto input = [&](Which which) -> AttentionMatrix<const float> {
    return {reinterpret_cast<const float *>(address(which)), strides(which)[1], strides(which)[2]};
  };
  auto output = [&](Which which) -> AttentionMatrix<float> {
    return {reinterpret_cast<float *>(address(which)), strides(which)[1], strides(which)[2]};
  };
  AttentionArgs common;
  common.heads = values[1];
  common.keyHeads = values[2];
  common.rows = values[3];
  common.depth = values[5];
  common.width = values[6];
  common.q = input(Which::Q);
  common.k = input(Which::K);
  common.v = input(Which::V);
  common.segments = values[35];
  common.longest = values[36];
  common.offsets = reinterpret_cast<const int32_t *>(address(Which::Segments));
  common.positions = reinterpret_cast<const int32_t *>(address(Which::Positions));
  common.scale = op.scale;
  common.dropout = op.ratio;
  common.seed = reinterpret_cast<const int64_t *>(address(Which::Seed));
  common.causal = op.causal;
  float *stats = reinterpret_cast<float *>(address(Which::Stats));
  int64_t wrong = -1;
  if (op.backward)
    wrong = attentionBackwardF32(
        {common, stats, input(Which::DO), output(Which::DQ), output(Which::DK), output(Which::DV)},
        pool);
  else
    wrong = attentionForwardF32({common, output(Which::O), stats}, pool);
  if (wrong < 0)
    return;
  reports.badIndex = step.command;
  reports.position = wrong;
  reports.value = common.offsets[wrong];
}

} // namespace trainrt
