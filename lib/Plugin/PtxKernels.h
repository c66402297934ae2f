// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What PTX says of the parameters of its kernels, and which GPUs it is for.

#ifndef TRAINC_LIB_PLUGIN_PTXKERNELS_H
#define TRAINC_LIB_PLUGIN_PTXKERNELS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace trainc::plugin {

/// Bytes of each parameter of a kernel (PTX ISA, "Kernel Function Parameter Attributes"); null
/// where `ptx` has no such kernel, 0 of one that is not understood.
std::optional<std::vector<uint64_t>> readPtxParameters(llvm::StringRef ptx, llvm::StringRef kernel);

} // namespace trainc::plugin

#endif // TRAINC_LIB_PLUGIN_PTXKERNELS_H
