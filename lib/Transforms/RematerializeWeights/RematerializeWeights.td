// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `rematerialize-weights`.
#ifndef TRAINC_TRANSFORMS_REMATERIALIZEWEIGHTS_TD
#define TRAINC_TRANSFORMS_REMATERIALIZEWEIGHTS_TD

include "mlir/Pass/PassBase.td"

def RematerializeWeightsPass : Pass<"rematerialize-weights", "::mlir::func::FuncOp"> {
  let summary = "what is made of stored weights, and is larger than they are, is made for each use";
  let description = [{
    A weight of 4 bits is read as numbers of 16 or 32 bits by the forward and by the backward pass. Kept in between, the
    numbers of all layers would be in memory at once; made for each reader, there are those of one at a time. So each
    reader of a value that depends on nothing but parameters that are not changed, and that has more bytes than these,
    gets a copy of the ops that make it right before itself, behind a `train.barrier` so that nothing merges or moves them.

    With `shards` that holds for what is made of a rank's shards of parameters, too, trained or not: these are gathered for
    each use. Readers without another such value's readers between them have one copy: the last layer's, in the forward and
    in the backward pass.

    ```mlir
    func.func @step(%codes: tensor<64xi8> {train.role = "parameter", train.name = "w"},
                    %scales: tensor<2xf32> {train.role = "parameter", train.name = "w.absmax"},
                    %x: tensor<4x16xf32> {train.role = "input", train.name = "x"},
                    %dy: tensor<4x8xf32> {train.role = "input", train.name = "dy"})
        -> (tensor<4x8xf32> {train.role = "output", train.name = "y"}, tensor<4x16xf32> {train.role = "output", train.name = "dx"}) {
      %table = train.constant dense<1.0> : tensor<16xf32>
      %w = train.dequantize %codes, %table, %scales block 64 : (tensor<64xi8>, tensor<16xf32>, tensor<2xf32>) -> tensor<8x16xf32>
      %y = train.matmul %x, %w transposed : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
      %dx = train.matmul %dy, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
      return %y, %dx : tensor<4x8xf32>, tensor<4x16xf32>
    }
    // becomes
    func.func @step(%codes: tensor<64xi8> {train.name = "w", train.role = "parameter"},
        %scales: tensor<2xf32> {train.name = "w.absmax", train.role = "parameter"},
        %x: tensor<4x16xf32> {train.name = "x", train.role = "input"},
        %dy: tensor<4x8xf32> {train.name = "dy", train.role = "input"})
        -> (tensor<4x8xf32> {train.name = "y", train.role = "output"},
            tensor<4x16xf32> {train.name = "dx", train.role = "output"}) {
      %0 = train.constant dense<1.000000e+00> : tensor<16xf32>
      %1 = train.barrier %codes {train.place = 2 : i64} : tensor<64xi8>
      %2 = train.barrier %scales {train.place = 2 : i64} : tensor<2xf32>
      %3 = train.dequantize %1, %0, %2 block 64 : (tensor<64xi8>, tensor<16xf32>, tensor<2xf32>) -> tensor<8x16xf32>
      %4 = train.matmul %x, %3 transposed : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
      %5 = train.barrier %codes {train.place = 1 : i64} : tensor<64xi8>
      %6 = train.barrier %scales {train.place = 1 : i64} : tensor<2xf32>
      %7 = train.dequantize %5, %0, %6 block 64 : (tensor<64xi8>, tensor<16xf32>, tensor<2xf32>) -> tensor<8x16xf32>
      %8 = train.matmul %dy, %7 : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
      return %4, %8 : tensor<4x8xf32>, tensor<4x16xf32>
    }
    ```

    Remarks, of category `rematerialize-weights`: `Copied`, with the number of readers, `Gathered`, with that of copies.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"onlyMarked", "only-marked", "bool", "false", "only where the model itself has weights of codes (train.quantized_weights of the module)">,
    Option<"shards", "shards", "bool", "false", "also what is made of a rank's shards of parameters">
  ];
}

#endif // TRAINC_TRANSFORMS_REMATERIALIZEWEIGHTS_TD
