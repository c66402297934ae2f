// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// x86-64 with AVX2 or AVX-512: kernels as shared objects, matmuls by the runtime's own
// library.
#ifndef TRAINC_LIB_TARGET_CPU_CPUTARGET_H
#define TRAINC_LIB_TARGET_CPU_CPUTARGET_H

#include "trainc/Target/Target.h"

namespace trainc {
const Target &getCpuTarget();
} // namespace trainc

#endif // TRAINC_LIB_TARGET_CPU_CPUTARGET_H
