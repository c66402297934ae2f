// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notes of errors that are about values: where each of them comes from.
#ifndef TRAINC_DIALECTS_TRAIN_DIAGNOSTICS_NOTES_H
#define TRAINC_DIALECTS_TRAIN_DIAGNOSTICS_NOTES_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Value.h"

namespace trainc::train {

using NamedValue = std::pair<llvm::StringRef, mlir::Value>;

/// Adds a note for each of `values`, at its definition: "NAME is the result of train.exp, of type
/// T" or "NAME is argument 0 'mask' of @forward, of type T". Leaves out those that are null.
mlir::InFlightDiagnostic &&attachNotes(mlir::InFlightDiagnostic &&error,
                                       llvm::ArrayRef<NamedValue> values);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_DIAGNOSTICS_NOTES_H
