// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What computing values again costs by the model, for a step's sizes.
#ifndef TRAINC_LIB_SCHEDULE_MEMORY_RECOMPUTECOST_H
#define TRAINC_LIB_SCHEDULE_MEMORY_RECOMPUTECOST_H

#include "trainc/Analysis/CommandTime.h"
#include "trainc/Report/Sizes.h"
#include "trainc/Schedule/Recompute/Opportunities.h"

namespace trainc {

/// The number for these sizes; 0 where it is too large for one.
int64_t numberOf(train::DimAttr dim, const Sizes &sizes);

/// Seconds of an op alone.
double secondsOf(mlir::Operation *op, const Sizes &sizes, ProcessorSpeed speed);
/// Seconds of computing it again: one kernel, with all else that is in it.
double secondsOf(const Opportunity &opportunity, const Sizes &sizes, ProcessorSpeed speed);

} // namespace trainc

#endif // TRAINC_LIB_SCHEDULE_MEMORY_RECOMPUTECOST_H
