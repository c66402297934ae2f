// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `align-collectives`.
#ifndef TRAINC_SCHEDULE_ALIGNCOLLECTIVES_TD
#define TRAINC_SCHEDULE_ALIGNCOLLECTIVES_TD

include "mlir/Pass/PassBase.td"

def AlignCollectivesPass : Pass<"align-collectives", "::mlir::ModuleOp"> {
  let summary = "ranks that run different functions at once make the same calls to each other";
  let description = [{
    The sums of `@step` and of `@micro` are taken where their gradients are there, in the order in which they are, so that
    what gathers weights for the rest of the backward pass does not wait for them, nor they for it. Their variants take
    theirs in the same order, and `@absent_step` and `@absent`, of a rank that has no batch, in the same order among the
    gathers of weights, which they make for the others alone (`train.for_others`). So does a function with the gathers that
    only its variants have, or they with its: `recompute`, which gathers weights again, need not compute the same again in
    both. `form-kernels` keeps the order of the program. Runs behind everything that makes collectives.

    Does nothing to functions that no rank runs while others run another one (`train.in_step`).

    ```mlir
    func.func @micro(%g: tensor<4xf32> {train.role = "gradient", train.name = "w"}, %x: tensor<4xf32> {train.role = "input", train.name = "x"})
        -> (tensor<4xf32> {train.role = "update", train.updates = "gradient", train.name = "w"}, tensor<4xf32> {train.role = "output", train.name = "y"})
        attributes {train.in_step = "micro"} {
      %0 = train.tanh %x : tensor<4xf32>
      %1 = train.exp %x : tensor<4xf32>
      %2 = train.all_reduce %0 : (tensor<4xf32>) -> tensor<4xf32>
      %3 = train.add %g, %2 : tensor<4xf32>
      return %3, %1 : tensor<4xf32>, tensor<4xf32>
    }
    // becomes
    ...
      %0 = train.tanh %x : tensor<4xf32>
      %1 = train.all_reduce %0 : (tensor<4xf32>) -> tensor<4xf32>
      %2 = train.exp %x : tensor<4xf32>
      %3 = train.add %g, %1 : tensor<4xf32>
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // TRAINC_SCHEDULE_ALIGNCOLLECTIVES_TD
