// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `attach-optimizer`: @gradients -> @update.
#ifndef TRAINC_TRANSFORMS_ATTACHOPTIMIZER_H
#define TRAINC_TRANSFORMS_ATTACHOPTIMIZER_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/AttachOptimizer/AttachOptimizer.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_ATTACHOPTIMIZER_H
