// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which pass checks which phase.

#include "lib/Phases/Phases.h"

using namespace trainc;

std::unique_ptr<mlir::Pass> trainc::createVerifyPass(llvm::StringRef phase) {
  if (phase == "import")
    return createVerifyImportPass();
  if (phase == "legalize")
    return createVerifyLegalizePass();
  if (phase == "graph")
    return createVerifyGraphPass();
  if (phase == "schedule")
    return createVerifySchedulePass();
  assert(phase == "codegen" && "a phase that leaves IR behind");
  return createVerifyCodegenPass();
}
