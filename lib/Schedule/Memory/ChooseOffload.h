// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-offload`.
#ifndef TRAINC_LIB_SCHEDULE_MEMORY_CHOOSEOFFLOAD_H
#define TRAINC_LIB_SCHEDULE_MEMORY_CHOOSEOFFLOAD_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/Memory/ChooseOffload.h.inc"

/// On a module: sizes (i64) by name that were chosen for it, in place of the largest ones.
inline constexpr llvm::StringLiteral kPlannedSizesAttr = "train.planned_sizes";

} // namespace trainc

#endif // TRAINC_LIB_SCHEDULE_MEMORY_CHOOSEOFFLOAD_H
