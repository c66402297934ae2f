// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `offload`.
#ifndef TRAINC_SCHEDULE_OFFLOAD_H
#define TRAINC_SCHEDULE_OFFLOAD_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/Offload/Offload.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_OFFLOAD_H
