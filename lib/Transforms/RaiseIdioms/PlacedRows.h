// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows among zeros, as exporters write the gradient of a selection.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_PLACEDROWS_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_PLACEDROWS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// select(iota == k, x, 0), x being repeated along that axis: x padded with zeros. Null for others.
mlir::Value padOfSelect(train::SelectOp select);
/// A sum into zeros at one constant index.
mlir::Value padOfScatter(train::ScatterAddOp scatter);
/// A sum into zeros of elements of which whole rows go to one place each: the sum of these rows, or
/// the rows padded with zeros.
mlir::Value placementOfScatter(train::ScatterElementsAddOp scatter);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_PLACEDROWS_H
