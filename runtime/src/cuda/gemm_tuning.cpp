// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Timing of algorithms.

#include "cuda/gemm_tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace trainrt::cuda {

namespace {
/// Asked of the library: it knows a few dozens at most.
constexpr size_t mostCandidates = 32;
/// A graph of launches takes about so long: well beyond what starting it costs.
constexpr double graphSeconds = 2e-3;
constexpr size_t fewestLaunches = 4, mostLaunches = 200;
/// After the first round, those that are this much slower than the quickest are out.
constexpr double hopeless = 1.15;
constexpr int rounds = 5;
/// Less is noise: then everything stays as it is.
constexpr double worthwhile = 0.99;

/// Whether what the command writes there, if anything, is another step's too. `operand`: C, bias or
/// auxiliary matrix, as the places of a command are numbered.
bool outlasts(const ExecutionPlan &plan, const ExecutionPlan::Step &step, size_t operand) {
  const GemmEpilogue epilogue = std::get<Gemm>(step.command->op).epilogue;
  const bool written = operand == 2 || (operand == 3 && epilogue == GemmEpilogue::DGeluBGrad) ||
                       (operand == 4 && (epilogue == GemmEpilogue::GeluAux ||
                                         epilogue == GemmEpilogue::GeluAuxBias));
  const uint32_t buffer = plan.places[step.firstPlace + operand].buffer;
  if (!written || buffer == ExecutionPlan::Place::none)
    return false;
  const Space space = plan.function->buffers[buffer].space;
  return space != Space::Arena && space != Space::Output;
}

/// Every place equally often.
size_t launchesFor(double seconds, size_t uses) {
  const double wanted = seconds > 0 ? graphSeconds / seconds : double(fewestLaunches);
  const size_t launches = size_t(std::clamp(wanted, double(fewestLaunches), double(mostLaunches)));
  return (launches + uses - 1) / uses * uses;
}
} // namespace

int64_t lastingBytes(const Commands &commands, const ExecutionPlan &plan) {
  int64_t most = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    const ExecutionPlan::Step &step = commands.step(i);
    if (std::holds_alternative<Gemm>(step.command->op))
      for (size_t operand : {2, 3, 4})
        if (outlasts(plan, step, operand))
          most = std::max(most, plan.bufferBytes[plan.places[step.firstPlace + operand].buffer]);
  }
  return most;
}

void addProducts(const Commands &commands, const ExecutionPlan &plan, DeviceAddress spare,
                 std::vector<Product> &products) {
  for (size_t i = 0; i < commands.size(); ++i) {
    GemmCall call;
    GemmOperands operands;
    const GemmPlan *product = commands.product(i, call, operands);
    if (!product)
      continue;
    const ExecutionPlan::Step &step = commands.step(i);
    DeviceAddress *const written[] = {&operands.c, &operands.bias, &operands.aux};
    for (size_t operand : {2, 3, 4})
      if (outlasts(plan, step, operand))
        *written[operand - 2] =
            spare + DeviceAddress(plan.places[step.firstPlace + operand].offset);
    auto same = std::find_if(products.begin(), products.end(),
                             [&](const Product &known) { return known.key == product->key(); });
    if (same == products.end())
      same = products.insert(products.end(), Product{product->key(), call, {}});
    same->uses.push_back(operands);
  }
}

/// A plan, and a graph of many of its launches.
class GemmTuner::Candidate {
public:
  Candidate(const Driver &driver, std::shared_ptr<const GemmPlan> plan)
      : plan(std::move(plan)), driver(driver) {}
  Candidate(Candidate &&other) noexcept
      : plan(std::move(other.plan)), graph(std::exchange(other.graph, nullptr)),
        launches(other.launches), best(other.best), driver(other.driver) {}
  Candidate &operator=(Candidate &&) = delete;
  ~Candidate() {
    if (graph)
      driver.cuGraphExecDestroy(graph);
  }

  std::shared_ptr<const GemmPlan> plan;
  CUgraphExec graph = nullptr;
  size_t launches = 0;
  double best = INFINITY; ///< seconds of one launch

private:
  const Driver &driver;
};

Status GemmTuner::start() {
  TRAINRT_TRY(begin.create(context, CU_EVENT_DEFAULT));
  return end.create(context, CU_EVENT_DEFAULT);
}

Status GemmTuner::capture(const Product &product, Candidate &candidate, size_t launches) {
  TRAINRT_TRY(
      driver.check(driver.cuStreamBeginCapture(captureStream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "cannot capture a matrix product"));
  Status status;
  for (size_t i = 0; i < launches && status.ok(); ++i)
    status =
        candidate.plan->enqueue(captureStream, product.uses[i % product.uses.size()], workspace);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(captureStream, &graph);
  if (status.ok())
    status = driver.check(ended, "cannot capture a matrix product");
  if (status.ok())
    status = driver.check(driver.cuGraphInstantiate(&candidate.graph, graph, 0),
                          "cannot make a graph of a matrix product");
  if (graph)
    driver.cuGraphDestroy(graph);
  candidate.launches = launches;
  return status;
}

Status GemmTuner::time(Candidate &candidate) {
  CUresult result = driver.cuEventRecord(begin.get(), stream);
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphLaunch(candidate.graph, stream);
  if (result == CUDA_SUCCESS)
    result = driver.cuEventRecord(end.get(), stream);
  if (result == CUDA_SUCCESS)
    result = driver.cuEventSynchronize(end.get());
  float milliseconds = 0;
  if (result == CUDA_SUCCESS)
    result = driver.cuEventElapsedTime(&milliseconds, begin.get(), end.get());
  TRAINRT_TRY(driver.check(result, "cannot time a matrix product"));
  candidate.best =
      std::min(candidate.best, double(milliseconds) / 1000 / double(candidate.launches));
  return {};
}

Status GemmTuner::measure(const Product &product, double &seconds) {
  std::shared_ptr<const GemmPlan> plan;
  TRAINRT_TRY(blas.prepare(product.call, plan));
  Candidate candidate(driver, plan);
  TRAINRT_TRY(capture(product, candidate, launchesFor(0, product.uses.size())));
  TRAINRT_TRY(time(candidate));
  candidate.best = INFINITY; // the first launch loads code
  TRAINRT_TRY(time(candidate));
  seconds = candidate.best;
  return {};
}

Status GemmTuner::tune(const Product &product, double seconds, TunedProduct &result) {
  std::vector<std::shared_ptr<const GemmPlan>> plans;
  TRAINRT_TRY(blas.alternatives(product.call, mostCandidates, plans));
  std::vector<Candidate> candidates;
  double quickest = INFINITY;
  for (const auto &plan : plans) {
    Candidate candidate(driver, plan);
    Status status = capture(product, candidate, launchesFor(seconds, product.uses.size()));
    // The library may refuse to run what it has proposed, but not what runs without tuning.
    if (!status.ok() && plan != plans.front())
      continue;
    TRAINRT_TRY(status);
    TRAINRT_TRY(time(candidate));
    TRAINRT_TRY(time(candidate));
    quickest = std::min(quickest, candidate.best);
    candidates.push_back(std::move(candidate));
  }
  if (candidates.empty())
    return {};
  // In turns, so that a clock that changes is all of theirs.
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < candidates.size(); ++i)
      if (i == 0 || candidates[i].best <= hopeless * quickest)
        TRAINRT_TRY(time(candidates[i]));
  const Candidate *best = &candidates.front();
  for (const Candidate &candidate : candidates)
    if (candidate.best < best->best)
      best = &candidate;
  if (best->best > worthwhile * candidates.front().best)
    best = &candidates.front();
  result = {best->plan->algorithm(), candidates.front().best, best->best, candidates.size(),
            best != &candidates.front()};
  return {};
}

Status GemmTuner::tune(const std::vector<Product> &products, double limit, TuningResult &result) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started = Clock::now();
  struct Measured {
    const Product *product;
    double seconds;
    double total() const { return seconds * double(product->uses.size()); }
  };
  std::vector<Measured> order;
  for (const Product &product : products) {
    order.push_back({&product, 0});
    TRAINRT_TRY(measure(product, order.back().seconds));
  }
  std::sort(order.begin(), order.end(), [](const Measured &a, const Measured &b) {
    return a.total() != b.total() ? a.total() > b.total() : a.product->key < b.product->key;
  });
  Choices &choices = result.choices[blas.machine()];
  for (const Measured &entry : order) {
    TuningResult::Line line;
    line.what = entry.product->key;
    line.uses = int64_t(entry.product->uses.size());
    line.before = line.after = entry.seconds;
    const double elapsed = std::chrono::duration<double>(Clock::now() - started).count();
    if (elapsed < limit) {
      TunedProduct tuned;
      TRAINRT_TRY(tune(*entry.product, entry.seconds, tuned));
      choices[entry.product->key] = tuned.algorithm;
      line.before = tuned.before;
      line.after = tuned.after;
      line.candidates = tuned.candidates;
      line.changed = tuned.changed;
    }
    result.lines.push_back(std::move(line));
  }
  return {};
}

} // namespace trainrt::cuda
