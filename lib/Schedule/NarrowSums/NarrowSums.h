// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `narrow-sums`.
#ifndef TRAINC_SCHEDULE_NARROWSUMS_H
#define TRAINC_SCHEDULE_NARROWSUMS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/NarrowSums/NarrowSums.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_NARROWSUMS_H
