// RUN: trainc-opt %s --form-kernels --remarks-filter=form-kernels 2>&1 | FileCheck %s

// The sum cannot join the kernel of the exponential: the matmul between them needs it.
// CHECK: KeptApart
// CHECK-SAME: the kernel would depend on itself through another one
// CHECK-LABEL: func.func @through_library
// CHECK: train.fusion
// CHECK: train.matmul
// CHECK: train.fusion
func.func @through_library(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = train.exp %x : tensor<8x8xf32>
  %1 = train.matmul %0, %0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = train.add %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
