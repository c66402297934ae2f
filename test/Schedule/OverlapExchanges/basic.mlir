// Collectives begin where their operands are made; what reads their results waits behind the begin of the next one.
// RUN: trainc-opt %s --overlap-exchanges | FileCheck %s

// CHECK-LABEL: plan.function @micro
// CHECK: plan.launch "a"(%{{.*}}, %[[A:.*]]) inputs
// CHECK-NEXT: plan.collective reduce_scatter %[[A]], %[[PA:.*]] elements
// CHECK-NEXT: plan.launch "b"(%{{.*}}, %[[B:.*]]) inputs
// CHECK-NEXT: plan.collective reduce_scatter %[[B]], %[[PB:.*]] elements
// CHECK-NEXT: plan.release %[[A]]
// CHECK-NEXT: plan.launch "add"(%[[PA]], %{{.*}}) inputs
// CHECK-NEXT: plan.launch "c"(
// CHECK-NEXT: plan.release %[[B]]
// CHECK-NEXT: plan.launch "add"(%[[PB]], %{{.*}}) inputs
// CHECK-NEXT: }
plan.function @micro {
  %w = plan.buffer parameter "w" : tensor<16xf32>
  %a = plan.buffer arena : tensor<16xf32>
  %b = plan.buffer arena : tensor<16xf32>
  %c = plan.buffer arena : tensor<16xf32>
  %pa = plan.buffer arena : tensor<8xf32>
  %pb = plan.buffer arena : tensor<8xf32>
  %ga = plan.buffer gradient "a" : tensor<8xf32>
  %gb = plan.buffer gradient "b" : tensor<8xf32>
  plan.launch "a"(%w, %a) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.launch "b"(%w, %b) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.collective reduce_scatter %a, %pa elements <16, 8> : f32
  plan.launch "add"(%pa, %ga) inputs 1 dims <> work <8> grain 8 scratch <0>
  plan.collective reduce_scatter %b, %pb elements <16, 8> : f32
  plan.launch "add"(%pb, %gb) inputs 1 dims <> work <8> grain 8 scratch <0>
  plan.launch "c"(%b, %c) inputs 1 dims <> work <16> grain 16 scratch <0>
}

// What is summed in place is neither read before the sum is there nor written over; what a moved command waits for, or
// writes, the next collective waits for, too.
// CHECK-LABEL: plan.function @update
// CHECK: plan.collective all_reduce %[[X:.*]] elements
// CHECK-NEXT: plan.launch "use"(%{{.*}}, %[[Y:.*]]) inputs
// CHECK-NEXT: plan.collective all_reduce %[[Y]] elements
// CHECK-NEXT: plan.launch "over"(%{{.*}}, %[[X]]) inputs
// CHECK-NEXT: plan.launch "other"(
// CHECK-NEXT: plan.launch "last"(%[[Y]], %{{.*}}) inputs
// CHECK-NEXT: }
plan.function @update {
  %w = plan.buffer parameter "w" : tensor<16xf32>
  %v = plan.buffer parameter "v" : tensor<16xf32>
  %x = plan.buffer gradient "w" : tensor<16xf32>
  %again = plan.buffer gradient "w" : tensor<16xf32>
  %y = plan.buffer arena : tensor<16xf32>
  plan.collective all_reduce %x elements <16> : f32
  plan.launch "use"(%again, %y) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.launch "over"(%w, %x) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.launch "other"(%w, %v) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.collective all_reduce %y elements <16> : f32
  plan.launch "last"(%y, %w) inputs 1 dims <> work <16> grain 16 scratch <0>
}

// What two collectives read is released once, behind the last of them.
// CHECK-LABEL: plan.function @absent
// CHECK: plan.launch "zeros"(%{{.*}}, %[[Z:.*]]) inputs
// CHECK-NEXT: plan.collective reduce_scatter %[[Z]], %[[PA:.*]] elements
// CHECK-NEXT: plan.collective reduce_scatter %[[Z]], %[[PB:.*]] elements
// CHECK-NEXT: plan.launch "add"(%[[PA]], %{{.*}}) inputs
// CHECK-NEXT: plan.release %[[Z]]
// CHECK-NEXT: plan.launch "add"(%[[PB]], %{{.*}}) inputs
// CHECK-NEXT: }
plan.function @absent {
  %w = plan.buffer parameter "w" : tensor<16xf32>
  %z = plan.buffer arena : tensor<16xf32>
  %pa = plan.buffer arena : tensor<8xf32>
  %pb = plan.buffer arena : tensor<8xf32>
  %ga = plan.buffer gradient "a" : tensor<8xf32>
  %gb = plan.buffer gradient "b" : tensor<8xf32>
  plan.launch "zeros"(%w, %z) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.collective reduce_scatter %z, %pa elements <16, 8> : f32
  plan.launch "add"(%pa, %ga) inputs 1 dims <> work <8> grain 8 scratch <0>
  plan.collective reduce_scatter %z, %pb elements <16, 8> : f32
  plan.launch "add"(%pb, %gb) inputs 1 dims <> work <8> grain 8 scratch <0>
}

// Without collectives nothing moves.
// CHECK-LABEL: plan.function @eval
// CHECK: plan.launch "second"
// CHECK-NEXT: plan.launch "first"
plan.function @eval {
  %w = plan.buffer parameter "w" : tensor<16xf32>
  %a = plan.buffer arena : tensor<16xf32>
  plan.launch "second"(%w, %a) inputs 1 dims <> work <16> grain 16 scratch <0>
  plan.launch "first"(%w, %a) inputs 1 dims <> work <16> grain 16 scratch <0>
}
