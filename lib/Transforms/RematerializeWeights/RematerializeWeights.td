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

    ```mlir
    %w = train.dequantize %codes, %table, %scales block 64 : ... -> tensor<8x16xf32>
    %y = train.matmul %x, %w transposed : ...
    %dx = train.matmul %dy, %w : ...
    // becomes
    %here = train.barrier %codes {train.place = 1 : i64} : tensor<64xi8>
    %w1 = train.dequantize %here, %table, %scales block 64 : ... -> tensor<8x16xf32>
    %y = train.matmul %x, %w1 transposed : ...
    %again = train.barrier %codes {train.place = 2 : i64} : tensor<64xi8>
    %w2 = train.dequantize %again, %table, %scales block 64 : ... -> tensor<8x16xf32>
    %dx = train.matmul %dy, %w2 : ...
    ```

    Remarks, of category `rematerialize-weights`: `Copied`, with the number of readers.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"onlyMarked", "only-marked", "bool", "false", "only where the model itself has weights of codes (train.quantized_weights of the module)">
  ];
}

#endif // TRAINC_TRANSFORMS_REMATERIALIZEWEIGHTS_TD
