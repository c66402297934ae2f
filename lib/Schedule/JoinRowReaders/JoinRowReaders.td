// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-row-readers`.
#ifndef TRAINC_SCHEDULE_JOINROWREADERS_TD
#define TRAINC_SCHEDULE_JOINROWREADERS_TD

include "mlir/Pass/PassBase.td"

def JoinRowReadersPass : Pass<"join-row-readers", "::mlir::func::FuncOp"> {
  let summary = "a kernel that sums up a row goes on with what is made of that row, wherever in it";
  let description = [{
    Queries and keys are normalised and then rotated (Qwen3, Gemma 3): an element of the result is made of two of its row.
    `form-kernels` lets a kernel read what it makes itself only where it makes it, so that one kernel sums up the row, and another one
    reads the row once more for the rotation.

    Behind `form-kernels`, for targets whose kernels of rows hold a row in registers (a GPU's), an element-wise kernel joins the one
    whose sums along the same rows it reads, where both read a tensor of these rows. What is
    read elsewhere in the row is read again, out of the first cache. Legal because kernels are pure, and where every element is made of
    sums of its own row: all ops between a sum and the result keep each axis but the last.

    Not done where the two are further apart than `distance` (what is made early is kept longer), where what the reader needs
    stands between them, or where rows are longer than `max-length`, or of a length that is not known. A pair of which the reader looks at
    sums of other rows is told by a remark (`KeptApart`).

    ```mlir
    func.func @f(%x: tensor<64x16xf32>) -> tensor<64x16xf32> {
      %0 = train.fusion(%x) : (tensor<64x16xf32>) -> tensor<64xf32> {
      ^bb0(%a: tensor<64x16xf32>):
        %2 = train.reduce sum %a axes = [1] : tensor<64x16xf32> -> tensor<64xf32>
        train.yield %2 : tensor<64xf32>
      }
      %1 = train.fusion(%x, %0) : (tensor<64x16xf32>, tensor<64xf32>) -> tensor<64x16xf32> {
      ^bb0(%a: tensor<64x16xf32>, %s: tensor<64xf32>):
        %2 = train.broadcast %s axes = [0] : tensor<64xf32> -> tensor<64x16xf32>
        %3 = train.mul %a, %2 : tensor<64x16xf32>
        %4 = train.slice %3 starts = <0, 0> steps = [1, 1] : tensor<64x16xf32> -> tensor<64x8xf32>
        %5 = train.slice %3 starts = <0, 8> steps = [1, 1] : tensor<64x16xf32> -> tensor<64x8xf32>
        %6 = train.concat %5, %4 axis = 1 : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x16xf32>
        %7 = train.exp %6 : tensor<64x16xf32>
        train.yield %7 : tensor<64x16xf32>
      }
      return %1 : tensor<64x16xf32>
    }
    // becomes
    ...
      %0 = train.fusion(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32> {
      ^bb0(%a: tensor<64x16xf32>):
        %1 = train.reduce sum %a axes = [1] : tensor<64x16xf32> -> tensor<64xf32>
        %2 = train.broadcast %1 axes = [0] : tensor<64xf32> -> tensor<64x16xf32>
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"distance", "distance", "unsigned", "48", "ops that may stand between the two, at most">,
    Option<"maxLength", "max-length", "int64_t", "4096", "longest row, in elements">,
  ];
}

#endif // TRAINC_SCHEDULE_JOINROWREADERS_TD
