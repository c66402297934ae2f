// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selections along an axis that is put together or cut up: what is selected of a part, and
// selections of selections.
#ifndef TRAINC_TRANSFORMS_SUPPORT_PARTSELECTIONS_H
#define TRAINC_TRANSFORMS_SUPPORT_PARTSELECTIONS_H

#include "dialects/Train/TrainBuilder.h"
#include <optional>

namespace trainc {

/// A range of an axis along which its operand was joined, cut or padded, taken of what was there
/// before: of the parts that it touches, of the whole. Null where the op is nothing like that.
mlir::Value selectFromParts(train::TrainBuilder &tb, mlir::Operation *selection);

/// Of an op whose result is a range of its operand and nothing else: which. Null may be given.
std::optional<train::Subrange> getCut(mlir::Operation *op);

/// Axes that a selection of ranges takes parts of; one, for other selections.
llvm::SmallVector<int64_t> getSlicedAxes(train::SliceOpInterface selection);
/// The same for one of several such axes only, the others left whole.
mlir::Value selectOneAxis(train::TrainBuilder &tb, train::SliceOpInterface selection, int64_t axis);
/// For the others, of what selectOneAxis gives.
mlir::Value selectOtherAxes(train::TrainBuilder &tb, train::SliceOpInterface selection,
                            mlir::Value value, int64_t axis);
/// A selection of a selection, ranges both, as one; null for others.
mlir::Value joinSelections(train::TrainBuilder &tb, train::SliceOpInterface selection);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_PARTSELECTIONS_H
