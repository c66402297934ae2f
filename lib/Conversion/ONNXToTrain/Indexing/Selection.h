// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that a mask selects (`scores[mask]`), whose number only the data knows.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc::legalize {

/// Whether a size is made of the number of rows that a selection has, its symbol.
bool mentions(DimAttr dim, DimAttr symbol);

/// Erases what nothing uses, with the selections of whose rows and of whose number of rows that
/// is true. Returns the sizes of those.
llvm::SmallVector<DimAttr> eraseUnusedSelections(mlir::func::FuncOp function,
                                                 std::vector<Selection> &selections,
                                                 llvm::function_ref<void()> removeUnused);

/// Gives the axes over selected rows a size, and makes every op that looks across them see only the
/// rows that are selected. Fails where an op does something else with them.
llvm::LogicalResult resolveSelections(mlir::func::FuncOp function,
                                      llvm::ArrayRef<Selection> selections);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_SELECTION_H
