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

/// How large a symbol may be: factor * n + offset, for whole n from 0 on.
struct SizeForm {
  int64_t factor = 1, offset = 0;
  /// Why.
  std::string reason;
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
  /// Demands expr <= limit by bounding its only symbol; false if it is not linear in one symbol, or
  /// in the floor of such a size.
  bool demandAtMost(DimAttr expr, int64_t limit);
  /// Demands a == b by a form of a symbol that makes them equal, as that of an image of which
  /// halves are doubled: sizes are those of the inputs, so it holds in the next run over the graph.
  /// False if there is none. `reason` is told to the user.
  bool demandEqual(DimAttr a, DimAttr b, const std::string &reason);

  /// What was demanded, by symbol.
  llvm::MapVector<mlir::StringAttr, SizeForm> forms;
};

} // namespace trainc::legalize

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_BOUNDS_H
