// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-kernels`: groups ops into kernels.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_H
#define TRAINC_SCHEDULE_FORMKERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/FormKernels/FormKernels.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_H
