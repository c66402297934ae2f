// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of several ranks.
#ifndef TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H
#define TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H

#include "dialects/Train/TrainDialect.h"

#include "dialects/Train/TrainCollectiveInterfaces.h.inc"

namespace trainc::train::detail {
/// Every element of a result may depend on all of all operands.
AxisMap collectiveAxisMap(mlir::Operation *op);
/// Of one rank among one: the results are the operands.
llvm::LogicalResult evaluateAlone(llvm::ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                  llvm::MutableArrayRef<HostTensor> results);
} // namespace trainc::train::detail

#define GET_OP_CLASSES
#include "dialects/Train/TrainCollectives.h.inc"

namespace trainc::train {
/// How many ranks a run has: a symbol of every run, which no input tells.
inline constexpr llvm::StringLiteral kWorldSymbol = "world";
DimAttr getWorld(mlir::MLIRContext *context);

/// The sums of these values over all ranks, which have one element type.
llvm::SmallVector<mlir::Value> buildAllReduce(mlir::OpBuilder &builder, mlir::Location loc,
                                              mlir::ValueRange values);
} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H
