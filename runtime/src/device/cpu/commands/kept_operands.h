// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of matmuls that stay packed while a loop runs.
#ifndef TRAINRT_DEVICE_CPU_COMMANDS_KEPT_OPERANDS_H
#define TRAINRT_DEVICE_CPU_COMMANDS_KEPT_OPERANDS_H

#include "device/cpu/gemm.h"
#include "device/thread_pool.h"
#include "plan/execution_plan.h"

namespace trainrt {

/// All but the operands' addresses and factors.
GemmArgs gemmArgs(const GemmView &step);
GemmConstants gemmConstants(const GemmView &step);

class KeptOperands {
public:
  /// `begin` begins a loop. What an earlier run of it has packed is void.
  void enter(const ExecutionPlan &plan, const Command &begin, ThreadPool &pool);
  /// Null where a matmul packs anew each time.
  KeptB *of(const Command &command);

private:
  /// The commands of the outermost loop.
  const Command *first = nullptr, *last = nullptr;
  /// One each; null addresses where nothing is kept.
  std::vector<KeptB> places;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_COMMANDS_KEPT_OPERANDS_H
