// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What zeros in place of padding may make in a packed step: infinities and NaN that were not there.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_ZEROHAZARDS_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_ZEROHAZARDS_H

#include "lib/Transforms/EliminatePadding/Content.h"
#include "llvm/ADT/DenseMap.h"

namespace trainc {

/// Follows elements that are zeros in place of padding, or made of such, where it is not known
/// which ones they are: any element of a value may then be one.
class ZeroHazards {
public:
  /// What some elements of an operand hold; `changed`: it was something else in the plain step.
  struct Operand {
    Content content;
    bool changed = false;
  };

  /// Whether `operands` make a number that is not finite, which a gradient would take to tokens
  /// though the forward pass leaves it out.
  void check(mlir::Operation *op, llvm::ArrayRef<Operand> operands);
  /// Any element of the results may be made of these.
  void scatter(mlir::Operation *op, llvm::ArrayRef<Operand> operands);
  /// Scatters what was scattered in an operand. `operands`: what is known besides.
  void visit(mlir::Operation *op, llvm::SmallVector<Operand> operands);
  bool reaches(mlir::Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](mlir::Value v) { return scattered.contains(v); });
  }

  /// With the node; empty if there is none.
  const std::string &why() const { return reason; }

private:
  llvm::DenseMap<mlir::Value, Content> scattered;
  std::string reason;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_ZEROHAZARDS_H
