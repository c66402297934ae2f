// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which optimizer a compilation attaches: what the command line says, else what the model's
// artifacts say, else the optimizer's defaults.
#ifndef TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H
#define TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H

#include "dialects/ONNX/ONNXDialect.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Import/Artifacts.h"
#include "llvm/Support/JSON.h"

namespace trainc {

/// Fills what the command line leaves open. Where it names an optimizer, that of the artifacts does
/// not count.
void chooseOptimizer(CompileOptions &options, const ArtifactOptimizer &artifacts);

/// A model with an algorithm of its own has no use for what configures ours: an error.
mlir::LogicalResult checkOptimizer(onnx::GraphOp graph, const CompileOptions &options);

/// As the package describes it; `steps`: that were made already.
llvm::json::Object describeOptimizer(const CompileOptions &options, int64_t steps);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H
