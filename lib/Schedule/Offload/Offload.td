// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `offload`.
#ifndef TRAINC_SCHEDULE_OFFLOAD_TD
#define TRAINC_SCHEDULE_OFFLOAD_TD

include "mlir/Pass/PassBase.td"

def OffloadPass : Pass<"offload", "::trainc::plan::FunctionOp"> {
  let summary = "keeps activations in the host's memory while nothing needs them";
  let description = [{
    Works on plan functions that change a parameter or an accumulator, for a GPU. A buffer of the arena that is written
    once and then not touched for long, as an activation between its last reader in the forward and its first one in
    the backward, is copied to pinned memory of the host when it has been written; what is behind the pause reads
    a new buffer that is copied back in time. The arena holds neither in between.

    Copies run beside other commands, one after the other. Where they begin and end is worked out by a model: commands
    one after the other by their FLOPs and bytes (`include/trainc/Analysis/CommandTime.h`), 15 % quicker than that, copies at `rate` and 10 us each. A
    buffer moves only if by this model no command ever waits: it is back when its reader begins, with all others that
    move. A copy back begins as late as that allows. `plan.release` marks where a copy to the host is expected to be
    done, and with it the end of the buffer's lifetime; a runtime orders copies by the bytes that they touch, so that a
    model that is wrong costs time and no bit.

    Buffers are taken as long as the most that the arena holds at once becomes less, those first that are in use there,
    in the order of bytes times the length of the pause; and left where they are again if that does as well. Legal
    because a copy is the same bytes. Declines buffers that are smaller than `minimum`, that something writes after the
    pause, whose pauses are shorter than the copies, for which the link is too busy or `limit` too small.

    ```mlir
    // plan.function(offload{sizes=n=16384})
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

    Remarks, of category `offload`: `Moved` with bytes and times, `Kept` with the reason for what lies around at the
    peak. Needs a value for every symbol.
  }];
  let options = [
    Option<"target", "target", "std::string", "", "whose memory and times count; \"\": the first with memory of its own">,
    ListOption<"sizes", "sizes", "std::string", "NAME=VALUE of the size symbols that times and bytes are told for">,
    Option<"limit", "limit", "int64_t", "-1", "bytes of pinned memory at most; -1: no limit">,
    Option<"rate", "rate", "double", "50", "of the link to the host, each way, in GB/s">,
    Option<"minimum", "minimum", "int64_t", "1 << 20", "bytes of the smallest buffer that is moved">,
  ];
}

#endif // TRAINC_SCHEDULE_OFFLOAD_TD
