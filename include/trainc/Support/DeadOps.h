// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rewrite leaves behind.
#ifndef TRAINC_SUPPORT_DEADOPS_H
#define TRAINC_SUPPORT_DEADOPS_H

#include "mlir/IR/Block.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

namespace trainc {

/// Erases the ops of a block whose results nobody uses, and then what only they used.
inline void eraseDeadOps(mlir::Block &block) {
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (mlir::isOpTriviallyDead(&op))
      op.erase();
}

} // namespace trainc

#endif // TRAINC_SUPPORT_DEADOPS_H
