// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-steps`: the functions that the runtime calls.
#ifndef TRAINC_TRANSFORMS_FORMSTEPS_H
#define TRAINC_TRANSFORMS_FORMSTEPS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/FormSteps/FormSteps.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_FORMSTEPS_H
