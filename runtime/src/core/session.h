// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A training run in memory: parameters, state, accumulators, arena, and the functions of the
// package over them. Not thread safe, but for `cancel`.
#ifndef TRAINRT_CORE_SESSION_H
#define TRAINRT_CORE_SESSION_H

#include "core/executor.h"
#include "core/inputs.h"
#include "core/package.h"
#include "core/parameters.h"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace trainrt {

struct SessionOptions {
  enum class Weights { Package, File, Random, None };
  unsigned threads = 0; ///< 0: all cores the process may use
  bool inference = false;
  int64_t seed = 0;
  Weights weights = Weights::Package;
  std::string weightsPath;
  double initStd = 0.02;
  Allocator allocator;
  int (*progress)(void *user, int64_t done, int64_t total) = nullptr;
  void *progressUser = nullptr;
};

struct StepOptions {
  double lr = NAN, weightDecay = NAN, clipNorm = NAN; ///< NaN: the package's
  const double *weights = nullptr;                    ///< a factor for each micro-batch, or null
  bool allowNonfinite = false;
};

struct StepResult {
  int64_t step = 0;
  double loss = NAN, lr = NAN;
  bool nonfinite = false;
};

/// Bytes by category, see `trainrt_memory`.
struct MemoryUse {
  int64_t parameters = 0, state = 0, gradients = 0, arena = 0, arenaLowerBound = 0, inputs = 0;
  int64_t outputs = 0, scratch = 0, mapped = 0;
  int64_t total() const {
    return parameters + state + gradients + arena + inputs + outputs + scratch;
  }
};

/// What a session would hold for these symbol values; `microBatches` 0: evaluation only.
Status estimateMemory(const Package &package, const std::vector<int64_t> &symbols,
                      unsigned microBatches, unsigned threads, MemoryUse &use);

/// Cores that this process may use.
unsigned availableCores();

class Session {
public:
  static Status create(std::shared_ptr<const Package> package, const SessionOptions &options,
                       std::unique_ptr<Session> &session);

  Status step(const std::vector<Batch> &batches, const StepOptions &options, StepResult &result);
  /// Forward and backward only; nothing but the accumulators and outputs changes.
  Status gradients(const std::vector<Batch> &batches, const StepOptions &options,
                   StepResult &result);
  /// `loss` is NaN without one or when an input was filled in.
  Status eval(const Batch &batch, bool fillMissing, double &loss);
  void cancel() { cancelled.store(true); }

  const Package &package() const { return *source; }
  int64_t stepCount() const { return steps; }
  int64_t seed() const { return key; }
  unsigned threads() const { return executor->threads().size(); }
  bool isInference() const { return inference; }
  /// Sessions for evaluation have state only if the model's `eval` reads it.
  bool hasState() const { return !stateOffsets.empty(); }
  MemoryUse memory() const;
  /// Largest total so far.
  int64_t peakBytes() const { return peak; }
  std::string &warnings() { return notes; }
  const std::string &warnings() const { return notes; }

  // Values by index into the program's tables. Views are invalid once something is run.
  Status parameter(size_t index, ArrayView &array) const;
  Status state(size_t index, ArrayView &array) const;
  Status gradient(size_t index, ArrayView &array) const;
  Status output(size_t index, ArrayView &array) const;
  /// Of an output that the last call computed; null otherwise.
  const int64_t *outputShape(size_t index) const;
  Status setParameter(size_t index, const ArrayView &array);
  Status setState(size_t index, const ArrayView &array);

  /// Runs `init` if the state has not been initialized yet (needs all parameters).
  Status initializeState();
  /// After a checkpoint has set all parameters and state.
  void restored(int64_t step, int64_t seed);

private:
  Session() = default;
  Status start(const SessionOptions &options);
  Status usable() const;
  Status bindAll(const Function &function, const std::vector<Batch> &batches,
                 std::vector<BoundBatch> &bound);
  /// Gets all memory that the function needs with these symbols.
  Status prepare(const Function &function, const std::vector<int64_t> &symbols);
  /// Stages the inputs and runs. `cancellable`: may stop between commands.
  Status execute(const Function &function, const BoundBatch *batch, bool cancellable);
  Status prepareGradients();
  /// The micro-batches, into cleared accumulators; the weighted loss.
  Status accumulate(const std::vector<BoundBatch> &bound, const StepOptions &options, double &loss);
  Status stageInput(uint32_t input, const ArrayView &array, const void *&data);
  /// States that a function has access to, so that a run that must not change them can be undone.
  std::vector<unsigned char> saveStates(const Function &function) const;
  void restoreStates(const Function &function, const std::vector<unsigned char> &saved);
  void setHyper(const char *name, double value);
  void setHyper(const char *name, int64_t value);
  Status setHypers(const StepOptions &options, StepResult &result);
  double lossValue() const;
  bool takeNonfinite(double loss);
  void measure();

  std::shared_ptr<const Package> source;
  std::unique_ptr<Executor> executor;
  ParameterStore parameters;
  Allocator allocator;
  Memory stateBlock, gradientBlock, arena, outputBlock;
  std::vector<Memory> staging;
  std::vector<int64_t> stateOffsets, gradientOffsets;
  std::vector<std::array<unsigned char, 8>> hypers;
  PlanCache plans{64};
  std::vector<ExecutionPlan::Output> outputs;
  int (*progress)(void *, int64_t, int64_t) = nullptr;
  void *progressUser = nullptr;
  std::atomic<bool> cancelled{false};
  std::string notes;
  int64_t steps = 0, key = 0, peak = 0, lastArenaLowerBound = 0;
  bool inference = false, initialized = false, gradientsDirty = false, haveGradients = false;
  /// A step was cut off while it was updating.
  bool broken = false;
  /// The last `execute` got as far as running commands.
  bool began = false;
};

} // namespace trainrt

#endif // TRAINRT_CORE_SESSION_H
