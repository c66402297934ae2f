// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients of a selection, in graphs that hold their gradients: 0 but for the selected rows, and
// so is what is computed of them up to where other gradients are added.
#ifndef TRAINC_TRANSFORMS_HOISTSLICES_SINKZEROROWS_H
#define TRAINC_TRANSFORMS_HOISTSLICES_SINKZEROROWS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Whether enough of an axis is left out by what is selected of it.
using IsShorter = llvm::function_ref<bool(train::DimAttr selected, train::DimAttr whole)>;

/// Computes ops for the rows that are not 0 only; what else they read is selected at these rows.
void sinkZeroRows(mlir::func::FuncOp function, IsShorter isShorter);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_HOISTSLICES_SINKZEROROWS_H
