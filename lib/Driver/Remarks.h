// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes say of their decisions: as text for people, as JSON for tools.
#ifndef TRAINC_LIB_DRIVER_REMARKS_H
#define TRAINC_LIB_DRIVER_REMARKS_H

#include "lib/Driver/Log.h"
#include "mlir/IR/MLIRContext.h"

namespace trainc {

/// Writes every remark of the passes: with `explain` as text to standard error, and to `json`, if
/// it is not null, as an object a line.
void enableRemarks(mlir::MLIRContext &context, bool explain, llvm::raw_ostream *json, Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REMARKS_H
