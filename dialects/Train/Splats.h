// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors that are one number everywhere.
#ifndef TRAINC_DIALECTS_TRAIN_SPLATS_H
#define TRAINC_DIALECTS_TRAIN_SPLATS_H

#include "mlir/IR/Value.h"
#include <optional>

namespace trainc::train {

/// The one number that all elements of `value` are, where constants and ops that only repeat and
/// rearrange their elements say so. Booleans are 0 and 1.
std::optional<double> getSplatValue(mlir::Value value);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_SPLATS_H
