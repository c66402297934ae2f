// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `overlap-exchanges`.
#ifndef TRAINC_SCHEDULE_OVERLAPEXCHANGES_H
#define TRAINC_SCHEDULE_OVERLAPEXCHANGES_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/OverlapExchanges/OverlapExchanges.h.inc"

/// What the pass does to a function.
void overlapExchanges(plan::FunctionOp function);
} // namespace trainc

#endif // TRAINC_SCHEDULE_OVERLAPEXCHANGES_H
