// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known about the size symbols, and the comparisons of size expressions that follow from
// it.

#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_BOUNDS_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_BOUNDS_H

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/MapVector.h"
#include <optional>
#include <string>

namespace trainc::legalize {

using train::DimAttr;

/// All values x with low <= x <= high; an absent end is unbounded.
struct Interval {
  std::optional<int64_t> low, high;
};

/// A declared symbol: its range and the input's axis that gives its value.
struct SymbolInfo {
  int64_t min = 1;
  std::optional<int64_t> max;
  std::string input;
  int64_t axis = 0;
};

class Bounds {
public:
  /// Declared symbols, in order of declaration.
  llvm::MapVector<mlir::StringAttr, SymbolInfo> symbols;

  Interval interval(DimAttr dim) const;
  /// True if a <= b for all sizes (false also where that is unknown).
  bool atMost(DimAttr a, DimAttr b) const;
  /// Smaller and larger of the two, simplified where the order is known.
  DimAttr min(DimAttr a, DimAttr b) const;
  DimAttr max(DimAttr a, DimAttr b) const;
  /// Demands expr <= limit by bounding its only symbol; false if it is not linear in one symbol.
  bool demandAtMost(DimAttr expr, int64_t limit);
};

} // namespace trainc::legalize

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_BOUNDS_H
