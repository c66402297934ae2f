// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers in double that the formulas of the pointwise ops (the `evaluate` code in the .td files)
// call. Written apart from the generated code on purpose: each is the other's test.
#ifndef TRAINC_DIALECTS_TRAIN_TRAINDETAIL_H
#define TRAINC_DIALECTS_TRAIN_TRAINDETAIL_H

#include "dialects/Train/Dims.h"

namespace trainc::train::detail {

/// x / y; truncates where the element type of `type` is an integer (x / 0 is then 0).
double divide(double x, double y, mlir::Type type);
/// The larger one; NaN if one is NaN.
double maximum(double x, double y);
/// x - floor(x / y) * y, with the sign of y (0 where y is 0 and both are integers is left to the
/// caller).
double floorMod(double x, double y);
/// 1 or 0; with a NaN only `ne` holds.
double compare(ComparePredicate predicate, double x, double y);
/// Conversion to the element type of `type`: to integers truncates, to i1 is x != 0. Floats keep
/// all bits of the double (the evaluator works in double whatever the type).
double castValue(double x, mlir::Type type);
/// Brings a computed value into the range of the element type: integers wrap around, booleans are 0
/// or 1, floats stay.
double wrapValue(double x, mlir::Type type);
/// Value of an IntegerAttr (i1: 0 or 1), FloatAttr or BoolAttr.
double attrValue(mlir::Attribute attr);
/// Derivative of gelu; `tanh`: of its tanh approximation.
double geluGrad(double x, bool tanh);
/// `operands`: seed, step, micro-batch, rank. Key of at most 53 bits.
double rngKey(llvm::ArrayRef<double> operands, int64_t node);
/// Gives the ops that have it their AffineOpInterface.
void attachAffineInterfaces(mlir::MLIRContext *context);
/// `index` with `coordinates` in place of the coordinates along `axes`.
llvm::SmallVector<int64_t> replaceCoordinates(llvm::ArrayRef<int64_t> index,
                                              llvm::ArrayRef<int64_t> axes,
                                              llvm::ArrayRef<double> coordinates);
/// The number whose 32 bits, in the element type `to`, are those of x in the element type `from`.
double bitcast(double x, mlir::Type from, mlir::Type to);
/// A word of 32 bits, signed.
double randomBits(double key, llvm::ArrayRef<int64_t> index);
/// x / (1 - ratio) or 0.
double dropout(double x, double key, llvm::ArrayRef<int64_t> index, double ratio);

} // namespace trainc::train::detail

#endif // TRAINC_DIALECTS_TRAIN_TRAINDETAIL_H
