// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies, by all threads.

#include "device/cpu/commands/host_command.h"

#include <cstring>

namespace trainrt {

/// Bytes a thread should copy at least.
static constexpr int64_t copyGrain = 1 << 16;

template <> void runOnHost(const CopyView &step, HostContext &context) {
  const unsigned char *from = context.address(step.places[Copy::From]);
  unsigned char *to = context.address(step.places[Copy::To]);
  if (from != to)
    context.pool.parallelFor(step.bytes(), copyGrain, [=](unsigned, int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, size_t(end - begin));
    });
}

template <> void addWorkingMemory(const CopyView &, WorkingMemory &) {}

} // namespace trainrt
