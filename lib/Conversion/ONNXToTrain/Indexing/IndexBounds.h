// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Indices that cannot lie outside of their axis, so that no kernel has to look at them.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_INDEXBOUNDS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_INDEXBOUNDS_H

#include "trainc/Conversion/ONNXToTrain/Bounds.h"

namespace trainc::legalize {

/// Whether every element of the integers `x` is known to lie from -size to size - 1, as an index of
/// an axis may: positions of an axis, of an extreme, numbers that are clamped.
bool isIndexOf(const Bounds &bounds, mlir::Value x, DimAttr size);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_INDEXBOUNDS_H
