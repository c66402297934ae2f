// A value that the forward makes and only the backward reads again is on the host in between: a copy behind its maker, its
// memory free where the copy is expected to be done, a copy back into another buffer that comes in time.
// RUN: trainc-opt %s --offload="sizes=n=16384" | FileCheck %s
// What a round trip through text does not change: lifetimes. The first value takes 64 MiB in commands 0 to 3.
// RUN: trainc-opt %s --offload="sizes=n=16384" | trainc-test-opt --test-lifetimes="size=16384" 2>&1 >/dev/null | FileCheck %s --check-prefix=LIVE
// The forward and the backward are as they were.
// RUN: trainc-opt %s --offload="sizes=n=16384" | trainc-test-opt --test-lifetimes="loss=loss" 2>&1 >/dev/null | FileCheck %s --check-prefix=PHASES
// RUN: trainc-opt %s --offload="sizes=n=16384" --remarks-filter=offload --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARKS
// A second run changes nothing.
// RUN: trainc-opt %s --offload="sizes=n=16384" > %t.once
// RUN: trainc-opt %s --offload="sizes=n=16384" --offload="sizes=n=16384" | diff %t.once -

// CHECK-LABEL: plan.function @step
// CHECK: %[[W:.*]] = plan.buffer parameter "w"
// CHECK: %[[A:.*]] = plan.buffer arena : tensor<?x1024xf32, #train.dims<n, 1024>>
// CHECK-NEXT: %[[HOST:.*]] = plan.buffer host : tensor<?x1024xf32, #train.dims<n, 1024>>
// CHECK-NEXT: %[[BACK:.*]] = plan.buffer arena : tensor<?x1024xf32, #train.dims<n, 1024>>
// CHECK-NEXT: %[[B:.*]] = plan.buffer arena
// CHECK: plan.launch "k"(%{{.*}}, %[[A]])
// CHECK-NEXT: plan.copy %[[A]] to %[[HOST]] bytes <4096*n>
// CHECK-NEXT: plan.gemm %[[A]], %[[W]], %[[B]]
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.release %[[A]]
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.launch "loss"
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.copy %[[HOST]] to %[[BACK]] bytes <4096*n>
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.gemm
// CHECK-NEXT: plan.gemm %[[BACK]],
// CHECK-NEXT: plan.launch "update"
// CHECK-NOT: plan.copy
// CHECK-LABEL: plan.function @eval
// CHECK-NOT: plan.copy

// LIVE: commands 0 to 3
// LIVE-NEXT: plan.buffer arena
// LIVE: commands 1 to 8
// LIVE-NEXT: plan.buffer host
// LIVE: commands 8 to 11
// LIVE-NEXT: plan.buffer arena

// PHASES: forward to 7, backward to 12 of 13 commands

// REMARKS: [Passed] Moved {{.*}} Function=step | Remark="the value of 'first' (64.00 MiB) is on the host between commands 3 and 7: 1.352 ms each way,
// REMARKS: [Passed] Peak {{.*}}"'step': 64.00 MiB on the host, activations and temporaries 192.00 MiB instead of 256.00 MiB at once; 2.704 ms of copies in
// REMARKS-NOT: Function=eval

#dims = #train.dims<n, 1024>
plan.function @step {
  %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
  %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
  %loss = plan.buffer output "loss" : tensor<f32>
  %a = plan.buffer arena : tensor<?x1024xf32, #dims> loc("first")
  %b = plan.buffer arena : tensor<?x1024xf32, #dims> loc("second")
  %c = plan.buffer arena : tensor<?x1024xf32, #dims> loc("third")
  %d = plan.buffer arena : tensor<?x1024xf32, #dims> loc("fourth")
  %e = plan.buffer arena : tensor<?x1024xf32, #dims> loc("fifth")
  %f = plan.buffer arena : tensor<?x1024xf32, #dims> loc("sixth")
  %h = plan.buffer arena : tensor<?x1024xf32, #dims> loc("seventh")
  %i = plan.buffer arena : tensor<?x1024xf32, #dims> loc("eighth")
  %g = plan.buffer arena : tensor<1024x1024xf32> loc("gradient")
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

// The same without an update trains nothing.
plan.function @eval {
  %x = plan.buffer input "x" : tensor<?x1024xf32, #dims>
  %w = plan.buffer parameter "w" : tensor<1024x1024xf32>
  %a = plan.buffer arena : tensor<?x1024xf32, #dims>
  %b = plan.buffer arena : tensor<?x1024xf32, #dims>
  %c = plan.buffer arena : tensor<?x1024xf32, #dims>
  %d = plan.buffer arena : tensor<?x1024xf32, #dims>
  %o = plan.buffer output "y" : tensor<1024x1024xf32>
  plan.launch "k"(%x, %a) inputs 1 dims <n> work <n> grain 16 scratch <0>
  plan.gemm %a, %w, %b batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %b, %w, %c batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %c, %w, %d batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %d, %w, %c batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %c, %w, %d batch <> sizes <n, 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %a, %d, %o batch <> sizes <1024, 1024, n> strides <1, 1024>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32
}
