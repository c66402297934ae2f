// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A training run in memory: parameters, state and accumulators on a device, and the functions of
// the package over them. Not thread safe, but for `cancel`.
#ifndef TRAINRT_SESSION_SESSION_H
#define TRAINRT_SESSION_SESSION_H

#include "comm/exchange_mode.h"
#include "device/device.h"
#include "plan/inputs.h"
#include "plan/package.h"
#include "session/batch_binder.h"
#include "session/hyper_values.h"
#include "session/inspect/numerics.h"
#include "session/options.h"
#include "session/phase_memory.h"
#include "session/plan_selection.h"
#include "session/values.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trainrt {

struct RankOutcome;

class Session {
public:
  static Status create(std::shared_ptr<const Package> package, const SessionOptions &options,
                       std::unique_ptr<Session> &session);

  /// With `lag`, `result` and an error that comes from running are those of the step before (step 0
  /// if there is none); when that one was not finite and this is an error, this step is not made.
  Status step(const std::vector<Batch> &batches, const StepOptions &options, StepResult &result);
  /// As `step` checks its batches, before anything runs. Any thread, also while a step runs.
  Status check(const std::vector<Batch> &batches) const;
  /// Whether a step with these options is not made, as it tells that one before it has failed.
  bool hasFailed(const StepOptions &options) const {
    return options.lag && finished.present && !finished.status.ok();
  }
  /// Runs `make`, which makes a step and sets its result; with `lag`, `result` is that of the step
  /// before.
  Status told(const StepOptions &options, const std::function<Status(StepResult &)> &make,
              StepResult &result);
  /// The result of a step with `lag` that has not been returned yet; step 0 if there is none.
  Status finish(StepResult &result) { return finish(result, true); }
  /// Waits for such a step, whose result is kept for `finish`. Whatever reads the step count or
  /// changes values does this first.
  void settle();
  /// Forward and backward only; nothing but the accumulators and outputs changes.
  Status gradients(const std::vector<Batch> &batches, const StepOptions &options,
                   StepResult &result);
  /// `loss` is NaN without one or when an input was filled in.
  Status eval(const Batch &batch, bool fillMissing, double &loss);
  void cancel() { cancelled.store(true); }
  /// From now on batches have at least so many elements that count; -1: they are counted again.
  Status setCount(size_t symbol, int64_t value) { return binder.setCount(symbol, value); }
  const PlanUse &planUse() const { return plans.use(); }
  Device::InputCopies inputCopies() const { return device->inputCopies(); }
  /// What the plans of the batches to come depend on, for a checkpoint.
  std::vector<PlanCache::Key> boundPlans() const { return plans.keys(); }
  void restorePlans(std::vector<PlanCache::Key> keys);

  const Package &package() const { return *source; }
  int64_t stepCount() const { return steps; }
  /// Compares algorithms for the steps that such batches make; changes no value of the session, but
  /// outputs are lost.
  Status tune(const std::vector<Batch> &batches, double seconds, TuningResult &result);
  Status allocateHost(int64_t bytes, void *&memory) { return device->allocateHost(bytes, memory); }
  void releaseHost(void *memory) { device->releaseHost(memory); }
  Status measureCopySpeed(double &bytesPerSecond) {
    return device->measureCopySpeed(bytesPerSecond);
  }
  Status measureMatmulSpeed(double &flopsPerSecond) {
    settle();
    return device->measureMatmulSpeed(flopsPerSecond);
  }
  int64_t seed() const { return key; }
  unsigned threads() const { return device->threads().size(); }
  ThreadPool &threadPool() { return device->threads(); }
  bool isInference() const { return inference; }
  bool takesAnyModel() const { return anyModel; }
  /// By which it is one of several ranks; null: it is alone.
  Communicator *communicator() const { return ranks.get(); }
  /// Sessions for evaluation have state only if the model's `eval` reads it.
  bool hasState() const { return values.hasState(); }
  MemoryUse memory() const;
  int64_t freeMemory() const { return device->freeMemory(); }
  /// Largest total so far.
  int64_t peakBytes() const { return peak; }
  /// How long the host has waited for the device so far.
  double waitedSeconds() const { return device->waitedSeconds(); }
  std::string &warnings() { return notes; }
  const std::string &warnings() const { return notes; }

  /// The device's stream, and others that take turns with it (Device).
  void *stream() const { return device->stream(); }
  Status waitFor(void *stream) { return device->waitFor(stream); }
  Status signal(void *stream) { return device->signal(stream); }
  /// As DLPack counts GPUs; -1 for the host.
  int gpu() const { return device->ordinal(); }

  enum class Value { Parameter, State, Gradient, Output };
  /// A value where it lies, on the device.
  struct Place {
    ArrayView array;
    std::shared_ptr<const void> owner; ///< keeps the memory
    bool readOnly = false;             ///< a write to it would end the process
  };
  // Values by index into the program's tables.
  /// Waits for nothing: on a GPU, what is there now is there for its stream.
  Status place(Value kind, size_t index, Place &place) const;
  // Views by the host are invalid once something is run.
  Status parameter(size_t index, ArrayView &array) const {
    return view(Value::Parameter, index, array);
  }
  bool hasParameter(size_t index) const {
    return values.parameters().data(index) || !source->program().parameters[index].staticBytes;
  }
  Status state(size_t index, ArrayView &array) const { return view(Value::State, index, array); }
  Status gradient(size_t index, ArrayView &array) const {
    return view(Value::Gradient, index, array);
  }
  Status output(size_t index, ArrayView &array) const { return view(Value::Output, index, array); }
  /// Of an output that the last call computed; null otherwise.
  const int64_t *outputShape(size_t index) const;
  /// Of the host, or in the device's memory.
  Status setParameter(size_t index, ArrayView array);
  Status setState(size_t index, ArrayView array);
  /// Whether other ranks have the rest of this parameter or state; this one has `range` of it.
  bool holdsShard(Value kind, size_t index, ShardRange &range) const;
  const RunPlace &runPlace() const { return where; }
  /// The elements of this rank's shard, without what is behind the tensor's end.
  Status shard(Value kind, size_t index, ArrayView &shard) const;
  /// Whether others have a part of this session's state.
  bool hasShards() const { return where.shards() > 1 && source->program().hasShards(); }
  /// And of its parameters: all ranks evaluate at once.
  bool sharesParameters() const {
    return where.shards() > 1 && source->program().sharesParameters();
  }
  /// All ranks of this process, where it has several: `sessions[r]` is rank r.
  void setRanksHere(std::vector<Session *> sessions) { ranksHere = std::move(sessions); }

  /// Whether all parameters have values, of one and the same step.
  Status usable() const;
  /// Runs `init` if the state has not been initialized yet (needs all parameters).
  Status initializeState();
  /// After a checkpoint has set all parameters and state.
  void restored(int64_t step, int64_t seed);
  /// Grows where a caller changes parameters, state or the number of steps.
  uint64_t revision() const { return changes; }
  /// From now on a caller may change parameters where they lie, at any time between two steps.
  void exposeParameters() { exposed |= source->derive() != nullptr; }

private:
  /// A step that the device may still be running.
  struct Pending {
    Device::Ticket ticket = 0;
    const Function *function = nullptr;
    StepResult result;
    bool allowNonfinite = false;
    bool active = false;
    // Of several ranks.
    bool isShared = false;
    Status begun;           ///< of its begin, where the others have come to the end of it
    bool hasBatch = false;  ///< on this rank
    double factor = 1;      ///< of this rank's loss in the step's
    double lossDivisor = 1; ///< of the sum of all ranks' losses
  };
  /// A step whose outcome nobody has been told.
  struct Finished {
    StepResult result;
    Status status;
    bool present = false;
  };

  Session() = default;
  Status view(Value kind, size_t index, ArrayView &array) const;
  /// A parameter of which the ranks of this process have the parts.
  Status gather(size_t index, ArrayView &array) const;
  Status evalAlone(const Batch &batch, bool fillMissing, double &loss);
  Status start(const SessionOptions &options);
  /// Into `bound`, with all memory that the function needs for them.
  Status prepareAll(const Function &function, const std::vector<Batch> &batches,
                    const BindOptions &options);
  /// What a step of so many micro-batches runs first; null if the package has none.
  const Function *firstFunction(size_t batches, const double *weights) const;
  /// Gets all memory that the function needs with these symbols.
  Status prepare(const Function &function, const std::vector<int64_t> &symbols,
                 const ExecutionPlan *&plan);
  /// Makes what functions keep beside the parameters, where these have changed without it.
  Status derive();
  /// Stages the inputs and starts a run. `cancellable`: may stop between commands.
  /// `step`: the number of the step whose memory is told; 0: none is. `alone`: with no other rank.
  Status enqueue(const Function &function, const BoundBatch *batch, bool cancellable,
                 Device::Ticket &ticket, int64_t step = 0, bool alone = false);
  /// The same, and waits for it.
  Status execute(const Function &function, const BoundBatch *batch, bool cancellable,
                 Device::Result &result, int64_t step = 0);
  /// Sets `factors` for micro-batches that are in `bound`.
  Status weigh(const std::vector<Batch> &batches, const StepOptions &options);
  /// What each counts for, in labels or rows; none where all count the same.
  Status measureWeights(const std::vector<Batch> &batches, const StepOptions &options,
                        std::vector<double> &weights);
  /// Of all micro-batches of the step, on all ranks.
  void setFactors(std::vector<double> weights);
  static Status checkFactors(size_t batches, const StepOptions &options);
  /// The operations of the functions that `bound` gets; 0 where one does not tell.
  double countFlops() const;
  /// Of one micro-batch, what its loss is divided by.
  Status measureLossWeight(const Batch &batch, const StepOptions &options, double &weight);
  /// The micro-batches, into cleared accumulators. Sets the weighted loss, and whether something
  /// was not finite.
  Status accumulate(const StepOptions &options, StepResult &result);
  /// The same of this rank's, with the factor and the loss of each in place of the sum.
  Status accumulate(const StepOptions &options, StepResult &result,
                    std::vector<std::pair<double, double>> &losses);
  /// What the sum of all losses is divided by to be the step's.
  double lossDivisor(const StepOptions &options) const;
  // Of several ranks.
  Status meet(const RankOutcome &mine, std::vector<RankOutcome> &all) const;
  Status stepTogether(const std::vector<Batch> &batches, const StepOptions &options,
                      StepResult &result);
  std::string describeStep(const StepOptions &options) const;
  /// Whether a step may begin before the one before it has ended.
  bool mayLag(const StepOptions &options) const;
  /// The number of the step that has not begun.
  int64_t nextStep() const { return (pending.active ? pending.result.step : steps) + 1; }
  /// `atOnce`: for a step that is one function.
  Status prepareTogether(const std::vector<Batch> &batches, const StepOptions &options, bool atOnce,
                         std::vector<double> &weights, double &lr);
  /// Of several micro-batches on some rank.
  Status stepByMicro(const StepOptions &options, StepResult &result);
  /// Begins a step of one micro-batch of each rank, or none of some.
  Status beginAtOnce(const StepOptions &options, Pending &step);
  /// The end of such a step, of which this rank knows `status` and `done`, on all ranks.
  Status completeTogether(const Pending &step, const Status &status, const Device::Result &done,
                          StepResult &result);
  static void mergeOutcomes(const std::vector<RankOutcome> &all, StepResult &result);
  /// Says which step it was that a rank was lost in.
  Status atStep(int64_t step, Status status) const;
  /// Whether a micro-batch has collectives: each rank then runs as many.
  bool exchangesMicro() const {
    return source->absent() && (where.world > 1 || exchangeMode() == ExchangeMode::Always);
  }
  /// Whether those sum up accumulators in their place: only the last micro-batch of a rank's step
  /// has them, or `absent` where it has none.
  bool exchangesLast() const;
  /// Runs `absent` for a rank that the others wait for.
  Status takePart(StepResult &result);
  /// Whether the others need not be stopped where this rank's gradients have failed with `status`:
  /// it has exchanged what they wait for, or does now.
  bool keepsPace(const Status &status);
  /// What only some ranks know of an update of shards.
  Status shareOutcome(StepResult &result);
  Status agree(const std::vector<Batch> &batches, const StepOptions &options, StepResult &result);
  Status accumulateTogether(const StepOptions &options, StepResult &result);
  /// What the end of a run that may update says about its step.
  void note(const Function &function, const Device::Result &done, StepResult &result);
  /// Adds the names of the parameters that these commands write, or that what they write is of.
  void addNames(const Function &function, const std::vector<NumberReport> &reports,
                StepResult &result) const;
  Status stepNow(const Function &first, bool fused, const StepOptions &options, StepResult &result);
  /// Begins a step of this rank alone.
  Status beginAhead(const Function &function, const StepOptions &options, Pending &step);
  /// Behind the begin of a step, the end of the one before it.
  Status stepAhead(const Pending &next, StepResult &result);
  /// What the outcome of a step means: the flag is cleared, the step counted or refused. In part:
  /// the session is broken, unless such a step is allowed.
  Status decide(bool allowNonfinite, StepResult &result);
  Status complete(Pending &step, StepResult &result);
  Status finish(StepResult &result, bool wait);
  void measure();
  /// What the check of numbers has found since it began, added to `status` or else to the warnings.
  Status explained(Status status, const std::string &what);

  std::shared_ptr<const Package> source;
  std::shared_ptr<Communicator> ranks; ///< null: there is one
  RunPlace where;
  std::vector<Session *> ranksHere;
  /// Parameters that somebody has asked for, of the parts of all ranks.
  mutable std::map<size_t, std::vector<unsigned char>> gathered;
  uint64_t changes = 0;
  uint64_t derivedOf = UINT64_MAX; ///< `changes` when `derive` last ran
  bool exposed = false;            ///< parameters may have changed unseen
  std::unique_ptr<CommandObserver> observer;
  std::function<void(const DensityRecord &)> density;
  PhaseMemory phases;
  /// Is told of commands; empty: nobody is.
  std::function<void(const CommandRecord &)> commandDone;
  /// The observer, if it is that.
  NumericsCheck *numerics = nullptr;
  std::unique_ptr<Device> device;
  SessionValues values;
  HyperValues hypers;
  /// For functions without inputs.
  std::vector<int64_t> noSymbols;
  /// Batches may be checked by another thread while a step runs.
  BatchBinder binder;
  /// Of the last step or gradients, and of the last evaluation: the next ones use them again.
  std::vector<BoundBatch> bound;
  BoundBatch evalBound;
  /// What each of several micro-batches counts for; empty: all the same.
  std::vector<double> factors;
  /// Micro-batches of the step, this rank's first one and all.
  struct {
    int64_t first, all;
    /// The most that a rank computes.
    int64_t rounds = 0;
  } share{0, 0};
  bool stepsAtOnce = false; ///< no rank has more than one
  bool lags = false;        ///< all ranks may begin this step before the last one has ended
  BoundBatch weighed;       ///< of the last micro-batch whose loss's denominator was computed
  /// The functions that `bound` gets: those that it was bound to, or variants of them.
  std::vector<const Function *> selected;
  PlanSelection plans;
  std::vector<ExecutionPlan::Output> outputs;
  int (*progress)(void *, int64_t, int64_t) = nullptr;
  void *progressUser = nullptr;
  std::atomic<bool> cancelled{false};
  std::string notes;
  Pending pending;
  Finished finished;
  int64_t steps = 0, key = 0, peak = 0;
  bool anyModel = false;
  bool inference = false, initialized = false;
  /// Values are those that the package has, of an earlier training's state, too.
  bool goesOn = false;
  /// A step updated some of the parameters and not others.
  bool broken = false;
  /// The last `enqueue` got as far as running commands.
  bool began = false;
  /// One of the step's micro-batches has, with its exchanges.
  bool exchangeBegan = false;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_SESSION_H
