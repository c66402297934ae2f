// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An op computed for a selection of its rows only, rows being the coordinates along one axis or
// along several that one index runs over (sample and position of a token).
#ifndef TRAINC_TRANSFORMS_SUPPORT_RESTRICTLOOPS_H
#define TRAINC_TRANSFORMS_SUPPORT_RESTRICTLOOPS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// Selects along one axis of a value.
using SelectAxis =
    llvm::function_ref<mlir::Value(train::TrainBuilder &, mlir::Value, int64_t axis)>;

/// `value` selected along `axes`, taken as one axis in row-major order. The rank stays: the
/// selected rows lie along the axes with `sizes`; without, the last axis has them all and the
/// others have size 1.
mlir::Value selectAlong(train::TrainBuilder &tb, mlir::Value value, llvm::ArrayRef<int64_t> axes,
                        SelectAxis select, llvm::ArrayRef<train::DimAttr> sizes = {});

/// Where each of `loops` runs over an operand or result of this axis map entry; empty if none does;
/// nothing if only some do.
std::optional<llvm::SmallVector<int64_t>> findAxes(llvm::ArrayRef<int> entry,
                                                   llvm::ArrayRef<unsigned> loops);

/// Whether an op only gives the elements of its one operand another shape.
bool isView(mlir::Operation *op);

/// Why `op` cannot be computed for selected rows along `loops`; empty if it can. `isPrefix`: rows
/// 0, 1, ... are selected, whose coordinates stay.
std::string whyNotRestricted(train::AxisMapOpInterface op, llvm::ArrayRef<unsigned> loops,
                             bool isPrefix);

/// `op` for selected rows along `loops`, whose operands are the selected ones. `extent`: number of
/// rows; the other loops get size 1. `select` gives the coordinates to an op that needs them.
mlir::Operation *restrictLoops(train::TrainBuilder &tb, train::AxisMapOpInterface op,
                               mlir::ValueRange operands, llvm::ArrayRef<unsigned> loops,
                               train::DimAttr extent, bool isPrefix, SelectAxis select);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_RESTRICTLOOPS_H
