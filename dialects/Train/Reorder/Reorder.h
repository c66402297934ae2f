// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Orders of axes (ReorderOpInterface), and what is asked of them.
#ifndef TRAINC_DIALECTS_TRAIN_REORDER_REORDER_H
#define TRAINC_DIALECTS_TRAIN_REORDER_REORDER_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc::train {

/// Orders of the axes of all operands and results: axis i of the reordered value is axis order[i].
struct AxisOrders {
  llvm::SmallVector<llvm::SmallVector<int64_t>> operands, results;
};

/// 0, 1, ... below the rank.
llvm::SmallVector<int64_t> identityOrder(int64_t rank);
/// Where each axis is in an order.
llvm::SmallVector<int64_t> inverseOrder(llvm::ArrayRef<int64_t> order);
/// The order of a value whose axes are those of another one in the order `outer`, reordered by
/// `inner`: outer[inner[i]].
llvm::SmallVector<int64_t> composeOrders(llvm::ArrayRef<int64_t> outer,
                                         llvm::ArrayRef<int64_t> inner);
/// `dims` in an order.
llvm::SmallVector<DimAttr> inOrder(llvm::ArrayRef<DimAttr> dims, llvm::ArrayRef<int64_t> order);
/// The order without axes of one element: elements of values in orders for which it is the same lie
/// in the same places.
llvm::SmallVector<int64_t> memoryOrder(llvm::ArrayRef<DimAttr> dims, llvm::ArrayRef<int64_t> order);
/// The order of an op's result where it is its operand with the axes in another order, and nothing
/// else; none for null.
std::optional<llvm::SmallVector<int64_t>> getPermutation(mlir::Operation *op);

namespace detail {
/// Gives the ops that have it their ReorderOpInterface.
void attachReorderInterfaces(mlir::MLIRContext *context);
} // namespace detail
} // namespace trainc::train

#include "dialects/Train/TrainReorder.h.inc"

#endif // TRAINC_DIALECTS_TRAIN_REORDER_REORDER_H
