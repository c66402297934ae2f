// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands on the host. Each kind has a file here that specialises these two functions for its
// view.
#ifndef TRAINRT_DEVICE_CPU_COMMANDS_HOST_COMMAND_H
#define TRAINRT_DEVICE_CPU_COMMANDS_HOST_COMMAND_H

#include "device/cpu/commands/kept_operands.h"
#include "device/cpu/executor.h"
#include "format/memory/working_memory.h"

namespace trainrt {

/// What a command runs with.
struct HostContext {
  const ExecutionPlan &plan;
  const Executor::Run &run;
  ThreadPool &pool;
  unsigned char *scratch;      ///< of the first thread
  const int64_t scratchStride; ///< from one thread's to the next one's
  Executor::Reports &reports;
  const Command *command;
  /// Of the loops that the run is in.
  KeptOperands &kept;
  /// Room for a kernel's arguments.
  std::vector<void *> &arguments;
  /// Room for what ranks exchange, which grows.
  std::vector<unsigned char> &staging;

  /// Null for an absent operand.
  template <typename T = unsigned char> T *address(const Place &place) const {
    if (!place.isPresent())
      return nullptr;
    return reinterpret_cast<T *>(static_cast<unsigned char *>(run.buffers[place.buffer]) +
                                 place.offset);
  }
};

template <typename View> void runOnHost(const View &step, HostContext &context);

/// Adds what the host's library call needs; nothing for a command that is none.
template <typename View> void addWorkingMemory(const View &step, WorkingMemory &memory);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_COMMANDS_HOST_COMMAND_H
