// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `chunk-loss`.
#ifndef TRAINC_TRANSFORMS_CHUNKLOSS_TD
#define TRAINC_TRANSFORMS_CHUNKLOSS_TD

include "mlir/Pass/PassBase.td"

def ChunkLossPass : Pass<"chunk-loss", "::mlir::ModuleOp"> {
  let summary = "the loss of a large vocabulary is computed, with its gradient, for some rows at a time";
  let description = [{
    The numbers of a vocabulary projection are most of what a step with a large vocabulary holds: they wait from the forward
    to the backward pass. But the gradient of a mean loss for its rows depends on the labels only, and so can be taken at
    once (as in Liger's fused linear cross entropy, Hsu et al. 2024). The rows of a loss (`IgnoredRowsOpInterface`) are cut
    into chunks; for each, what is computed from the last projection on is computed for these rows, and differentiated to
    the projection's input and to what is trained inside (a low-rank branch); the next chunk then uses the same memory.
    `train.with_gradient` puts the gradients where autodiff finds them. Chunks have rows / `chunks` rows, but at least
    `min-rows`; of fewer rows the later chunks are empty.

    ```mlir
    // chunk-loss{chunks=2}
    func.func @forward(%x: tensor<2048x64xbf16>, %w: tensor<32000x64xbf16> {train.role = "parameter", train.name = "w", train.trainable},
                       %labels: tensor<2048xi64>) -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      %0 = train.matmul %x, %w transposed : tensor<2048x64xbf16>, tensor<32000x64xbf16> -> tensor<2048x32000xbf16>
      %loss, %lse = train.cross_entropy %0, %labels : (tensor<2048x32000xbf16>, tensor<2048xi64>) -> (tensor<2048xbf16>, tensor<2048xbf16>)
      %1 = train.cast %loss : tensor<2048xbf16> -> tensor<2048xf32>
      %2 = train.reduce sum %1 axes = [0] : tensor<2048xf32> -> tensor<f32>
      return %2 : tensor<f32>
    }
    // becomes
    ...
    %2 = train.slice %x starts = <0, 0> steps = [1, 1] : tensor<2048x64xbf16> -> tensor<1024x64xbf16>
    %3 = train.matmul %2, %w transposed : tensor<1024x64xbf16>, tensor<32000x64xbf16> -> tensor<1024x32000xbf16>
    ...
    %loss, %lse = train.cross_entropy %3, %4 : (tensor<1024x32000xbf16>, tensor<1024xi64>) -> (tensor<1024xbf16>, tensor<1024xbf16>)
    ...
    %22 = train.cast %21 : tensor<1024x32000xf32> -> tensor<1024x32000xbf16>
    %23 = train.matmul %22 transposed, %2 : tensor<1024x32000xbf16>, tensor<1024x64xbf16> -> tensor<32000x64xbf16>
    %24 = train.slice %x starts = <1024, 0> steps = [1, 1] : tensor<2048x64xbf16> -> tensor<1024x64xbf16>
    %25 = train.matmul %24, %w transposed : tensor<1024x64xbf16>, tensor<32000x64xbf16> -> tensor<1024x32000xbf16>
    ...
    %loss_0, %lse_1 = train.cross_entropy %25, %26 : (tensor<1024x32000xbf16>, tensor<1024xi64>) -> (tensor<1024xbf16>, tensor<1024xbf16>)
    ...
    %44 = train.cast %43 : tensor<1024x32000xf32> -> tensor<1024x32000xbf16>
    %45 = train.matmul %44 transposed, %24 : tensor<1024x32000xbf16>, tensor<1024x64xbf16> -> tensor<32000x64xbf16>
    ...
    %50 = train.with_gradient %48 of %w are %49 : (tensor<f32>, tensor<32000x64xbf16>, tensor<32000x64xbf16>) -> tensor<f32>
    ...
    ```

    Run it right before autodiff. Declines (remark `NotChunked`, with the reason) where a row has fewer than `min-classes`
    numbers, where the projection's weight is trained (its gradient would be made of parts, each as large), where rows
    are not independent, or where the gradient for the rows depends on the losses. Chunked losses are the remark `Chunked`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"chunks", "chunks", "int64_t", "8", "largest number of chunks">,
    Option<"minRows", "min-rows", "int64_t", "1024", "rows of a chunk at least">,
    Option<"minClasses", "min-classes", "int64_t", "16384", "numbers in a row from which chunks are worth it">,
  ];
}

#endif // TRAINC_TRANSFORMS_CHUNKLOSS_TD
