// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --move-transposes --remarks-filter=move-transposes --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s
// RUN: trainc-opt %s --move-transposes | FileCheck %s --check-prefix=IR

!first = tensor<2x8x6x6xf32>
!last = tensor<2x6x6x8xf32>

// Between two orders that have to be, there is one transpose.
// CHECK: [Passed] Moved {{.*}} Function=once {{.*}}"transposes of 4608 bytes became such of 2304, each symbol taken as 256"
// CHECK: [Missed] Left {{.*}} Function=once {{.*}}"any other order would transpose more", Remark="train.add of node 'add_4' reads 2304 bytes of train.add of node 'add_3' transposed"
func.func @once(%x: !first, %p: !last) -> (!first, !last) {
  %0 = train.relu %x : !first
  %1 = train.exp %0 : !first
  %2 = train.transpose %1 permutation = [0, 2, 3, 1] : !first -> !last
  %3 = train.sin %0 : !first
  %4 = train.transpose %3 permutation = [0, 2, 3, 1] : !first -> !last
  %5 = train.add %2, %4 : !last loc("add_3")
  %6 = train.add %5, %p : !last loc("add_4")
  return %0, %6 : !first, !last
}

// One transpose is as good at its place as anywhere.
// CHECK-NOT: Moved {{.*}} Function=one_end
// CHECK: [Missed] Left {{.*}} Function=one_end {{.*}}"func.return has its axes in one order", Remark="func.return reads 2304 bytes of train.relu transposed"
// IR-LABEL: func.func @one_end
// IR-NEXT: train.relu %arg0
// IR-NEXT: train.transpose
func.func @one_end(%x: !first) -> !last {
  %0 = train.relu %x : !first
  %1 = train.transpose %0 permutation = [0, 2, 3, 1] : !first -> !last
  return %1 : !last
}

// Channels and rows are merged: no other order has them as neighbours.
// CHECK-NOT: Moved {{.*}} Function=merged
// IR-LABEL: func.func @merged
// IR-NEXT: train.transpose %arg0
// IR-NEXT: train.reshape
func.func @merged(%x: !last) -> tensor<2x48x6xf32> {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : !last -> !first
  %1 = train.reshape %0 : !first -> tensor<2x48x6xf32>
  return %1 : tensor<2x48x6xf32>
}

// A parameter is not transposed to save a smaller value.
// CHECK-NOT: Moved {{.*}} Function=parameter
// CHECK: [Missed] Left {{.*}} Function=parameter {{.*}}"argument 0 has its axes in one order", Remark="train.mul reads 2304 bytes of argument 0 transposed"
// IR-LABEL: func.func @parameter
// IR-NEXT: train.transpose %arg0
// IR-NEXT: train.mul
func.func @parameter(%x: !last, %p: !first) -> !first {
  %0 = train.transpose %x permutation = [0, 3, 1, 2] : !last -> !first
  %1 = train.mul %0, %p : !first
  return %1 : !first
}
