// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `mixed-precision`: casts around ops that run in a 16-bit float type.
#ifndef TRAINC_TRANSFORMS_MIXEDPRECISION_H
#define TRAINC_TRANSFORMS_MIXEDPRECISION_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/MixedPrecision/MixedPrecision.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_MIXEDPRECISION_H
