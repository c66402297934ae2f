// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `place-rows`.
#ifndef TRAINC_SCHEDULE_PLACEROWS_TD
#define TRAINC_SCHEDULE_PLACEROWS_TD

include "mlir/Pass/PassBase.td"

def PlaceRowsPass : Pass<"place-rows", "::mlir::func::FuncOp"> {
  let summary = "kernels store rows where they are read, instead of a second one that copies them there";
  let description = [{
    The gradient of a norm of heads (queries and keys of Qwen3 and Gemma 3) is made as attention has it, head by head, and
    read by a matmul token by token. `form-kernels` has no kernel with a reduction that stores anything but its own shape, so
    that another one copied the rows.

    Behind `form-kernels`, where a kernel does nothing but transpose what another one has made for it alone, and rows stay
    whole (the last axis keeps its place), the maker computes with its axes in the order in which its result is read. Ops
    of its body are made anew by `ReorderOpInterface`; inputs are read transposed, which is index arithmetic. Reductions
    keep the order in which they add up along rows.

    Declines where an op of the body has its axes in one order, where what is to be in another order is
    computed in the kernel, and where the kernel has another result with these axes, which is read as it is. A
    remark (`KeptApart`) says which.

    ```mlir
    func.func @f(%x: tensor<4x64x16xf32>) -> tensor<64x4x16xf32> {
      %0 = train.fusion(%x) : (tensor<4x64x16xf32>) -> tensor<4x64x16xf32> {
      ^bb0(%a: tensor<4x64x16xf32>):
        %2 = train.reduce sum %a axes = [2] : tensor<4x64x16xf32> -> tensor<4x64xf32>
        %3 = train.broadcast %2 axes = [0, 1] : tensor<4x64xf32> -> tensor<4x64x16xf32>
        %4 = train.mul %a, %3 : tensor<4x64x16xf32>
        train.yield %4 : tensor<4x64x16xf32>
      }
      %1 = train.fusion(%0) : (tensor<4x64x16xf32>) -> tensor<64x4x16xf32> {
      ^bb0(%a: tensor<4x64x16xf32>):
        %2 = train.transpose %a permutation = [1, 0, 2] : tensor<4x64x16xf32> -> tensor<64x4x16xf32>
        train.yield %2 : tensor<64x4x16xf32>
      }
      return %1 : tensor<64x4x16xf32>
    }
    // becomes
    ...
      %0 = train.fusion(%x) : (tensor<4x64x16xf32>) -> tensor<64x4x16xf32> {
      ^bb0(%a: tensor<4x64x16xf32>):
        %1 = train.transpose %a permutation = [1, 0, 2] : tensor<4x64x16xf32> -> tensor<64x4x16xf32>
        %2 = train.reduce sum %1 axes = [2] : tensor<64x4x16xf32> -> tensor<64x4xf32>
        %3 = train.broadcast %2 axes = [0, 1] : tensor<64x4xf32> -> tensor<64x4x16xf32>
        %4 = train.mul %1, %3 : tensor<64x4x16xf32>
        train.yield %4 : tensor<64x4x16xf32>
      }
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_SCHEDULE_PLACEROWS_TD
