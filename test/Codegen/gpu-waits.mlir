// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for GPUs that begin one while the one before it ends wait first, and read nothing as constant; others do
// neither.
// RUN: trainc-test-opt %s --test-codegen="target=cuda print-ptx remarks=false" -o /dev/null | FileCheck %s --check-prefix=WAITS
// RUN: trainc-test-opt %s --test-codegen="target=cuda architecture=sm_80 print-ptx remarks=false" -o /dev/null | FileCheck %s --check-prefix=STARTS

// WAITS: .visible .global {{.*}} trainc_waits_kernel_0_pointwise
// WAITS: .entry kernel_0_pointwise(
// WAITS-NOT: ld.global
// WAITS: griddepcontrol.wait
// WAITS-NOT: ld.global.nc
// WAITS-NOT: griddepcontrol.launch_dependents
// STARTS-NOT: griddepcontrol
// STARTS-NOT: trainc_waits_kernel_0_pointwise
// STARTS: ld.global.nc
func.func @transposed(%x: tensor<32x1024x4096xbf16>) {
  %0 = train.fusion(%x) : (tensor<32x1024x4096xbf16>) -> tensor<32x4096x1024xbf16> {
  ^bb0(%a: tensor<32x1024x4096xbf16>):
    %1 = train.transpose %a permutation = [0, 2, 1] : tensor<32x1024x4096xbf16> -> tensor<32x4096x1024xbf16>
    train.yield %1 : tensor<32x4096x1024xbf16>
  }
  return
}
