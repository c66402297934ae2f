// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that a mask selects (`scores[mask]`), whose number only the data knows.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc::legalize {

/// Gives the axes over selected rows a size, and makes every op that looks across them see only the
/// rows that are selected. Fails where an op does something else with them.
llvm::LogicalResult resolveSelections(mlir::func::FuncOp function,
                                      llvm::ArrayRef<Selection> selections);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H
