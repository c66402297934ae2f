// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `keep-rounded-weights`.
#ifndef TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_H
#define TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/KeepRoundedWeights/KeepRoundedWeights.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_KEEPROUNDEDWEIGHTS_H
