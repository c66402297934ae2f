// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions are refused where a program for a CPU is read: compilers make matmuls of them.

#include "device/cpu/commands/host_command.h"

namespace trainrt {

template <> void runOnHost(const ConvolutionView &, HostContext &) {}
template <> void addWorkingMemory(const ConvolutionView &, WorkingMemory &) {}

} // namespace trainrt
