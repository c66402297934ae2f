// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a training step keeps from the forward pass for the backward pass, and what it takes to
// compute it again.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_OPPORTUNITIES_H
#define TRAINC_SCHEDULE_RECOMPUTE_OPPORTUNITIES_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace trainc {

/// The sides of a function with a loss.
class StepGraph {
public:
  explicit StepGraph(mlir::func::FuncOp function);

  /// Whether the function has a loss, and gradients or updates.
  static bool isStep(mlir::func::FuncOp function);

  mutable mlir::func::FuncOp function;
  /// Ops that the loss depends on, in program order.
  llvm::SmallVector<mlir::Operation *> forward;

  bool isForward(mlir::Operation *op) const { return forwardSet.contains(op); }
  /// Behind the forward pass. What stands beside it (running statistics) reads what it reads.
  bool isBackward(mlir::Operation *op) const {
    return !forward.empty() && !isForward(op) && forward.back()->isBeforeInBlock(op);
  }
  /// A parameter enters the value.
  bool isVaried(mlir::Value value) const { return varied.contains(value); }
  /// A parameter and a sample enter the value.
  bool isActivation(mlir::Value value) const {
    return varied.contains(value) && sampled.contains(value);
  }
  /// An argument that samples give.
  bool isInput(mlir::Value value) const {
    return !value.getDefiningOp() && sampled.contains(value);
  }
  /// Moves elements only: part of what reads it, never kept.
  static bool isFree(mlir::Operation *op);
  /// Makes a tensor of more bytes from one of fewer, element by element.
  static bool widens(mlir::Operation *op);
  /// A tensor that is normalized by statistics of a batch: what reads it makes it again from these
  /// and the one tensor that it is made of, so that it is never kept itself.
  bool isNormalized(mlir::Operation *op) const { return normalized.contains(op); }
  /// Part of what reads it, wherever that is.
  bool isNeverKept(mlir::Operation *op) const { return isFree(op) || isNormalized(op); }
  /// Whether the backward pass has the value anyway.
  bool isAvailable(mlir::Value value) const;
  /// Whether the backward pass reads the value, ops that move elements or normalize looked
  /// through.
  bool isKept(mlir::Value value) const;
  /// The results of a forward op that are kept.
  llvm::SmallVector<mlir::Value> keptResults(mlir::Operation *op) const;

private:
  /// Finds out whether one is, those above it being known.
  bool findNormalized(mlir::Operation *op) const;

  llvm::DenseSet<mlir::Operation *> forwardSet, normalized;
  llvm::DenseSet<mlir::Value> varied, sampled;
};

/// One value, or the results of one op, that can be computed again.
struct Opportunity {
  /// The op whose results are kept, and all that is computed again for it, in program order.
  mlir::Operation *op;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> values;
  /// Names of `ops`, each followed by '+'.
  std::string pattern;
  /// What is in memory for them.
  llvm::SmallVector<mlir::Value> held;
  /// Kept instead: the operands of widening casts.
  llvm::SmallVector<mlir::Value> smaller;

  bool isCompromise() const { return !smaller.empty(); }
  /// Bytes that are not kept any more.
  train::DimAttr savedBytes() const;
  /// Of what is computed again.
  train::DimAttr flops() const;
  /// Read and written by what is computed again, each op by itself.
  train::DimAttr bytesMoved() const;
  /// "batch x seq x 512 x ", of the first value.
  std::string shape() const;
};

/// Whether a sample enters a kept value.
bool isActivation(const StepGraph &graph, const Opportunity &opportunity);

/// The name of an op in patterns.
llvm::StringRef patternName(mlir::Operation *op);

/// In program order; of one op the full one first.
std::vector<Opportunity> findOpportunities(const StepGraph &graph);

/// `names` in program order above and with the kept op; nothing where they are not there.
llvm::SmallVector<mlir::Operation *> findChain(const StepGraph &graph, mlir::Operation *op,
                                               llvm::ArrayRef<std::string> names);

} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_OPPORTUNITIES_H
