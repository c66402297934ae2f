// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How legalization tells passes that the model computes with weights that are stored as codes.

#ifndef TRAINC_CONVERSION_QUANTIZEDWEIGHTS_H
#define TRAINC_CONVERSION_QUANTIZEDWEIGHTS_H

#include "llvm/ADT/StringRef.h"

namespace trainc {

/// A unit attribute of the module.
inline constexpr llvm::StringLiteral kQuantizedWeightsAttr = "train.quantized_weights";

} // namespace trainc

#endif // TRAINC_CONVERSION_QUANTIZEDWEIGHTS_H
