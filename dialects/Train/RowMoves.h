// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that hand rows on as they are.
#ifndef TRAINC_DIALECTS_TRAIN_ROWMOVES_H
#define TRAINC_DIALECTS_TRAIN_ROWMOVES_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train {

/// A cast of floats that loses nothing; false for null.
bool isWidening(mlir::Operation *op);
/// The same elements in row-major order in another shape, and no value of its own; false for null.
bool isReshape(mlir::Operation *op);
/// A reshape that leaves the last axis alone; false for null.
bool keepsColumns(mlir::Operation *op);
/// Strides, in elements, of the same elements in the shape `to` where those of `operand` are of the
/// shape `from`; nullopt where no strides read them so.
std::optional<StridedLayout> reshapeLayout(llvm::ArrayRef<DimAttr> from, llvm::ArrayRef<DimAttr> to,
                                           const StridedLayout &operand);
/// Whether the op's result is made of two or more operands, one beside the other, and of nothing
/// else; false for null.
bool isJoin(mlir::Operation *op);
/// Where operand `number` of a join begins in its result, for each axis.
llvm::SmallVector<DimAttr> getJoinStarts(mlir::Operation *join, unsigned number);
/// Whether a join's operands have one shape and are all made by pointwise ops, and neighbours in
/// rows of them are neighbours in the result: a kernel that computes them at one position can store
/// each in its place. False for null.
bool isJoinOfComputedParts(mlir::Operation *op);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_ROWMOVES_H
