// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `recompute`.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_TD
#define TRAINC_SCHEDULE_RECOMPUTE_TD

include "mlir/Pass/PassBase.td"

def RecomputePass : Pass<"recompute", "::mlir::ModuleOp"> {
  let summary = "computes values of the forward pass again in the backward pass instead of keeping them";
  let description = [{
    Works on functions with a loss and gradients or updates. An op of the forward pass (what the loss depends on) whose
    result the backward pass reads keeps that result alive; an *opportunity* is such an op with what is above it, up to
    values that the backward pass has anyway: parameters, inputs, scalars, what no parameter enters, and other kept
    values. Ops that only move elements are followed through and count for nothing. `config` says which are taken:
    - `PATTERN:TYPE:COUNT,...`: a pattern names the ops of an opportunity in program order, each followed by `+`
      (`add+gelu+`). Type 1 computes it again; type 2 also stops at a widening cast, whose smaller operand is kept
      instead; 0 leaves it alone. COUNT is how many, in program order, -1 for all. The last entry of a pattern counts.
    - `level:1`: all within layers; what is kept is each layer's input. Layers are the repeated parts between places
      where one tensor is all that is passed on. `level:2`: type 2 also where a value is kept.
    A pattern with `@` in front takes those inside layers only, none that a layer begins or ends with.

    What is rematerialized is a copy of the ops in front of their first reader in the backward pass. It reads kept
    values through `train.barrier`, so that neither CSE nor the forming of kernels undoes it. Random numbers have
    their keys as operands: copies draw the same. No bit of the loss or the gradients changes.

    Warns where a level finds no layers. Fails where a pattern is malformed (naming the position) or matches nothing
    (naming those that there are).

    ```mlir
    // recompute{config=gelu+:1:-1}
    func.func @step(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                    %x: tensor<4x8xf32> {train.role = "input", train.name = "x"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8x8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
      %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
      %1 = train.gelu %0 : tensor<4x8xf32>
      %loss = train.reduce sum %1 axes = [0, 1] : tensor<4x8xf32> -> tensor<f32>
      %2 = train.broadcast %loss axes = [] : tensor<f32> -> tensor<4x8xf32>
      %3 = train.mul %1, %2 : tensor<4x8xf32>
      %4 = train.matmul %x transposed, %3 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
      return %loss, %4 : tensor<f32>, tensor<8x8xf32>
    }
    // becomes
    func.func @step(%w: tensor<8x8xf32> {train.name = "w", train.role = "parameter", train.trainable},
        %x: tensor<4x8xf32> {train.name = "x", train.role = "input"})
        -> (tensor<f32> {train.name = "loss", train.role = "loss"},
            tensor<8x8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"}) {
      %0 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
      %1 = train.gelu %0 : tensor<4x8xf32>
      %2 = train.reduce sum %1 axes = [0, 1] : tensor<4x8xf32> -> tensor<f32>
      %3 = train.broadcast %2 axes = [] : tensor<f32> -> tensor<4x8xf32>
      %4 = train.barrier %0 : tensor<4x8xf32>
      %5 = train.gelu %4 : tensor<4x8xf32>
      %6 = train.mul %5, %3 : tensor<4x8xf32>
      %7 = train.matmul %x transposed, %6 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
      return %2, %7 : tensor<f32>, tensor<8x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"config", "config", "std::string", "\"level:1\"", "PATTERN:TYPE:COUNT,... or level:0|1|2">,
  ];
}

#endif // TRAINC_SCHEDULE_RECOMPUTE_TD
