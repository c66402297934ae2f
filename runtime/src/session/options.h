// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a caller says to a session and its steps, and is told by them.
#ifndef TRAINRT_SESSION_OPTIONS_H
#define TRAINRT_SESSION_OPTIONS_H

#include "comm/communicator.h"
#include "device/memory.h"
#include "format/commands/command_class.h"
#include "plan/execution_plan.h"
#include "session/data/density.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainrt {

/// A command that has run.
struct CommandRecord {
  const Function *function = nullptr; ///< null: of the ranks, between functions
  size_t index = 0;                   ///< of the function's commands
  std::string name;
  std::vector<const char *> nodes;
  double start = 0, seconds = 0; ///< since the function began
  CommandClass kind = CommandClass::Other;
  int64_t bytes = 0; ///< that it must move at least
  int64_t flops = 0;
  const char *type = ""; ///< that it computes in; "" where it has no shape
  CommandShape shape;
  int64_t sent = 0;  ///< of these, to other ranks
  double waited = 0; ///< of an exchange: seconds that other commands waited for it
};

/// How much memory there is at the beginning or the end of a part of a step.
struct MemoryRecord {
  int64_t step = 0;
  const char *phase = ""; ///< "pre_forward", ...
  /// In use, the most since the step began, and held.
  int64_t allocated = 0, peak = 0, cached = 0;
};

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
  // See DeviceOptions.
  int device = 0;
  void *stream = nullptr;
  bool synchronous = false;
  /// Is told of every command; not together with `checkNumerics`.
  std::function<void(const CommandRecord &)> commandDone;
  /// Says where a loss, gradient or new value that is not finite comes from. Slow.
  bool checkNumerics = false;
  /// Whether variants may take the place of functions.
  bool variants = true;
  /// Whether checkpoints of other models may be loaded if all tensors agree.
  bool anyModel = false;
  /// Is told how full the batches of each step are, before the step is made.
  std::function<void(const DensityRecord &)> density;
  /// The ranks that train together, of which the session is one; null: it is alone.
  std::shared_ptr<Communicator> ranks;
  /// Is told of the memory at the phases of each step.
  std::function<void(const MemoryRecord &)> memory;
};

/// What the losses and gradients of micro-batches count for, as in the C API.
enum class AccumulateBy : int32_t { Loss, Mean, Rows, Tokens };

struct StepOptions {
  double lr = NAN, weightDecay = NAN, clipNorm = NAN; ///< NaN: the package's
  const double *weights = nullptr;                    ///< a factor for each micro-batch, or null
  AccumulateBy accumulateBy = AccumulateBy::Loss;     ///< without `weights`
  bool allowNonfinite = false;
  /// Return the result of the step before, so that a device need not wait for the host.
  bool lag = false;
  bool checked = false; ///< `check` has found these batches to be good
  /// This rank wants no step behind this one.
  bool last = false;
};

struct StepResult {
  int64_t step = 0; ///< 0: there is none
  double loss = NAN, lr = NAN;
  double gradNorm = NAN; ///< NaN where the package does not compute it
  double flops = 0;      ///< of the functions that ran; 0: not told
  bool nonfinite = false;
  /// Some rank wants no step behind this one.
  bool last = false;
  /// It was found while parameters were updated: all that is finite has its new value.
  bool inPart = false;
  /// The parameters whose gradients or new values were not finite, as far as it is known.
  std::vector<std::string> numbers{};
};

} // namespace trainrt

#endif // TRAINRT_SESSION_OPTIONS_H
