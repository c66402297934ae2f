// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which layer of a model a parameter is, by the numbers in names and by where it is read.
#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_LAYERNUMBERS_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_LAYERNUMBERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

class LayerNumbers {
public:
  explicit LayerNumbers(mlir::func::FuncOp forward);

  /// How many layers are above that of an argument, the head being one: 0 of what is read behind
  /// all layers, one more than there are layers of what is read before them.
  unsigned below(unsigned argument) const { return depths[argument]; }

private:
  llvm::SmallVector<unsigned> depths;
};

} // namespace trainc

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_LAYERNUMBERS_H
