// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heads come first where samples and heads are merged, so that a head's factor is multiplied with the
// rows of all samples.
// RUN: trainc-opt %s --raise-shared-factors --canonicalize --remarks-filter=raise-shared-factors --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// REMARK: Shared{{.*}}: 2 matrices of 64 rows in place of 8 of 16

// CHECK-LABEL: func.func @plain
// CHECK: %[[X:.*]] = train.transpose %arg0 permutation = [2, 0, 1, 3] : tensor<4x16x2x8xf32> -> tensor<2x4x16x8xf32>
// CHECK: %[[ROWS:.*]] = train.reshape %[[X]] : tensor<2x4x16x8xf32> -> tensor<2x64x8xf32>
// CHECK: %[[Y:.*]] = train.matmul %[[ROWS]], %arg1 transposed : tensor<2x64x8xf32>, tensor<2x5x8xf32> -> tensor<2x64x5xf32>
// CHECK: %[[APART:.*]] = train.reshape %[[Y]] : tensor<2x64x5xf32> -> tensor<2x4x16x5xf32>
// CHECK: %[[OUT:.*]] = train.transpose %[[APART]] permutation = [1, 2, 0, 3]
// CHECK: return %[[OUT]] : tensor<4x16x2x5xf32>
func.func @plain(%x: tensor<4x16x2x8xf32>, %p: tensor<2x5x8xf32>) -> tensor<4x16x2x5xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x5x8xf32> -> tensor<4x2x5x8xf32>
  %3 = train.reshape %2 : tensor<4x2x5x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
  return %6 : tensor<4x16x2x5xf32>
}

// Whatever has the merged axis takes the order: gathers by indices that all samples share, the
// attention beside it, whose mask of dropout is the library's. The number of samples is not known.
// CHECK-LABEL: func.func @bias
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x16x2x8xbf16
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<2x24x8xbf16>
// CHECK-NOT: train.broadcast %[[P]]
// CHECK: train.transpose %[[Q]] permutation = [2, 0, 1, 3] {{.*}} -> tensor<2x?x16x8xbf16, #train.dims<2, batch, 16, 8>>
// CHECK: train.matmul %{{.*}}, %[[P]] transposed : tensor<2x?x8xbf16, #train.dims<2, 16*batch, 8>>, tensor<2x24x8xbf16> -> tensor<2x?x24xbf16, #train.dims<2, 16*batch, 24>>
// CHECK: train.gather_elements {{.*}} axis = 2 : tensor<?x16x24xbf16, #train.dims<2*batch, 16, 24>>
// CHECK: train.attention
// CHECK: train.reshape {{.*}} -> tensor<2x?x16x8xbf16, #train.dims<2, batch, 16, 8>>
// CHECK: train.transpose {{.*}} permutation = [1, 2, 0, 3] {{.*}} -> tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>>
func.func @bias(%q: tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>>, %p: tensor<2x24x8xbf16>, %i: tensor<16x16xi32>,
                %seed: tensor<2xi64>) -> tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>> {
  %0 = train.transpose %q permutation = [0, 2, 1, 3] : tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>> -> tensor<?x2x16x8xbf16, #train.dims<batch, 2, 16, 8>>
  %1 = train.reshape %0 : tensor<?x2x16x8xbf16, #train.dims<batch, 2, 16, 8>> -> tensor<?x16x8xbf16, #train.dims<2*batch, 16, 8>>
  %2 = train.broadcast %p axes = [1, 2, 3] : tensor<2x24x8xbf16> -> tensor<?x2x24x8xbf16, #train.dims<batch, 2, 24, 8>>
  %3 = train.reshape %2 : tensor<?x2x24x8xbf16, #train.dims<batch, 2, 24, 8>> -> tensor<?x24x8xbf16, #train.dims<2*batch, 24, 8>>
  %4 = train.matmul %1, %3 transposed : tensor<?x16x8xbf16, #train.dims<2*batch, 16, 8>>, tensor<?x24x8xbf16, #train.dims<2*batch, 24, 8>> -> tensor<?x16x24xbf16, #train.dims<2*batch, 16, 24>>
  %5 = train.broadcast %i axes = [1, 2] : tensor<16x16xi32> -> tensor<?x16x16xi32, #train.dims<2*batch, 16, 16>>
  %6 = train.gather_elements %4, %5 axis = 2 : tensor<?x16x24xbf16, #train.dims<2*batch, 16, 24>>, tensor<?x16x16xi32, #train.dims<2*batch, 16, 16>> -> tensor<?x16x16xbf16, #train.dims<2*batch, 16, 16>>
  %7 = train.reshape %6 : tensor<?x16x16xbf16, #train.dims<2*batch, 16, 16>> -> tensor<1x?x16x16xbf16, #train.dims<1, 2*batch, 16, 16>>
  %8 = train.reshape %0 : tensor<?x2x16x8xbf16, #train.dims<batch, 2, 16, 8>> -> tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>>
  %o, %stats = train.attention %8, %8, %8 bias %7 seed %seed {dropout = 0.1 : f64, scale = 1.0 : f64} : (tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>>, tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>>, tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>>, tensor<1x?x16x16xbf16, #train.dims<1, 2*batch, 16, 16>>, tensor<2xi64>) -> (tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>>, tensor<1x?x16xf32, #train.dims<1, 2*batch, 16>>)
  %9 = train.reshape %o : tensor<1x?x16x8xbf16, #train.dims<1, 2*batch, 16, 8>> -> tensor<?x2x16x8xbf16, #train.dims<batch, 2, 16, 8>>
  %10 = train.transpose %9 permutation = [0, 2, 1, 3] : tensor<?x2x16x8xbf16, #train.dims<batch, 2, 16, 8>> -> tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>>
  return %10 : tensor<?x16x2x8xbf16, #train.dims<batch, 16, 2, 8>>
}

// Axes of size 1 that exporters leave in a projection do not come between it and the matmul.
// CHECK-LABEL: func.func @unit_axes
// CHECK: %[[ROWS:.*]] = train.reshape %arg1 : tensor<1x5x2x8xf32> -> tensor<5x2x8xf32>
// CHECK: %[[P:.*]] = train.transpose %[[ROWS]] permutation = [1, 0, 2] : tensor<5x2x8xf32> -> tensor<2x5x8xf32>
// CHECK: train.matmul %{{.*}}, %[[P]] transposed : tensor<2x64x8xf32>, tensor<2x5x8xf32> -> tensor<2x64x5xf32>
func.func @unit_axes(%x: tensor<4x16x2x8xf32>, %p: tensor<1x5x2x8xf32>) -> tensor<4x16x2x5xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1, 3] : tensor<4x16x2x8xf32> -> tensor<4x2x16x8xf32>
  %1 = train.reshape %0 : tensor<4x2x16x8xf32> -> tensor<8x16x8xf32>
  %t = train.transpose %p permutation = [0, 2, 1, 3] : tensor<1x5x2x8xf32> -> tensor<1x2x5x8xf32>
  %u = train.reshape %t : tensor<1x2x5x8xf32> -> tensor<2x1x5x1x8xf32>
  %2 = train.broadcast %u axes = [1, 2, 3, 4, 5] : tensor<2x1x5x1x8xf32> -> tensor<4x2x1x5x1x8xf32>
  %3 = train.reshape %2 : tensor<4x2x1x5x1x8xf32> -> tensor<8x5x8xf32>
  %4 = train.matmul %1, %3 transposed : tensor<8x16x8xf32>, tensor<8x5x8xf32> -> tensor<8x16x5xf32>
  %5 = train.reshape %4 : tensor<8x16x5xf32> -> tensor<4x2x16x5xf32>
  %6 = train.transpose %5 permutation = [0, 2, 1, 3] : tensor<4x2x16x5xf32> -> tensor<4x16x2x5xf32>
  return %6 : tensor<4x16x2x5xf32>
}
