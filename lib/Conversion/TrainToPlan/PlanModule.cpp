// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion first, then launches are grouped, where the target has a form for it, and exchanges
// begin early.

#include "trainc/Conversion/TrainToPlan/PlanModule.h"
#include "lib/Conversion/TrainToPlan/EarlyLaunches.h"
#include "lib/Conversion/TrainToPlan/GroupLaunches.h"
#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "lib/Schedule/OverlapExchanges/OverlapExchanges.h"

using namespace mlir;
using namespace trainc;

/// Kernels are made as launches are emitted, and in their order: names are numbered by it.
LogicalResult trainc::planModule(ModuleOp module, codegen::KernelCodegen &codegen,
                                 const PlanModuleOptions &options) {
  auto source = [&](train::FusionOp fusion) {
    FailureOr<codegen::KernelInfo> kernel = codegen.add(fusion);
    if (succeeded(kernel) && options.onKernel)
      options.onKernel(*kernel, fusion);
    return kernel;
  };
  // Taken down first: each is replaced by a plan.function of the same name.
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions)
    if (failed(convertTrainToPlan(function, source, options.tf32)))
      return failure();
  auto grouped = [&](StringRef kernel) {
    std::string group = codegen.addGrouped(kernel);
    if (!group.empty() && options.onGroup)
      options.onGroup(kernel, group);
    return group;
  };
  for (auto function : module.getOps<plan::FunctionOp>()) {
    moveLaunchesUp(function, grouped);
    groupLaunches(function, grouped);
    overlapExchanges(function);
  }
  return success();
}
