// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that are 0 but for some rows, indices of one axis: gradients of a selection. What they are
// multiplied with and summed up with needs to be known at these rows only.
#ifndef TRAINC_TRANSFORMS_SUPPORT_ZEROROWS_H
#define TRAINC_TRANSFORMS_SUPPORT_ZEROROWS_H

#include "dialects/Train/TrainBuilder.h"
#include <optional>

namespace trainc {

/// Which rows of an axis, each at most once.
struct RowPlacement {
  /// Size of the axis, and number of the rows.
  train::DimAttr whole, count;
  /// A range begins here; null where indices say which rows.
  train::DimAttr start;
  /// Indices of rank 1, no two of which are the same; with `inverse` as train.select_rows takes
  /// them.
  mlir::Value index, inverse;

  bool operator==(const RowPlacement &other) const = default;
  /// These rows of another value.
  mlir::Value select(train::TrainBuilder &tb, mlir::Value value, int64_t axis) const;
  /// Whether `place` takes tensors of these types: only floats are added where indices say.
  bool canPlace(mlir::TypeRange types) const;
  /// `rows` where they belong, 0 elsewhere.
  mlir::Value place(train::TrainBuilder &tb, mlir::Value rows, int64_t axis) const;
};

/// The result of an op as rows that are placed along one axis.
struct PlacedRows {
  RowPlacement at;
  mlir::Value rows;
  int64_t axis;
};
std::optional<PlacedRows> matchPlacedRows(train::TrainBuilder &tb, mlir::Operation *op);

/// Whether some rows of a selection may be zeros of its own, which its operand does not have: what
/// makes the operand would make something else of zeros.
bool mayFillRows(train::SliceOpInterface selection);

/// Whether the results of `op`, which does not mix rows, are 0 in rows where the operands in
/// `zeros` are, whatever the others hold; and whether such rows add nothing where it sums them up.
bool keepsZeroRows(mlir::Operation *op, llvm::ArrayRef<bool> zeros);

/// Whether `dim` is 0 or more for all sizes that symbols may have where `op` is: at least 1, or
/// what their declaration says.
bool isNeverNegative(train::DimAttr dim, mlir::Operation *op);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_ZEROROWS_H
