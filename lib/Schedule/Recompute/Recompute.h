// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `recompute`, and what a search over its choices needs of it.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_H
#define TRAINC_SCHEDULE_RECOMPUTE_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/Recompute/Recompute.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_H
