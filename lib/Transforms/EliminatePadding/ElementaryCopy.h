// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy of a function in which composites are taken apart into elementary ops.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_ELEMENTARYCOPY_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_ELEMENTARYCOPY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace trainc {

/// Ops that say themselves which of their elements count for nothing (`getContest`) stay whole.
struct ElementaryCopy {
  explicit ElementaryCopy(mlir::func::FuncOp function);
  ~ElementaryCopy();
  ElementaryCopy(const ElementaryCopy &) = delete;
  ElementaryCopy &operator=(const ElementaryCopy &) = delete;

  mlir::func::FuncOp copy;
  /// The function's values that a value of the copy stands for.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 1>> originals;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_ELEMENTARYCOPY_H
