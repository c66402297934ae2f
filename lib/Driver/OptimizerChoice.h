// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which optimizer a compilation attaches: what the command line says, else what the model's
// artifacts say, else the optimizer's defaults.
#ifndef TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H
#define TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H

#include "trainc/Artifacts.h"
#include "trainc/Driver.h"

namespace trainc {

/// Fills what the command line leaves open. Where it names an optimizer, that of the artifacts does
/// not count.
void chooseOptimizer(CompileOptions &options, const ArtifactOptimizer &artifacts);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIMIZERCHOICE_H
