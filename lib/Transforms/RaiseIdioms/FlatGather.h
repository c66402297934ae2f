// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers of rows by several indices as gathers by one: along the merged axes that they address,
// which other passes know as a selection.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_FLATGATHER_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_FLATGATHER_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// x[i[a, b], j[a, b]] as rows of x[i * size + j], put back to [a, b]. Null where single elements
/// are gathered, or from an argument: there is nothing that a selection could save.
mlir::Value flattenGather(train::GatherNdOp gather);
/// The same of indices of rank 2 or more along one axis.
mlir::Value flattenGather(train::GatherOp gather);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_FLATGATHER_H
