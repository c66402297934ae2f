// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small launches of one kernel move up to the first of them, to become one.
#ifndef TRAINC_LIB_CONVERSION_EARLYLAUNCHES_H
#define TRAINC_LIB_CONVERSION_EARLYLAUNCHES_H

#include "lib/Conversion/TrainToPlan/GroupLaunches.h"

namespace trainc {

/// Before launches are grouped: what converts a weight for the matmuls of its layer is a launch for
/// each layer, of which a group takes the place of all. Legal where no command in between writes
/// what they read, or touches what they write. What they write is in memory for longer, so it is
/// moved only if it is small, or needed beyond the last of them in any case.
void moveLaunchesUp(plan::FunctionOp function, GroupedKernelSource grouped);

} // namespace trainc

#endif // TRAINC_LIB_CONVERSION_EARLYLAUNCHES_H
