// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops whose results have the precision of their operands (CarriedTypeOpInterface).
#ifndef TRAINC_DIALECTS_TRAIN_PRECISION_PRECISION_H
#define TRAINC_DIALECTS_TRAIN_PRECISION_PRECISION_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train::detail {
/// Gives the ops that have it their CarriedTypeOpInterface.
void attachPrecisionInterfaces(mlir::MLIRContext *context);
} // namespace trainc::train::detail

#include "dialects/Train/TrainPrecision.h.inc"

#endif // TRAINC_DIALECTS_TRAIN_PRECISION_PRECISION_H
