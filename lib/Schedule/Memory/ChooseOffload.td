// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-offload`.
#ifndef TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD
#define TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD

include "mlir/Pass/PassBase.td"

def ChooseOffloadPass : Pass<"choose-offload", "::mlir::ModuleOp"> {
  let summary = "runs offload for the largest sizes that a plan is made for";
  let description = [{
    The pass `offload` works out times and bytes for numbers. Here they are the largest values of the sizes (`max` of `train.symbol`), for counts
    the share `density` of what they count; where `choose-recompute` has chosen a batch, its size is that (`train.planned_sizes` of the module).

    Fails with an error where a size has no largest value.

    ```mlir
    // choose-offload
    train.symbol @n min 1 max 16384 input "x" axis 0
    #dims = #train.dims<n, 1024>
    plan.function @step {
      %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
      %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
      %loss = plan.buffer output "loss" : tensor<f32>
      %a = plan.buffer arena : tensor<?x1024xf32, #dims>
      %b = plan.buffer arena : tensor<?x1024xf32, #dims>
      %c = plan.buffer arena : tensor<?x1024xf32, #dims>
      %d = plan.buffer arena : tensor<?x1024xf32, #dims>
      %e = plan.buffer arena : tensor<?x1024xf32, #dims>
      %f = plan.buffer arena : tensor<?x1024xf32, #dims>
      %h = plan.buffer arena : tensor<?x1024xf32, #dims>
      %i = plan.buffer arena : tensor<?x1024xf32, #dims>
      %g = plan.buffer arena : tensor<1024x1024xf32>
      plan.launch "k"(%x, %a) inputs 1 dims <n> work <n> grain 16 scratch <0>
      plan.gemm %a, %w, %b batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %b, %w, %c batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %c, %w, %d batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %d, %w, %e batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.launch "loss"(%e, %loss) inputs 1 dims <n> work <n> grain 16 scratch <0>
      plan.gemm %d, %e, %f batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %f, %w, %h batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %h, %w, %i batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.gemm %a, %i, %g batch <> sizes <1024, 1024, n> strides <1, 1024>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
      plan.launch "update"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
    }
    // becomes
    ...
    %b0 = plan.buffer arena : tensor<?x1024xf32, #train.dims<n, 1024>>
    %host = plan.buffer host : tensor<?x1024xf32, #train.dims<n, 1024>>
    %back = plan.buffer arena : tensor<?x1024xf32, #train.dims<n, 1024>>
    ...
    plan.launch "k"(%x, %a) ...
    plan.copy %a to %host bytes <4096*n>
    ...
    plan.release %a
    ...
    plan.launch "loss"(%e, %loss) ...
    ...
    plan.copy %host to %back bytes <4096*n>
    ...
    plan.gemm %back, %i, %g ...
    plan.launch "update"(%g, %w) ...
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "", "the name of the target; \"\": the first with memory of its own">,
    Option<"density", "density", "double", "1", "share of the elements that counts count">,
    Option<"limit", "limit", "int64_t", "-1", "bytes of pinned memory at most; -1: no limit">,
    Option<"rate", "rate", "double", "50", "of the link to the host, each way, in GB/s">,
  ];
}

#endif // TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD
