// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs of NVIDIA: kernels as cubins and PTX, matmuls and attention by its libraries.
#ifndef TRAINC_LIB_TARGET_CUDA_CUDATARGET_H
#define TRAINC_LIB_TARGET_CUDA_CUDATARGET_H

#include "trainc/Target/Target.h"

namespace trainc {
const Target &getCudaTarget();
} // namespace trainc

#endif // TRAINC_LIB_TARGET_CUDA_CUDATARGET_H
