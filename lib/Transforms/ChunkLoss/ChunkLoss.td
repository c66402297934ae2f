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
    %logits = train.matmul %x, %w transposed : tensor<2048x64xbf16>, tensor<32000x64xbf16> -> tensor<2048x32000xbf16>
    %loss, %lse = train.cross_entropy %logits, %labels : ...
    %sum = train.reduce sum %loss axes = [0] : tensor<2048xf32> -> tensor<f32>
    // becomes, with two chunks
    %x0 = train.slice %x starts = <0, 0> steps = [1, 1] : tensor<2048x64xbf16> -> tensor<1024x64xbf16>
    %logits0 = train.matmul %x0, %w transposed : ... -> tensor<1024x32000xbf16>
    %loss0, %lse0 = train.cross_entropy %logits0, %labels0 : ...
    %dlogits0 = ...
    %dx0 = train.matmul %dlogits0, %w : ... -> tensor<1024x64xbf16>
    // the same for the other rows
    %loss = train.concat %loss0, %loss1 axis = 0 : ...
    %dx = train.concat %dx0, %dx1 axis = 0 : ... -> tensor<2048x64xbf16>
    %sum = train.reduce sum %loss axes = [0] : ...
    %result = train.with_gradient %sum of %x are %dx : ...
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
