// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dropout as several operators have it: whether it is active, its result and its mask.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_DROPOUT_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_DROPOUT_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

struct DropoutForm {
  double ratio = 0.5;
  bool active = false;
};

/// Reads the inputs `ratio` and `training` of a dropout, or of its gradient, and the command line.
/// Nullopt with a reason.
std::optional<DropoutForm> dropoutForm(NodeContext &c, int64_t ratio, int64_t training);

/// `x` after dropout, and, if the node's output `maskOutput` is used, what was kept.
mlir::Value applyDropout(NodeContext &c, mlir::Value x, const DropoutForm &form,
                         int64_t maskOutput);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_DROPOUT_H
