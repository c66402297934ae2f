// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows of attention: comparisons of how far two positions are apart.
#ifndef TRAINC_FORMULAS_WINDOWS_H
#define TRAINC_FORMULAS_WINDOWS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Whether the function asks anywhere whether two coordinates are within some distance of each
/// other. Their order alone is no such question.
bool hasWindow(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_FORMULAS_WINDOWS_H
