// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this machine has a GPU to compile for.
#ifndef TRAINC_LIB_TARGET_CUDA_CUDADEVICE_H
#define TRAINC_LIB_TARGET_CUDA_CUDADEVICE_H

#include <cstdint>
#include <string>

namespace trainc {

/// Architecture of the first CUDA device ("sm_90"); "" without a driver or a device.
std::string findCudaDevice();
/// Bytes of memory of that device; 0 without one.
int64_t getCudaMemory();

} // namespace trainc

#endif // TRAINC_LIB_TARGET_CUDA_CUDADEVICE_H
