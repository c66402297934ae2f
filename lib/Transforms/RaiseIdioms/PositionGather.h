// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers at positions that are known: mask[sample, position] for all samples and positions is the
// mask itself, x[sample, last[sample]] is a selection.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_POSITIONGATHER_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_POSITIONGATHER_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// What `gather` gives as a view of its data, repeated along other axes; null where its indices are
/// not the row-major numbers of all rows. Exporters write masks so (GatherND with grids of
/// indices).
mlir::Value viewOfGather(train::GatherOp gather);
mlir::Value viewOfGather(train::GatherNdOp gather);

/// What `gather` gives as rows selected along the merged axes of samples and positions; null where
/// it does not take one position of each sample. Heads that read the last token are exported so.
mlir::Value rowsOfGather(train::GatherOp gather);
mlir::Value rowsOfGather(train::GatherNdOp gather);

/// The gradient of that: rows added into zeros at one position of each sample, as the same
/// selection led back. Null for others.
mlir::Value rowsOfScatter(train::ScatterElementsAddOp scatter);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_POSITIONGATHER_H
