// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes say of their decisions: as text for people, as JSON for tools.
#ifndef TRAINC_LIB_DRIVER_REMARKS_H
#define TRAINC_LIB_DRIVER_REMARKS_H

#include "lib/Driver/Log.h"
#include "lib/Driver/RemarkSummary.h"
#include "mlir/IR/MLIRContext.h"

namespace trainc {

/// Takes every remark of the passes: writes it as text to standard error, if `all` is set, and to
/// `json`, if it is not null, as an object a line; and adds it to `summary`, if that is not null.
void enableRemarks(mlir::MLIRContext &context, bool all, llvm::raw_ostream *json,
                   RemarkSummary *summary, Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REMARKS_H
