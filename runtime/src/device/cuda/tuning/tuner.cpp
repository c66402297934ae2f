// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Timing of alternatives.

#include "device/cuda/tuning/tuner.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <utility>

namespace trainrt::cuda {

namespace {
/// Asked of a library: it knows a few dozens at most.
constexpr size_t mostCandidates = 32;
/// A graph of launches takes about so long: well beyond what starting it costs.
constexpr double graphSeconds = 2e-3;
constexpr size_t fewestLaunches = 4, mostLaunches = 200;
/// After the first round, those that are this much slower than the quickest are out.
constexpr double hopeless = 1.15;
constexpr int rounds = 5;
/// Less is noise: then everything stays as it is.
constexpr double worthwhile = 0.99;

/// Every place equally often.
size_t launchesFor(double seconds, size_t uses) {
  assert(uses > 0 && "something uses it");
  const double wanted = seconds > 0 ? graphSeconds / seconds : double(fewestLaunches);
  const size_t launches = size_t(std::clamp(wanted, double(fewestLaunches), double(mostLaunches)));
  return (launches + uses - 1) / uses * uses;
}
} // namespace

Subject productSubject(Blas &blas, const std::string &key, const GemmCall &call,
                       std::vector<GemmOperands> uses, Workspace workspace) {
  const size_t count = uses.size();
  // The plans are made when it is its turn, not for all subjects at once.
  auto alternatives = [&blas, call, uses = std::move(uses),
                       workspace](bool all, std::vector<Alternative> &found) {
    std::vector<std::shared_ptr<const GemmPlan>> plans(1);
    TRAINRT_TRY(all ? blas.alternatives(call, mostCandidates, plans)
                    : blas.prepare(call, plans.front()));
    for (const auto &plan : plans)
      found.push_back({plan->algorithm(), [plan, uses, workspace](size_t use, CUstream stream) {
                         return plan->enqueue(stream, uses[use], workspace);
                       }});
    return Status();
  };
  return {blas.machine(), key, count, std::move(alternatives)};
}

Subject convolutionSubject(Dnn &dnn, const std::string &key, const ConvolutionCall &call,
                           std::vector<ConvolutionOperands> uses, Workspace workspace) {
  const size_t count = uses.size();
  auto alternatives = [&dnn, call, uses = std::move(uses),
                       workspace](bool all, std::vector<Alternative> &found) {
    std::vector<Dnn::Algorithm> algorithms;
    TRAINRT_TRY(dnn.alternatives(call, all ? mostCandidates : 1, algorithms));
    for (const Dnn::Algorithm &algorithm : algorithms)
      found.push_back(
          {algorithm.name, [plan = algorithm.plan, uses, workspace](size_t use, CUstream stream) {
             return plan->enqueue(stream, uses[use], workspace);
           }});
    return Status();
  };
  return {dnn.machine(), key, count, std::move(alternatives)};
}

/// An alternative, and a graph of many of its launches.
class Tuner::Candidate {
public:
  Candidate(const Driver &driver, Alternative alternative)
      : alternative(std::move(alternative)), driver(driver) {}
  // The graph goes along: only one destroys it.
  Candidate(Candidate &&other) noexcept
      : alternative(std::move(other.alternative)), graph(std::exchange(other.graph, nullptr)),
        launches(other.launches), best(other.best), driver(other.driver) {}
  Candidate &operator=(Candidate &&) = delete;
  ~Candidate() {
    if (graph)
      driver.cuGraphExecDestroy(graph);
  }

  Alternative alternative;
  CUgraphExec graph = nullptr;
  size_t launches = 0;
  double best = INFINITY; ///< seconds of one launch

private:
  const Driver &driver;
};

Status Tuner::start() {
  TRAINRT_TRY(begin.create(context, CU_EVENT_DEFAULT));
  return end.create(context, CU_EVENT_DEFAULT);
}

/// Uses one after the other: caches are as cold as in a step.
Status Tuner::capture(Candidate &candidate, size_t uses, size_t launches) {
  TRAINRT_TRY(
      driver.check(driver.cuStreamBeginCapture(captureStream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "cannot capture what is tuned"));
  Status status;
  // The capture is ended below in any case: the stream would go on capturing.
  for (size_t i = 0; i < launches && status.ok(); ++i)
    status = candidate.alternative.enqueue(i % uses, captureStream);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(captureStream, &graph);
  if (status.ok())
    status = driver.check(ended, "cannot capture what is tuned");
  if (status.ok())
    status = driver.check(driver.cuGraphInstantiate(&candidate.graph, graph, 0),
                          "cannot make a graph of what is tuned");
  // The executable has its own copy.
  if (graph)
    driver.cuGraphDestroy(graph);
  candidate.launches = launches;
  return status;
}

/// The best of all runs counts: anything else disturbs, nothing helps.
Status Tuner::time(Candidate &candidate) {
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
  TRAINRT_TRY(driver.check(result, "cannot time what is tuned"));
  assert(candidate.launches > 0 && "captured before");
  candidate.best =
      std::min(candidate.best, double(milliseconds) / 1000 / double(candidate.launches));
  return {};
}

/// Seconds of one launch of what runs without tuning.
Status Tuner::measure(const Subject &subject, double &seconds) {
  std::vector<Alternative> found;
  TRAINRT_TRY(subject.alternatives(/*all=*/false, found));
  Candidate candidate(driver, found.front());
  TRAINRT_TRY(capture(candidate, subject.uses, launchesFor(0, subject.uses)));
  TRAINRT_TRY(time(candidate));
  candidate.best = INFINITY; // the first launch loads code
  TRAINRT_TRY(time(candidate));
  seconds = candidate.best;
  return {};
}

/// What runs without tuning stays, unless another one is quicker by more than noise. The line's
/// times are those of one launch.
Status Tuner::compare(const Subject &subject, double seconds, TuningResult::Line &line,
                      std::string &choice) {
  assert(seconds >= 0 && "measured");
  std::vector<Alternative> found;
  TRAINRT_TRY(subject.alternatives(/*all=*/true, found));
  std::vector<Candidate> candidates;
  double quickest = INFINITY;
  // In the order of preference: the first is what runs without tuning.
  for (const Alternative &alternative : found) {
    Candidate candidate(driver, alternative);
    Status status = capture(candidate, subject.uses, launchesFor(seconds, subject.uses));
    // A library may refuse to run what it has proposed, but not what runs without tuning.
    if (!status.ok() && !candidates.empty())
      continue;
    TRAINRT_TRY(status);
    TRAINRT_TRY(time(candidate));
    // The first run loads code; the second may count.
    TRAINRT_TRY(time(candidate));
    quickest = std::min(quickest, candidate.best);
    candidates.push_back(std::move(candidate));
  }
  // In turns, so that a clock that changes is all of theirs.
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < candidates.size(); ++i)
      if (i == 0 || candidates[i].best <= hopeless * quickest)
        TRAINRT_TRY(time(candidates[i]));
  assert(!candidates.empty() && "what runs without tuning is one");
  const Candidate &first = candidates.front(), *best = &first;
  for (const Candidate &candidate : candidates)
    if (candidate.best < best->best)
      best = &candidate;
  // A difference that small is no reason to change.
  if (best->best > worthwhile * first.best)
    best = &first;
  choice = best->alternative.name;
  line.before = first.best;
  line.after = best->best;
  line.candidates = candidates.size();
  line.changed = best != &first;
  return {};
}

/// What takes longest first, so that a limit in time leaves out what matters least.
Status Tuner::tune(const std::vector<Subject> &subjects, double limit, TuningResult &result) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started = Clock::now();
  struct Measured {
    const Subject *subject;
    double seconds;
    double total() const { return seconds * double(subject->uses); }
  };
  std::vector<Measured> order;
  for (const Subject &subject : subjects) {
    order.push_back({&subject, 0});
    TRAINRT_TRY(measure(subject, order.back().seconds));
    // Also where everything stays: the package was tuned for this machine then.
    result.choices[subject.machine];
  }
  // Equal times by key: the same order every time.
  std::sort(order.begin(), order.end(), [](const Measured &a, const Measured &b) {
    return a.total() != b.total() ? a.total() > b.total() : a.subject->key < b.subject->key;
  });
  for (const Measured &entry : order) {
    const Subject &subject = *entry.subject;
    TuningResult::Line line{subject.key, int64_t(subject.uses), entry.seconds, entry.seconds};
    // Those that are left keep what they have.
    if (std::chrono::duration<double>(Clock::now() - started).count() < limit)
      TRAINRT_TRY(
          compare(subject, entry.seconds, line, result.choices[subject.machine][subject.key]));
    result.lines.push_back(std::move(line));
  }
  return {};
}

} // namespace trainrt::cuda
