// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two kernels as one.
#ifndef TRAINC_SCHEDULE_JOINCOLUMNSUMS_JOINEDKERNEL_H
#define TRAINC_SCHEDULE_JOINCOLUMNSUMS_JOINEDKERNEL_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// Makes one kernel of `first` and `second`, where the builder stands: what both compute of the
/// same inputs is computed once, and what nobody reads is left out. `second` may read results of
/// `first`, which keep a buffer only where others read them. Erases both; returns the new one,
/// which has the results of `first` and then those of `second`.
train::FusionOp joinKernels(mlir::OpBuilder &builder, train::FusionOp first,
                            train::FusionOp second);

} // namespace trainc

#endif // TRAINC_SCHEDULE_JOINCOLUMNSUMS_JOINEDKERNEL_H
