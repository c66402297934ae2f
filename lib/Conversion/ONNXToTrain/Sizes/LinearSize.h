// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of one symbol, from which its value can be told.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LINEARSIZE_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LINEARSIZE_H

#include "trainc/Conversion/ONNXToTrain/Bounds.h"

namespace trainc::legalize {

/// factor * symbol + offset; the factor is not 0.
struct LinearSize {
  mlir::StringAttr symbol;
  int64_t factor = 0, offset = 0;

  /// The values of the symbol with which the size is at least `least`, at most `most`; for factors
  /// above 0. Nothing where an end is beyond 64 bits.
  std::optional<int64_t> lowest(int64_t least) const;
  std::optional<int64_t> highest(int64_t most) const;
};
/// Nothing where the size is no such sum.
std::optional<LinearSize> asLinear(DimAttr size);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LINEARSIZE_H
