// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --no-decay and --lr-scale.
#ifndef TRAINC_LIB_DRIVER_SCALEPARAMETERS_H
#define TRAINC_LIB_DRIVER_SCALEPARAMETERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Driver.h"

namespace trainc {

/// Sets the factors of the learning rate and of the decay on the trained parameters of @forward.
void scaleParameters(mlir::func::FuncOp forward, const CompileOptions &options);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_SCALEPARAMETERS_H
