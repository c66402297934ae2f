// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which rows of a tensor are wanted and where they lie when they are packed: index tensors that
// train.select_rows takes, and the symbol that counts them.
#ifndef TRAINC_TRANSFORMS_SUPPORT_PACKEDROWS_H
#define TRAINC_TRANSFORMS_SUPPORT_PACKEDROWS_H

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/BuiltinOps.h"

namespace trainc {

/// All index tensors are i32 of rank 1.
struct PackedRows {
  /// [slots] The row of a slot; a slot that is left over repeats a row.
  mlir::Value rows;
  /// [slots] The same, -1 in slots that are left over.
  mlir::Value rowsOrNone;
  /// [rows] The slot of a row, -1 where it has none.
  mlir::Value slots;

  mlir::Value pack(train::TrainBuilder &tb, mlir::Value value, int64_t axis) const {
    return tb.selectRows(value, rows, slots, axis);
  }
  /// Zeros where a row has no slot.
  mlir::Value unpack(train::TrainBuilder &tb, mlir::Value value, int64_t axis) const {
    return tb.selectRows(value, slots, rowsOrNone, axis);
  }
};

/// Makes the index tensors of the rows where `wanted` (i1, rank 1) holds. `slots` is the number of
/// slots; at run time, more rows than that are an error.
PackedRows buildPackedRows(train::TrainBuilder &tb, mlir::Value wanted, train::DimAttr slots);
/// Of each row its slot, of `count` there are, or -1; no two rows have one slot.
PackedRows placeRows(train::TrainBuilder &tb, mlir::Value slots, train::DimAttr count);

/// The symbol that counts the elements of an input which differ from `value`, or what of them
/// `counts` says.
std::optional<train::DimAttr> findCountSymbol(mlir::ModuleOp module, mlir::StringRef input,
                                              int64_t value, train::CountKind counts);

/// The same, declared where it is not yet.
train::DimAttr getCountSymbol(mlir::ModuleOp module, mlir::StringRef input, int64_t value,
                              int64_t bucket, train::CountKind counts = train::CountKind::elements);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_PACKEDROWS_H
