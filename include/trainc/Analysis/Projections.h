// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls of activations with a parameter, found by what ops say of their axes: the modules that
// adapters are attached to and whose weights are quantized.
#ifndef TRAINC_ANALYSIS_PROJECTIONS_H
#define TRAINC_ANALYSIS_PROJECTIONS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// On the module: names of the parameters of low-rank branches whose matmuls stay apart.
inline constexpr llvm::StringLiteral kUnfusedBranchesAttr = "train.unfused_branches";

/// result[..., n] = sum over k of input[..., k] * weight[n, k] (or weight[k, n]).
struct Projection {
  mlir::Operation *op;
  mlir::OpOperand *input;
  /// The operand that is made of `weight` by casts and transposes, or is it.
  mlir::OpOperand *projected;
  mlir::BlockArgument weight;
  /// The parameter's axes n and k: 0 and 1, or 1 and 0.
  unsigned outAxis, inAxis;
  /// Nothing is projected any more of what is computed from the result: the model's head.
  bool isHead = false;

  train::DimAttr out() const { return train::getDim(weight, outAxis); }
  train::DimAttr in() const { return train::getDim(weight, inAxis); }
};

/// All of a function of one block, in order.
llvm::SmallVector<Projection> findProjections(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_ANALYSIS_PROJECTIONS_H
