// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Casts to and from a 16-bit float type, placed where values are computed: ops that only move
// elements (reshape, transpose, slice, split) come to stand on the low side.
#ifndef TRAINC_TRANSFORMS_SUPPORT_LOWPRECISIONCASTS_H
#define TRAINC_TRANSFORMS_SUPPORT_LOWPRECISIONCASTS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

class LowPrecisionCasts {
public:
  LowPrecisionCasts(mlir::OpBuilder &builder, mlir::FloatType low) : builder(builder), low(low) {}

  /// An f32 value in the low type, for one use by `user`. Every call makes a cast of its own, so
  /// that the gradients of several uses are summed in f32.
  mlir::Value toLow(mlir::Value value, mlir::Operation *user);
  /// Replaces an f32 value by `lowered`, which is of the low type. Elements of it that are taken by
  /// their indices stay in that type, too.
  void fromLow(mlir::Value value, mlir::Value lowered);

private:
  mlir::Operation *cloneLow(mlir::Operation *op, mlir::Value operand);

  mlir::OpBuilder &builder;
  mlir::FloatType low;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> lowParts;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_LOWPRECISIONCASTS_H
