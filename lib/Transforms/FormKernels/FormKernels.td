// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-kernels`.
#ifndef TRAINC_TRANSFORMS_FORMKERNELS_TD
#define TRAINC_TRANSFORMS_FORMKERNELS_TD

include "mlir/Pass/PassBase.td"

def FormKernelsPass : Pass<"form-kernels", "::mlir::func::FuncOp"> {
  let summary = "groups ops into train.fusion, one kernel each, and orders them";
  let description = [{
    Works on roles (`FusionOpInterface`) after `decompose`. Pointwise ops join the kernel of a producer with
    the same iteration space, or with a reduction over it; reductions over the same axes of the same space
    share a kernel; access ops (broadcast, gather, ...) are index arithmetic inside their readers. A cheap
    value that another kernel needs is computed again there instead of being stored. Views and library calls
    stay outside; an access op that a library call can read through strides stays a view, one whose producer
    is a library call without another reader is written in place by that call.

    Legal because ops are pure and a kernel never depends on itself through another one. Declines (remark
    `KeptApart`) to join two kernels where that would happen, or where the kernel would exceed `max-ops`.

    ```mlir
    %0 = train.add %x, %y : tensor<8xf32>
    %1 = train.exp %0 : tensor<8xf32>
    // becomes
    %1 = train.fusion(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %0 = train.add %a, %b : tensor<8xf32>
      %e = train.exp %0 : tensor<8xf32>
      train.yield %e : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"maxOps", "max-ops", "unsigned", "96", "largest number of ops in a kernel">,
    Option<"recomputeCost", "recompute-cost", "unsigned", "6",
           "element cost (an add is 1) up to which a value is computed again instead of stored">,
  ];
}

#endif // TRAINC_TRANSFORMS_FORMKERNELS_TD
