// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mean and variance by one pass over the input, and normalisation by them: what batch, group and
// instance normalisation share.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_OPERATORS_MOMENTS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_OPERATORS_MOMENTS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc::legalize {

/// f32 for the 16-bit types: sums over a batch or an image lose too much in 16 bits.
mlir::Type sumType(mlir::Type element);

/// Of the population, each of the shape of the input's other axes.
struct Moments {
  /// Near the mean; has no gradient, since nothing depends on it.
  mlir::Value shift;
  /// The mean's distance from `shift`.
  mlir::Value offset;
  mlir::Value variance;

  mlir::Value mean(train::TrainBuilder &tb) const { return tb.add(shift, offset); }
};

/// The moments of `x` over `axes`, from the differences from the mean of `sample`, which is a slice
/// of `x`. So both are sums of one pass over the input, and what their gradients sum up is one
/// pass, too (Chan, Golub, LeVeque: "Algorithms for computing the sample variance", 1983, shifted
/// data).
///
/// What cancels is bounded: no part of 1 / B of the elements has a mean that is further from that
/// of all than sqrt(B - 1) deviations, so the variance loses a factor of B of its precision at
/// most.
///
/// `together`: the mean of those results that belong together, in place of each; none: each is by
/// itself.
Moments momentsOf(train::TrainBuilder &tb, mlir::Value x, mlir::Value sample,
                  llvm::ArrayRef<int64_t> axes,
                  llvm::function_ref<mlir::Value(mlir::Value)> together = nullptr);

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, where `scale` and `bias` have the shape of
/// the moments, which are those over `axes`. Numbers that are constant along `axes` are put
/// together first: an element costs a subtraction, a product and a sum, and the gradient sums up
/// itself and its product with the difference from the shift, whatever it is for.
mlir::Value normalise(train::TrainBuilder &tb, mlir::Value x, const Moments &moments,
                      llvm::ArrayRef<int64_t> axes, double epsilon, mlir::Value scale,
                      mlir::Value bias);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_OPERATORS_MOMENTS_H
