// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-kernels`: groups ops into kernels.
#ifndef TRAINC_TRANSFORMS_FORMKERNELS_H
#define TRAINC_TRANSFORMS_FORMKERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/FormKernels/FormKernels.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_FORMKERNELS_H
