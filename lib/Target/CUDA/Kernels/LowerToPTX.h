// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From LLVM bitcode to PTX and cubins.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_LOWERTOPTX_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_LOWERTOPTX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace trainc::codegen {

/// Where the tools are; empty: not found.
struct CudaTools {
  std::string ptxas, libdevice;
  /// What is missing and how it is installed.
  std::string message;
};
/// Looks in `path` if it is given, else in the usual places.
CudaTools findCudaTools(llvm::StringRef path);

/// Whether there is PTX for this architecture, "sm_90".
bool knowsArchitecture(llvm::StringRef architecture);
/// Optimises bitcode and emits PTX; on failure returns "" and sets `error`. `suffix` makes the
/// names of local symbols unique among the parts that one PTX text is put together from. Works
/// without MLIR and shares nothing: safe on any thread.
std::string compileToPTX(llvm::StringRef bitcode, llvm::StringRef architecture,
                         llvm::StringRef libdevice, llvm::StringRef suffix, std::string &error);
/// One PTX text of several for the same architecture.
std::string joinPTX(llvm::ArrayRef<std::string> parts);
/// Runs ptxas; on failure returns nothing and sets `error`.
std::vector<char> assemblePTX(llvm::StringRef ptx, llvm::StringRef architecture,
                              llvm::StringRef ptxas, std::string &error);

/// Attribute of kernels that are to begin while those in front of them end (programmatic dependent
/// launch, CUDA C++ Programming Guide), on GPUs that can.
inline constexpr llvm::StringLiteral kMayWaitAttribute = "trainc-may-wait";
/// Prefix of libdevice's functions.
inline constexpr llvm::StringLiteral kLibdevicePrefix = "__nv_";

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_LOWERTOPTX_H
