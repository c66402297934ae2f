// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-choices`.
#ifndef TRAINC_TRANSFORMS_RAISECHOICES_H
#define TRAINC_TRANSFORMS_RAISECHOICES_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/RaiseChoices/RaiseChoices.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISECHOICES_H
