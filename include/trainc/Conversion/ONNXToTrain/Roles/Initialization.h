// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model's own initialization (TrainingInfoProto.initialization): a graph without inputs that
// computes what initializers begin with. It runs while compiling.
#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_INITIALIZATION_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_INITIALIZATION_H

#include "trainc/Import/Import.h"

namespace trainc {

/// Runs `model.initialization` and gives the initializers of `module` that it is bound to these
/// values. Errors are diagnostics.
mlir::LogicalResult runInitialization(mlir::ModuleOp module, ImportedModel &model);

} // namespace trainc

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_INITIALIZATION_H
