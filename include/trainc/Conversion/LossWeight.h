// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// By what the losses of batches are weighted where they are put together.
#ifndef TRAINC_CONVERSION_LOSSWEIGHT_H
#define TRAINC_CONVERSION_LOSSWEIGHT_H

#include "llvm/ADT/StringRef.h"

namespace trainc::train {

/// On the loss of @eval, where it is a quotient of sums over rows (string): the name of the output
/// that is its denominator, or "" where that is a multiple of the number of rows.
inline constexpr llvm::StringLiteral kLossWeightAttr = "train.loss_weight";

/// The function that computes that output alone.
inline constexpr llvm::StringLiteral kLossWeightFunction = "loss_weight";

} // namespace trainc::train

#endif // TRAINC_CONVERSION_LOSSWEIGHT_H
