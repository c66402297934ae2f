// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the commands of a plan on the thread pool.
#ifndef TRAINRT_DEVICE_CPU_EXECUTOR_H
#define TRAINRT_DEVICE_CPU_EXECUTOR_H

#include "comm/communicator.h"
#include "device/cpu/commands/kept_operands.h"
#include "device/cpu/exchange_lane.h"
#include "device/memory.h"
#include "device/observer.h"
#include "device/thread_pool.h"
#include "plan/execution_plan.h"
#include "plan/externals.h"
#include "plan/kernels.h"

#include <array>
#include <functional>
#include <memory>

namespace trainrt {

/// What Executor::scratchBytes comes to on this machine once all of these plans have run: an upper
/// bound, since it depends on the timing which threads take part in what. `place`: which rank.
int64_t estimateScratch(const std::vector<const ExecutionPlan *> &plans, unsigned threads,
                        const RunPlace &place);

class Executor {
public:
  explicit Executor(ThreadPool &pool) : pool(pool) {}

  /// What a run needs beside its plan.
  struct Run {
    const KernelLibrary *kernels;
    /// The address of each buffer of the function.
    std::vector<void *> buffers;
    /// Asked between commands; true stops the run with Cancelled. Empty: never.
    std::function<bool(int64_t done, int64_t total)> stop;
    CommandObserver *observer = nullptr;
    Communicator *ranks = nullptr;
    bool metBadIndex = false; ///< the others are told of it by a verdict (Collective)
    /// Where the program calls functions of plug-ins.
    const Program *program = nullptr;
    const ExternalFunctions *externals = nullptr;
  };

  /// What kernels tell beside their results.
  struct Reports {
    /// The one that met an index out of range; null if none did.
    const Command *badIndex = nullptr;
    int64_t position = 0, value = 0;
    /// Those that met a number that is not finite where one must be, in order.
    std::vector<NumberReport> numbers;
    /// A collective that other ranks did not come to; null if all did.
    const Command *failed = nullptr;
    /// One that a plug-in's function has returned an error for.
    const Command *refused = nullptr;
    Status why; ///< of either
  };
  /// Stops at the first command that meets a bad index or fails.
  Status run(const ExecutionPlan &plan, Run &run, const Allocator &allocator, Reports &reports);

  /// Scratch of kernels, of the matrix multiplication and of collectives.
  int64_t scratchBytes() const {
    return scratch.size() + int64_t(pool.scratchBytes() + staging.size());
  }

private:
  class Beside;
  void exchangeRest(const ExecutionPlan &plan, size_t first, Run &run, Beside *beside);
  bool runsBeside(const ExecutionPlan &plan, const Run &run);
  void perform(const ExecutionPlan::Step &step, const ExecutionPlan &plan, const Run &run,
               Reports &reports);

  ThreadPool &pool;
  Memory scratch;
  int64_t scratchStride = 0;
  KeptOperands kept;
  std::vector<void *> arguments;
  std::vector<unsigned char> staging; ///< of what ranks exchange
  /// Made for the first plan that has exchanges beside the other commands.
  std::unique_ptr<ExchangeLane> lane;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_EXECUTOR_H
