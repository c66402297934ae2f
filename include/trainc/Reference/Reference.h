// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference evaluator: runs functions of the train dialect in double, one op after the other,
// through the ops' interfaces. The oracle of the tests and the arithmetic of constant folding; made
// to be plain.
#ifndef TRAINC_REFERENCE_REFERENCE_H
#define TRAINC_REFERENCE_REFERENCE_H

#include "dialects/Train/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc::reference {

using train::HostTensor;
using train::SymbolValues;
using HostTensors = llvm::SmallVector<HostTensor>;

/// A tensor of `shape` filled with `value`.
HostTensor makeTensor(llvm::ArrayRef<int64_t> shape, double value = 0);

/// Shape of a tensor type under given sizes.
mlir::FailureOr<llvm::SmallVector<int64_t>> evaluateShape(mlir::Type type,
                                                          const SymbolValues &symbols);

/// Learns symbols from the shape of a tensor of type `type`: a dim that is one symbol gives its
/// value. Then checks every dim that can be evaluated; fails where one disagrees or the ranks
/// differ.
mlir::LogicalResult bindSymbols(mlir::Type type, llvm::ArrayRef<int64_t> shape,
                                SymbolValues &symbols);

/// Whether evaluateOp can handle this op: it is pointwise, a reduction, has a reference evaluation
/// of its own, or is a body of such ops around which nothing else happens (train.fusion).
bool isEvaluable(mlir::Operation *op);

/// Evaluates one op. Failures are silent: an index out of range, an unknown symbol, an op that is
/// not evaluable.
mlir::FailureOr<HostTensors> evaluateOp(mlir::Operation *op, llvm::ArrayRef<HostTensor> operands,
                                        const SymbolValues &symbols);

/// Evaluates a block of ops for given block arguments: the operands of its terminator. Emits an
/// error at the op that failed.
mlir::FailureOr<HostTensors> evaluateBlock(mlir::Block &block, llvm::ArrayRef<HostTensor> arguments,
                                           const SymbolValues &symbols);

/// Evaluates a function of one block. Symbols that the arguments' shapes give need not be in
/// `symbols`. Errors are diagnostics: too few arguments, shapes that do not fit the types, an op
/// that failed.
mlir::FailureOr<HostTensors> evaluate(mlir::func::FuncOp function,
                                      llvm::ArrayRef<HostTensor> arguments,
                                      SymbolValues symbols = {});

/// A constant of `type` (static shape) holding the values, rounded to the element type; null where
/// a value is no longer exact (an integer of more than 53 bits).
mlir::DenseElementsAttr toAttribute(mlir::RankedTensorType type, const HostTensor &tensor);

} // namespace trainc::reference

#endif // TRAINC_REFERENCE_REFERENCE_H
