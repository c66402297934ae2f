// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `place-rows`.
#ifndef TRAINC_SCHEDULE_PLACEROWS_H
#define TRAINC_SCHEDULE_PLACEROWS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/PlaceRows/PlaceRows.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_PLACEROWS_H
