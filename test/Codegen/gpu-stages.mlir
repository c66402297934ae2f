// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of GPU kernels: stages, blocks, the temporary buffer, and what is said about them.
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda" --verify-diagnostics
// RUN: trainc-test-opt %s --split-input-file --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s

// Few long rows are split over blocks.
// CHECK-LABEL: .entry kernel_0_split_pass0(
// CHECK: ld.global.nc.v4.b32
// CHECK: shfl.sync.bfly.b32
// CHECK-LABEL: .entry kernel_0_split_totals0(
// CHECK: shfl.sync.bfly.b32
// CHECK-NOT: atom
// CHECK: ret;
func.func @split(%x: tensor<4x1048576xf32>) {
  // expected-remark @below {{kernel_0_split_pass0 work 512 grain 256}}
  %0 = train.fusion(%x) : (tensor<4x1048576xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x1048576xf32>):
    %1 = train.reduce sum %a axes = [1] : tensor<4x1048576xf32> -> tensor<4xf32>
    train.yield %1 : tensor<4xf32>
  }
  return
}

// -----

// Sums over all elements are one kernel for every shape. What is left behind whole rounds of loads is one more, with as many of them.
// CHECK-LABEL: .entry kernel_0_total_pass0(
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK: ld.global.nc.b16
// CHECK: shfl.sync.bfly.b32
// CHECK-LABEL: .entry kernel_0_total_totals0(
// CHECK-NOT: atom
// CHECK-NOT: .entry
// CHECK: ret;
func.func @totals(%x: tensor<1152x384xbf16>, %y: tensor<16x1024xbf16>) {
  // expected-remark @below {{kernel_0_total_totals0 work 1 grain 256}}
  %0 = train.fusion(%x) : (tensor<1152x384xbf16>) -> tensor<f32> {
  ^bb0(%a: tensor<1152x384xbf16>):
    %1 = train.cast %a : tensor<1152x384xbf16> -> tensor<1152x384xf32>
    %2 = train.slice %1 starts = <384, 0> steps = [1, 1] : tensor<1152x384xf32> -> tensor<384x384xf32>
    %3 = train.mul %2, %2 : tensor<384x384xf32>
    %4 = train.reduce sum %3 axes = [0, 1] : tensor<384x384xf32> -> tensor<f32>
    train.yield %4 : tensor<f32>
  }
  // expected-remark @below {{kernel_0_total_totals0 work 0 grain 256}}
  %5 = train.fusion(%y) : (tensor<16x1024xbf16>) -> tensor<f32> {
  ^bb0(%a: tensor<16x1024xbf16>):
    %1 = train.pad %a value = 0.0 : bf16 low = <0, 0> : tensor<16x1024xbf16> -> tensor<10x1024xbf16>
    %2 = train.cast %1 : tensor<10x1024xbf16> -> tensor<10x1024xf32>
    %3 = train.mul %2, %2 : tensor<10x1024xf32>
    %4 = train.reduce sum %3 axes = [0, 1] : tensor<10x1024xf32> -> tensor<f32>
    train.yield %4 : tensor<f32>
  }
  return
}

// -----

// Rows of an embedding's gradient: sorted, merged, summed, joined. Nothing is added atomically.
// CHECK-LABEL: .entry kernel_0_scatter_sort(
// CHECK-LABEL: .entry kernel_0_scatter_group(
// CHECK-LABEL: .entry kernel_0_scatter_merge(
// CHECK-LABEL: .entry kernel_0_scatter_sum(
// CHECK: ld.global.nc.v4.b32
// CHECK-LABEL: .entry kernel_0_scatter_join(
// CHECK: st.global.v4.b32
// CHECK-NOT: atom.global.add
// CHECK: ret;
func.func @scatter(%i: tensor<?xi64, #train.dims<n>>, %u: tensor<?x384xf32, #train.dims<n, 384>>) {
  // expected-remark @below {{kernel_0_scatter_sort}}
  %0 = train.fusion(%i, %u) : (tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>>) -> tensor<100x384xf32> {
  ^bb0(%a: tensor<?xi64, #train.dims<n>>, %b: tensor<?x384xf32, #train.dims<n, 384>>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>> -> tensor<100x384xf32>
    train.yield %1 : tensor<100x384xf32>
  }
  return
}

// -----

// Up to 32 chunks are merged at once.
// CHECK-LABEL: .entry kernel_0_scatter_sort(
// CHECK-NOT: kernel_0_scatter_group(
// CHECK-LABEL: .entry kernel_0_scatter_merge(
func.func @few(%i: tensor<8192xi64>, %u: tensor<8192x384xf32>) {
  // expected-remark @below {{kernel_0_scatter_sort}}
  %0 = train.fusion(%i, %u) : (tensor<8192xi64>, tensor<8192x384xf32>) -> tensor<100x384xf32> {
  ^bb0(%a: tensor<8192xi64>, %b: tensor<8192x384xf32>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<8192xi64>, tensor<8192x384xf32> -> tensor<100x384xf32>
    train.yield %1 : tensor<100x384xf32>
  }
  return
}

// -----

// The rows' sums are added to what is there: no table of zeros, and a last stage for rows without an update, which compares addresses
// first: where the result lies in the operand's place, these rows are what they were.
// CHECK-LABEL: .entry kernel_0_scatter_sort(
// CHECK-NOT: st.global.v4.b32
// CHECK-LABEL: .entry kernel_0_scatter_merge(
// CHECK-LABEL: .entry kernel_0_scatter_sum(
// CHECK-LABEL: .entry kernel_0_scatter_join(
// CHECK-LABEL: .entry kernel_0_scatter_rest(
// CHECK: setp.{{eq|ne}}.{{[bs]}}64
// CHECK: st.global.v4.b32
// CHECK-NOT: atom.global.add
// CHECK: ret;
func.func @scatter_into(%i: tensor<?xi64, #train.dims<n>>, %u: tensor<?x384xf32, #train.dims<n, 384>>, %x: tensor<100x384xf32>) {
  // expected-remark-re @below {{kernel_0_scatter_rest work 5 grain 256 scratch 0 {{.*}} in place [2->0]}}
  %0 = train.fusion(%i, %u, %x) : (tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>>, tensor<100x384xf32>) -> tensor<100x384xf32> {
  ^bb0(%a: tensor<?xi64, #train.dims<n>>, %b: tensor<?x384xf32, #train.dims<n, 384>>, %c: tensor<100x384xf32>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?x384xf32, #train.dims<n, 384>> -> tensor<100x384xf32>
    %2 = train.add %c, %1 : tensor<100x384xf32>
    train.yield %2 : tensor<100x384xf32>
  }
  return
}

// -----

// Through 16 bits as well; not where it would be another number.
// CHECK-LABEL: .entry kernel_0_scatter_rest(
// CHECK: setp.{{eq|ne}}.{{[bs]}}64
// CHECK: ret;
// CHECK-LABEL: .entry kernel_1_scatter_rest(
// CHECK-NOT: setp.{{eq|ne}}.{{[bs]}}64
// CHECK: ret;
func.func @scatter_kept(%i: tensor<8xi64>, %u: tensor<8x384xf32>, %x: tensor<100x384xbf16>) {
  // expected-remark-re @below {{kernel_0_scatter_rest {{.*}} in place [2->0]}}
  %0 = train.fusion(%i, %u, %x) : (tensor<8xi64>, tensor<8x384xf32>, tensor<100x384xbf16>) -> tensor<100x384xbf16> {
  ^bb0(%a: tensor<8xi64>, %b: tensor<8x384xf32>, %c: tensor<100x384xbf16>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<8xi64>, tensor<8x384xf32> -> tensor<100x384xf32>
    %2 = train.cast %1 : tensor<100x384xf32> -> tensor<100x384xbf16>
    %3 = train.cast %2 : tensor<100x384xbf16> -> tensor<100x384xf32>
    %4 = train.cast %c : tensor<100x384xbf16> -> tensor<100x384xf32>
    %5 = train.add %4, %3 : tensor<100x384xf32>
    %6 = train.cast %5 : tensor<100x384xf32> -> tensor<100x384xbf16>
    train.yield %6 : tensor<100x384xbf16>
  }
  // expected-remark-re @below {{kernel_1_scatter_rest {{.*}} in place [2->0]}}
  %7 = train.fusion(%i, %u, %x) : (tensor<8xi64>, tensor<8x384xf32>, tensor<100x384xbf16>) -> tensor<100x384xbf16> {
  ^bb0(%a: tensor<8xi64>, %b: tensor<8x384xf32>, %c: tensor<100x384xbf16>):
    %1 = train.scatter_add %a, %b axis = 0 : tensor<8xi64>, tensor<8x384xf32> -> tensor<100x384xf32>
    %2 = train.cast %c : tensor<100x384xbf16> -> tensor<100x384xf32>
    %3 = train.mul %2, %2 : tensor<100x384xf32>
    %4 = train.add %3, %1 : tensor<100x384xf32>
    %5 = train.cast %4 : tensor<100x384xf32> -> tensor<100x384xbf16>
    train.yield %5 : tensor<100x384xbf16>
  }
  return
}

// -----

// Parts of 1521 rows, as many as the GPU holds at once, would leave single rows behind rounds of 64: 1536 rows are whole rounds.
func.func @whole_rounds(%x: tensor<802816x96xbf16>) {
  // expected-remark @below {{kernel_0_column_pass0 work 523 grain 256}}
  %0 = train.fusion(%x) : (tensor<802816x96xbf16>) -> tensor<96xf32> {
  ^bb0(%p: tensor<802816x96xbf16>):
    %a = train.cast %p : tensor<802816x96xbf16> -> tensor<802816x96xf32>
    %1 = train.reduce sum %a axes = [0] : tensor<802816x96xf32> -> tensor<96xf32>
    train.yield %1 : tensor<96xf32>
  }
  return
}

// -----

// 528 rows in rounds of 64: 576 would be much longer, and the parts fewer.
func.func @single_rows(%x: tensor<8448x4096xf32>) {
  // expected-remark @below {{kernel_0_column_pass0 work 512 grain 256}}
  %0 = train.fusion(%x) : (tensor<8448x4096xf32>) -> tensor<4096xf32> {
  ^bb0(%p: tensor<8448x4096xf32>):
    %1 = train.reduce sum %p axes = [0] : tensor<8448x4096xf32> -> tensor<4096xf32>
    train.yield %1 : tensor<4096xf32>
  }
  return
}

// -----

// Updates that lie across the lines of a scatter are read by the block, 8 bytes of 4 lines a thread,
// and turned in shared memory; a warp has its line's side by side there.
// CHECK-LABEL: .entry kernel_0_scatter(
// CHECK: ld.global.nc.v4.b16
// CHECK-NOT: ld.global.nc.b16
// CHECK: bar.sync
// CHECK-COUNT-4: st.shared.b32
// CHECK: bar.sync
// CHECK-NOT: atom.global.add
// CHECK: ret;
func.func @scatter_across(%i: tensor<256x64xi32>, %u: tensor<6x64x256xbf16>) {
  // expected-remark @below {{kernel_0_scatter dims [] work 192 grain 256}}
  %0 = train.fusion(%i, %u) : (tensor<256x64xi32>, tensor<6x64x256xbf16>) -> tensor<6x256x72xbf16> {
  ^bb0(%a: tensor<256x64xi32>, %b: tensor<6x64x256xbf16>):
    %1 = train.broadcast %a axes = [1, 2] : tensor<256x64xi32> -> tensor<6x256x64xi32>
    %2 = train.transpose %b permutation = [0, 2, 1] : tensor<6x64x256xbf16> -> tensor<6x256x64xbf16>
    %3 = train.scatter_elements_add %1, %2 axis = 2 : tensor<6x256x64xi32>, tensor<6x256x64xbf16> -> tensor<6x256x72xbf16>
    train.yield %3 : tensor<6x256x72xbf16>
  }
  return
}

// -----

// Side by side with their line they are read by its warp.
// CHECK-LABEL: .entry kernel_0_scatter(
// CHECK-NOT: bar.sync
// CHECK: ret;
func.func @scatter_along(%i: tensor<256x64xi32>, %u: tensor<6x256x64xbf16>) {
  // expected-remark @below {{kernel_0_scatter dims [] work 192 grain 256}}
  %0 = train.fusion(%i, %u) : (tensor<256x64xi32>, tensor<6x256x64xbf16>) -> tensor<6x256x72xbf16> {
  ^bb0(%a: tensor<256x64xi32>, %b: tensor<6x256x64xbf16>):
    %1 = train.broadcast %a axes = [1, 2] : tensor<256x64xi32> -> tensor<6x256x64xi32>
    %3 = train.scatter_elements_add %1, %b axis = 2 : tensor<6x256x64xi32>, tensor<6x256x64xbf16> -> tensor<6x256x72xbf16>
    train.yield %3 : tensor<6x256x72xbf16>
  }
  return
}
