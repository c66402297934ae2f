// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The orders of axes in which an op can be computed, beside its own.

#ifndef TRAINC_TRAIN_REORDER_TD
#define TRAINC_TRAIN_REORDER_TD

include "mlir/IR/OpBase.td"

def ReorderOpInterface : OpInterface<"ReorderOpInterface"> {
  let cppNamespace = "::trainc::train";
  let description = [{
    The op can be computed with the axes of its operands and results in another order: what move-transposes moves
    transposes through. An order lists axes: axis i of the reordered value is axis order[i] of the value. Attached from
    outside of the ops (ReorderModels.cpp), to all pointwise ones and to those that are named there.
  }];
  let methods = [
    InterfaceMethod<[{
        The orders of all operands and results that go with that of one of them, `value` counted through operands, then
        results; none where the op cannot be computed so.
      }],
      "std::optional<::trainc::train::AxisOrders>", "getOrders",
      (ins "unsigned":$value, "::llvm::ArrayRef<int64_t>":$order)>,
    InterfaceMethod<"the results, in orders that getOrders gave, of operands in theirs",
      "::llvm::SmallVector<::mlir::Value>", "buildReordered",
      (ins "::trainc::train::TrainBuilder &":$tb, "::mlir::ValueRange":$operands,
           "const ::trainc::train::AxisOrders &":$orders)>,
  ];
}

#endif // TRAINC_TRAIN_REORDER_TD
