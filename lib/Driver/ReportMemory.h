// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --report: how much memory a step will need.
#ifndef TRAINC_LIB_DRIVER_REPORTMEMORY_H
#define TRAINC_LIB_DRIVER_REPORTMEMORY_H

#include "lib/Driver/Outputs.h"
#include "trainc/Package/Interface.h"

namespace trainc {

/// Prints the report on a planned module, and writes it where the options name a file. `plain` is
/// the plan without recompute to compare with, or null. Returns an exit code.
int reportMemory(mlir::ModuleOp planned, mlir::ModuleOp plain, const PackageInterface &interface,
                 const CompileOptions &options, const Outputs &outputs, Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REPORTMEMORY_H
