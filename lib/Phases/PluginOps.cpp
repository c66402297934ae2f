// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of plug-ins, before any pass relies on what they say.

#include "dialects/Plan/CallEmitter.h"
#include "lib/Phases/Phases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The interface that an op of its role lacks, "" if none.
static StringRef lackedInterface(Operation *op) {
  // Passes take it apart.
  if (isa<DecomposableOpInterface>(op))
    return "";
  if (!isa<FusionOpInterface>(op))
    return "FusionOpInterface or DecomposableOpInterface";
  switch (getFusionRole(op)) {
  case FusionRole::None:
    return "DecomposableOpInterface, as its role in kernels is None";
  case FusionRole::Pointwise:
    return !isa<AxisMapOpInterface>(op)     ? "AxisMapOpInterface"
           : !isa<PointwiseOpInterface>(op) ? "PointwiseOpInterface"
                                            : "";
  case FusionRole::Access:
    return isa<ElementAccessOpInterface>(op) ? "" : "ElementAccessOpInterface";
  case FusionRole::Reduction:
    return !isa<AxisMapOpInterface>(op)     ? "AxisMapOpInterface"
           : !isa<ReductionOpInterface>(op) ? "ReductionOpInterface"
                                            : "";
  case FusionRole::View:
    return isa<StridedViewOpInterface>(op) ? "" : "StridedViewOpInterface";
  case FusionRole::Library:
    return isa<plan::LibraryCallOpInterface>(op) ? "" : "LibraryCallOpInterface";
  case FusionRole::Standalone:
    return isa<ScatterOpInterface, ScanOpInterface, ContractionOpInterface>(op)
               ? ""
               : "ScatterOpInterface or ScanOpInterface";
  }
  llvm_unreachable("all roles are handled");
}

/// Passes move, drop and repeat what is pure, as all ops of training graphs are.
static LogicalResult checkOp(Operation *op, const plugin::LoadedPlugin &plugin) {
  auto refuse = [&] {
    return op->emitError("the op '")
           << op->getName() << "' of the plug-in '" << plugin.name << "' ";
  };
  if (StringRef lacked = lackedInterface(op); !lacked.empty())
    return refuse() << "does not implement " << lacked;
  if (!isMemoryEffectFree(op) || op->getNumRegions())
    return refuse() << "has effects or a body; ops of training graphs have the trait Pure and none";
  return success();
}

/// Where the op comes from decides, not its name: handlers and passes of plug-ins may make any.
LogicalResult trainc::checkPluginOps(ModuleOp module) {
  if (plugin::getLoadedPlugins().empty())
    return success();
  bool isWrong = false;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front().without_terminator())
      if (const plugin::LoadedPlugin *plugin =
              plugin::findPluginOfDialect(op.getName().getDialectNamespace()))
        isWrong |= failed(checkOp(&op, *plugin));
  return failure(isWrong);
}
