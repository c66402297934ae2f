// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan, its passes, and the code of the kernels that it launches.

#include "format/status.h"
#include "lib/Driver/Phases/Phases.h"
#include "lib/Driver/SaveKernels.h"
#include "trainc/Conversion/TrainToPlan/PlanModule.h"

using namespace mlir;
using namespace trainc;

/// Missing tools are for the user to install.
static int codeOfFailure(const codegen::KernelCodegen &codegen) {
  return codegen.lacksTools() ? ExitInput : ExitInternal;
}

static int makePlan(Compilation &c, KernelOrigins &origins) {
  PlanModuleOptions planning;
  planning.tf32 = c.options.graph.precision == Precision::TF32;
  // Origins are collected only where they are saved.
  if (!c.options.saveKernels.empty()) {
    planning.onKernel = [&](const codegen::KernelInfo &kernel, train::FusionOp fusion) {
      origins.addFusion(kernel, fusion);
    };
    planning.onGroup = [&](StringRef kernel, StringRef group) { origins.addGroup(kernel, group); };
  }
  TimingScope planTimer = c.timer.nest("plan");
  if (failed(planModule(*c.module, *c.codegen, planning)))
    return ExitInternal;
  planTimer.stop();
  // Of what is for the user to mend only sizes are missing by now.
  // Errors from here on are those of sizes that --offload needs.
  const unsigned errors = c.printer.errors();
  if (int code = runPlainPasses(c, "codegen"))
    return c.printer.errors() > errors && c.options.offload.enabled ? int(ExitInput) : code;
  return c.outputs.saveIR("5-kernels.mlir",
                          [&](raw_ostream &out) { c.codegen->getModule().print(out); });
}

/// --save-kernels
static int saveListings(Compilation &c, KernelOrigins &origins) {
  FailureOr<std::vector<codegen::KernelListing>> listings = c.codegen->emitListings();
  if (failed(listings))
    return codeOfFailure(*c.codegen);
  origins.addLaunches(*c.module);
  if (int code = c.outputs.checkWritten(
          saveKernels(*listings, origins, c.options.saveKernels, c.outputs.files())))
    return code;
  c.log.info() << "saved " << listings->size() << " kernels in " << c.options.saveKernels << "\n";
  return ExitSuccess;
}

int trainc::generateCode(Compilation &c) {
  // In the order in which the code generator needs them.
  KernelOrigins origins;
  if (int code = makePlan(c, origins))
    return code;
  if (!c.options.saveKernels.empty())
    if (int code = saveListings(c, origins))
      return code;
  TimingScope kernelTimer = c.timer.nest("kernels");
  FailureOr<std::vector<codegen::KernelObject>> objects = c.codegen->emitObjects();
  kernelTimer.stop();
  // Missing tools have been told.
  if (failed(objects))
    return codeOfFailure(*c.codegen);
  c.contents.kernels = std::move(*objects);
  for (const codegen::KernelObject &object : c.contents.kernels)
    c.log.debug() << object.name << ": " << object.bytes.size() << " bytes\n";
  // As the runtime compares them.
  for (const std::string &processor : c.options.processors)
    c.contents.targets.push_back((c.options.target->name() + ":" + processor).str());
  return ExitSuccess;
}
