// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-column-sums`.
#ifndef TRAINC_SCHEDULE_JOINCOLUMNSUMS_TD
#define TRAINC_SCHEDULE_JOINCOLUMNSUMS_TD

include "mlir/Pass/PassBase.td"

def JoinColumnSumsPass : Pass<"join-column-sums", "::mlir::func::FuncOp"> {
  let summary = "kernels of rows make the sums down the columns of what they read";
  let description = [{
    The gradient of a norm has two kernels that read the same tensors: one sums along rows, for the gradient of the norm's
    input, the other over all rows, for those of its weight and bias. So do those of a bias and of what was added it to.
    Behind `form-kernels`, for targets whose kernels of rows can do both (a GPU's: blocks keep sums of their rows, and a
    small second stage adds these up), the two become one kernel, which reads each tensor once.

    A kernel of sums over all axes but the last joins the kernel of rows of
    the same tensors with which it has most bytes in common: what both read, or what the one makes and the other reads.
    Both are done where the first of them stood, else where the second did. What one makes for the other alone is stored no more.

    Legal because kernels are pure, neither depends on the other through a third, and no update of what one of them reads
    lies between. The order in which rows are added up becomes another. Not done
    - where rows are shorter than `min-rows` in number (a single launch sums these up), or their length is not known, or
      above `max-length`, what threads hold;
    - where more of what is summed up would be read for the sums alone than is read anyway;
    - beyond `max-sums` sums of a kernel: each takes registers of every thread.
    A pair that could be joined but for what stands between is told by a remark (`KeptApart`).

    ```mlir
    func.func @f(%dy: tensor<4096x64xf32>, %w: tensor<64xf32>) -> (tensor<4096xf32>, tensor<64xf32>) {
      %0 = train.fusion(%dy) : (tensor<4096x64xf32>) -> tensor<4096xf32> {
      ^bb0(%a: tensor<4096x64xf32>):
        %2 = train.reduce sum %a axes = [1] : tensor<4096x64xf32> -> tensor<4096xf32>
        train.yield %2 : tensor<4096xf32>
      }
      %1 = train.fusion(%dy) : (tensor<4096x64xf32>) -> tensor<64xf32> {
      ^bb0(%a: tensor<4096x64xf32>):
        %2 = train.reduce sum %a axes = [0] : tensor<4096x64xf32> -> tensor<64xf32>
        train.yield %2 : tensor<64xf32>
      }
      return %0, %1 : tensor<4096xf32>, tensor<64xf32>
    }
    // becomes
    ...
      %0:2 = train.fusion(%dy) : (tensor<4096x64xf32>) -> (tensor<4096xf32>, tensor<64xf32>) {
      ^bb0(%a: tensor<4096x64xf32>):
        %1 = train.reduce sum %a axes = [1] : tensor<4096x64xf32> -> tensor<4096xf32>
        %2 = train.reduce sum %a axes = [0] : tensor<4096x64xf32> -> tensor<64xf32>
        train.yield %1, %2 : tensor<4096xf32>, tensor<64xf32>
      }
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"minRows", "min-rows", "int64_t", "1024", "fewest rows, where their number is known">,
    Option<"maxLength", "max-length", "int64_t", "4096", "longest row, in elements">,
    Option<"maxSums", "max-sums", "unsigned", "4", "sums down the columns of one kernel">,
  ];
}

#endif // TRAINC_SCHEDULE_JOINCOLUMNSUMS_TD
