// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --no-decay and --lr-scale: factors of parameters whose names match.
#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_SCALEPARAMETERS_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_SCALEPARAMETERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Sets the factors of the learning rate and of the decay on the trained parameters of @forward
/// whose names match: `noDecay` is an ECMAScript expression or "", `lrScale` are expressions with
/// factors, of which the first that matches counts. Returns the names of all that are trained.
std::vector<std::string> scaleParameters(mlir::func::FuncOp forward, llvm::StringRef noDecay,
                                         llvm::ArrayRef<std::pair<std::string, double>> lrScale);

} // namespace trainc

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_SCALEPARAMETERS_H
