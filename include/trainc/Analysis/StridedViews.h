// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops need no code because their result is read in place through other strides.
#ifndef TRAINC_ANALYSIS_STRIDEDVIEWS_H
#define TRAINC_ANALYSIS_STRIDEDVIEWS_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// Row-major layout of a tensor.
train::StridedLayout contiguousLayout(mlir::Type tensorType);
bool isContiguous(const train::StridedLayout &layout, mlir::Type tensorType);

/// The role that an op states, None where it states none.
train::FusionRole getFusionRole(mlir::Operation *op);

/// Whether every reader of `value` takes strides (library calls, and views read by library calls
/// only). `ignore` tells which users do not count, because they will read the op's operand
/// themselves.
bool acceptsStrides(mlir::Value value, const train::StridedLayout &layout,
                    llvm::function_ref<bool(mlir::Operation *)> ignore);

/// For a permutation of axes: the layout of the operand that makes the result row major, else
/// nothing.
std::optional<train::StridedLayout> layoutForContiguousResult(mlir::Operation *view);

/// Layout in which library calls and views read `value`: row major for anything that is computed,
/// unless a view of it is absorbed. `isStored`: views that are computed, too, since somebody cannot
/// read them in place.
std::optional<train::StridedLayout> getLayout(mlir::Value value,
                                              llvm::function_ref<bool(mlir::Operation *)> isStored);

/// The permutation of axes whose result the library call that makes `value` writes directly, row
/// major: all others that read `value` are library calls that take its layout then. Null if there
/// is none.
mlir::Operation *getAbsorbedView(mlir::Value value);
/// Whether `view` is that of its operand.
bool isAbsorbedByProducer(mlir::Operation *view);

/// A part of what joins several values in one buffer: where it lies in that.
struct JoinedPart {
  mlir::Operation *join;
  train::StridedLayout layout;
};
/// Whether `op` joins values along an axis, each of which its maker, a library call, can write in
/// its place of the row-major result, views looked through: no code is needed then.
bool isJoinedInPlace(mlir::Operation *op);
/// Where the library call that makes `value` writes it, if that is for an op that is joined in
/// place.
std::optional<JoinedPart> getJoinedPart(mlir::Value value);

} // namespace trainc

#endif // TRAINC_ANALYSIS_STRIDEDVIEWS_H
