// What lies around at the peak and stays on the device, with the reason. Every matmul takes 0.73 ms, every copy of
// 64 MiB 1.35 ms.
// RUN: trainc-opt %s --split-input-file --offload="sizes=n=16384" --remarks-filter=offload --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s
// RUN: trainc-opt %s --split-input-file --offload="sizes=n=16384" | FileCheck %s --check-prefix=IR

// Too small; read in between, so that neither pause is long enough; written again after a long one.
// CHECK-DAG: loc("small"): [Missed] Kept {{.*}} Reason="it is smaller than 1.00 MiB", Remark="the value of 'small' stays on the device"
// CHECK-DAG: loc("between"): [Missed] Kept {{.*}} Reason="its longest pause, 0.825 ms, is too short to move it: both ways take 2.704 ms"{{.*}}Suggestion="a larger batch has longer pauses; trainc --offload-rate tells of a faster link"
// CHECK-DAG: loc("again"): [Missed] Kept {{.*}} Reason="it is written again"
// IR-LABEL: plan.function @reasons
// IR-NOT: plan.copy
#dims = #train.dims<n, 1024>
plan.function @reasons {
  %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
  %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
  %small = plan.buffer arena : tensor<1024xf32> loc("small")
  %between = plan.buffer arena : tensor<?x1024xf32, #dims> loc("between")
  %again = plan.buffer arena : tensor<?x1024xf32, #dims> loc("again")
  %t = plan.buffer arena : tensor<?x1024xf32, #dims> loc("t")
  %u = plan.buffer arena : tensor<?x1024xf32, #dims> loc("u")
  %v = plan.buffer arena : tensor<?x1024xf32, #dims> loc("v")
  %peak = plan.buffer arena : tensor<?x4096xf32, #train.dims<n, 4096>> loc("peak")
  %g = plan.buffer arena : tensor<1024x1024xf32> loc("gradient")
  plan.launch "k"(%x, %small, %again) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%x, %between) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %x, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%between, %t, %u) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %u, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%t, %peak) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%between, %t, %u) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %u, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%between, %t, %u) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %u, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%between, %u, %v, %small, %again) inputs 4 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %again, %v, %g batch <> sizes <1024, 1024, n> strides <1, 1024>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "update"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
}

// -----

// Either of two could move, the link has no time for both: what was made first has the longer pause.
// CHECK: loc("early"): [Passed] Moved
// CHECK: loc("late"): [Missed] Kept {{.*}} Reason="the link is busy with others: a command would wait"
// IR-LABEL: plan.function @busy
// IR: plan.copy
// IR: plan.copy
// IR-NOT: plan.copy
#dims = #train.dims<n, 1024>
plan.function @busy {
  %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
  %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
  %early = plan.buffer arena : tensor<?x1024xf32, #dims> loc("early")
  %late = plan.buffer arena : tensor<?x1024xf32, #dims> loc("late")
  %t = plan.buffer arena : tensor<?x1024xf32, #dims> loc("t")
  %u = plan.buffer arena : tensor<?x1024xf32, #dims> loc("u")
  %v = plan.buffer arena : tensor<?x1024xf32, #dims> loc("v")
  %peak = plan.buffer arena : tensor<?x4096xf32, #train.dims<n, 4096>> loc("peak")
  %g = plan.buffer arena : tensor<1024x1024xf32> loc("gradient")
  plan.launch "k"(%x, %early) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.launch "k"(%x, %late) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %x, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %t, %w, %u batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %u, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%t, %u, %v, %peak) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %v, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %t, %w, %u batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%early, %late, %u, %v) inputs 3 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %u, %v, %g batch <> sizes <1024, 1024, n> strides <1, 1024>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "update"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
}

// -----

// With it away at one of two places that are as high, the other one is still there.
// CHECK: loc("kept"): [Missed] Kept {{.*}} Reason="the peak is as low without it"
// IR-LABEL: plan.function @useless
// IR-NOT: plan.copy
#dims = #train.dims<n, 1024>
plan.function @useless {
  %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
  %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
  %kept = plan.buffer arena : tensor<?x1024xf32, #dims> loc("kept")
  %t = plan.buffer arena : tensor<?x1024xf32, #dims> loc("t")
  %u = plan.buffer arena : tensor<?x1024xf32, #dims> loc("u")
  %v = plan.buffer arena : tensor<?x1024xf32, #dims> loc("v")
  %last = plan.buffer arena : tensor<?x1024xf32, #dims> loc("last")
  %g = plan.buffer arena : tensor<1024x1024xf32> loc("gradient")
  plan.launch "k"(%x, %kept) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %x, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %t, %w, %u batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%t, %u, %v) inputs 2 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %v, %w, %t batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %t, %w, %u batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k"(%kept, %u, %v, %last) inputs 3 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %u, %last, %g batch <> sizes <1024, 1024, n> strides <1, 1024>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "update"(%g, %w) inputs 1 dims <n> work <n> grain 16 scratch <0>
}
