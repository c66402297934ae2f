// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated code of one element: what the `scalar` formulas of the pointwise ops call. Everything
// works on scalars and on vectors alike and picks the arith op by the element type.
#ifndef TRAINC_DIALECTS_TRAIN_TRAINSCALAR_H
#define TRAINC_DIALECTS_TRAIN_TRAINSCALAR_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train::scalar {
using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;

/// A constant of the type of `like` (scalar or vector; float or integer).
Value constantLike(OpBuilder &b, Location loc, Value like, double value);
Value neg(OpBuilder &b, Location loc, Value x);
Value abs(OpBuilder &b, Location loc, Value x);
Value sign(OpBuilder &b, Location loc, Value x);
Value rsqrt(OpBuilder &b, Location loc, Value x);
Value reciprocal(OpBuilder &b, Location loc, Value x);
Value sigmoid(OpBuilder &b, Location loc, Value x);
Value relu(OpBuilder &b, Location loc, Value x);
Value gelu(OpBuilder &b, Location loc, Value x, bool tanh);
Value geluGrad(OpBuilder &b, Location loc, Value x, bool tanh);
Value add(OpBuilder &b, Location loc, Value x, Value y);
Value sub(OpBuilder &b, Location loc, Value x, Value y);
Value mul(OpBuilder &b, Location loc, Value x, Value y);
/// Integers truncate; x / 0 is 0, so that a padded lane never traps.
Value div(OpBuilder &b, Location loc, Value x, Value y);
Value max(OpBuilder &b, Location loc, Value x, Value y);
Value min(OpBuilder &b, Location loc, Value x, Value y);
Value pow(OpBuilder &b, Location loc, Value x, Value y);
Value mod(OpBuilder &b, Location loc, Value x, Value y);
Value logicalNot(OpBuilder &b, Location loc, Value x);
Value isNan(OpBuilder &b, Location loc, Value x);
Value isInf(OpBuilder &b, Location loc, Value x);
Value compare(OpBuilder &b, Location loc, ComparePredicate predicate, Value x, Value y);
/// To the element type of the tensor type `type`.
Value cast(OpBuilder &b, Location loc, Value x, mlir::Type type);
/// `value`, as a vector if the coordinates are.
Value constant(OpBuilder &b, Location loc, mlir::TypedAttr value, ValueRange index);
Value iota(OpBuilder &b, Location loc, Value coordinate, mlir::Type type);
Value rngKey(OpBuilder &b, Location loc, ValueRange words, int64_t node);
/// The same bits as the element type of the tensor type `type`.
Value bitcast(OpBuilder &b, Location loc, Value x, mlir::Type type);
Value randomBits(OpBuilder &b, Location loc, Value key, ValueRange index);
Value dropout(OpBuilder &b, Location loc, Value x, Value key, ValueRange index, double ratio);
/// `index` with the integers `coordinates` in place of the coordinates along `axes`.
llvm::SmallVector<Value> replaceCoordinates(OpBuilder &b, Location loc, ValueRange index,
                                            llvm::ArrayRef<int64_t> axes, ValueRange coordinates);

} // namespace trainc::train::scalar

#endif // TRAINC_DIALECTS_TRAIN_TRAINSCALAR_H
