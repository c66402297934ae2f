// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options that name parameters by expressions: --no-decay and --lr-scale; and those that match
// none.
#ifndef TRAINC_LIB_DRIVER_SCALEPARAMETERS_H
#define TRAINC_LIB_DRIVER_SCALEPARAMETERS_H

#include "lib/Driver/Log.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Driver.h"

namespace trainc {

/// Sets the factors of the learning rate and of the decay on the trained parameters of @forward.
/// Warns of an expression that matches none of them.
void scaleParameters(mlir::func::FuncOp forward, const CompileOptions &options, Log &log);

/// A warning that the expression of an option matches none of the names that it could.
void warnOfIdle(const CompileOptions &options, Log &log, llvm::StringRef option,
                llvm::StringRef expression, const std::vector<std::string> &names);
/// The same for --freeze and --trainable.
void warnOfIdleChoice(const CompileOptions &options, Log &log, const LegalizeResult &legalized);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_SCALEPARAMETERS_H
