// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-column-sums`.
#ifndef TRAINC_SCHEDULE_JOINCOLUMNSUMS_H
#define TRAINC_SCHEDULE_JOINCOLUMNSUMS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/JoinColumnSums/JoinColumnSums.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_JOINCOLUMNSUMS_H
