// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --fuse-epilogues --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --fuse-epilogues --remark-format=emitRemark --remarks-filter=fuse-epilogues 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: Fused{{.*}}train.matmul: the bias in the matmul
// RUN: trainc-opt %s --fuse-epilogues=bias-gradient --canonicalize --cse | FileCheck %s --check-prefix=SUM

// The projections of an attention: nothing but moves and the library read the sum.
// CHECK-LABEL: func.func @bias
// CHECK: %[[B:.*]] = train.cast %arg2 : tensor<16xf32> -> tensor<16xbf16>
// CHECK: %[[Y:.*]] = train.matmul %arg0, %arg1 transposed epilogue bias with %[[B]]
// CHECK: %[[R:.*]] = train.reshape %[[Y]] : tensor<?x16xbf16, #train.dims<2*seq, 16>> -> tensor<2x?x2x8xbf16, #train.dims<2, seq, 2, 8>>
// CHECK: train.transpose %[[R]]
// CHECK-NOT: train.add
func.func @bias(%x: tensor<?x8xbf16, #train.dims<2*seq, 8>>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>)
    -> tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>> {
  %0 = train.matmul %x, %w transposed : tensor<?x8xbf16, #train.dims<2*seq, 8>>, tensor<16x8xbf16> -> tensor<?x16xbf16, #train.dims<2*seq, 16>>
  %1 = train.reshape %0 : tensor<?x16xbf16, #train.dims<2*seq, 16>> -> tensor<2x?x16xbf16, #train.dims<2, seq, 16>>
  %2 = train.cast %1 : tensor<2x?x16xbf16, #train.dims<2, seq, 16>> -> tensor<2x?x16xf32, #train.dims<2, seq, 16>>
  %3 = train.broadcast %b axes = [2] : tensor<16xf32> -> tensor<2x?x16xf32, #train.dims<2, seq, 16>>
  %4 = train.add %3, %2 : tensor<2x?x16xf32, #train.dims<2, seq, 16>>
  %5 = train.cast %4 : tensor<2x?x16xf32, #train.dims<2, seq, 16>> -> tensor<2x?x16xbf16, #train.dims<2, seq, 16>>
  %6 = train.reshape %5 : tensor<2x?x16xbf16, #train.dims<2, seq, 16>> -> tensor<2x?x2x8xbf16, #train.dims<2, seq, 2, 8>>
  %7 = train.transpose %6 permutation = [0, 2, 1, 3] : tensor<2x?x2x8xbf16, #train.dims<2, seq, 2, 8>> -> tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>
  %8:2 = train.attention %7, %7, %7 {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>, tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>, tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>) -> (tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>, tensor<2x2x?xf32, #train.dims<2, 2, seq>>)
  return %8#0 : tensor<2x2x?x8xbf16, #train.dims<2, 2, seq, 8>>
}

// A kernel reads a part of the sum (rotary positions), and the library another: it is stored anyway.
// CHECK-LABEL: func.func @parts
// CHECK: %[[B:.*]] = train.cast %arg2 : tensor<24xf32> -> tensor<24xbf16>
// CHECK: train.matmul %arg0, %arg1 epilogue bias with %[[B]]
// CHECK-NOT: train.add
func.func @parts(%x: tensor<16x8xbf16>, %w: tensor<8x24xbf16>, %b: tensor<24xf32>) -> tensor<1x1x16x8xbf16> {
  %0 = train.matmul %x, %w : tensor<16x8xbf16>, tensor<8x24xbf16> -> tensor<16x24xbf16>
  %1 = train.cast %0 : tensor<16x24xbf16> -> tensor<16x24xf32>
  %2 = train.broadcast %b axes = [1] : tensor<24xf32> -> tensor<16x24xf32>
  %3 = train.add %1, %2 : tensor<16x24xf32>
  %4 = train.cast %3 : tensor<16x24xf32> -> tensor<16x24xbf16>
  %q0 = train.slice %4 starts = <0, 0> steps = [1, 1] : tensor<16x24xbf16> -> tensor<16x8xbf16>
  %k0 = train.slice %4 starts = <0, 8> steps = [1, 1] : tensor<16x24xbf16> -> tensor<16x8xbf16>
  %v0 = train.slice %4 starts = <0, 16> steps = [1, 1] : tensor<16x24xbf16> -> tensor<16x8xbf16>
  %6 = train.cast %q0 : tensor<16x8xbf16> -> tensor<16x8xf32>
  %7 = train.cos %6 : tensor<16x8xf32>
  %8 = train.cast %7 : tensor<16x8xf32> -> tensor<16x8xbf16>
  %q = train.reshape %8 : tensor<16x8xbf16> -> tensor<1x1x16x8xbf16>
  %k = train.reshape %k0 : tensor<16x8xbf16> -> tensor<1x1x16x8xbf16>
  %v = train.reshape %v0 : tensor<16x8xbf16> -> tensor<1x1x16x8xbf16>
  %9:2 = train.attention %q, %k, %v {scale = 1.0 : f64, dropout = 0.0 : f64} : (tensor<1x1x16x8xbf16>, tensor<1x1x16x8xbf16>, tensor<1x1x16x8xbf16>) -> (tensor<1x1x16x8xbf16>, tensor<1x1x16xf32>)
  return %9#0 : tensor<1x1x16x8xbf16>
}

// Both layers of a feed-forward block and its backward.
// CHECK-LABEL: func.func @feed_forward
// CHECK: %[[B:.*]] = train.cast %arg2 : tensor<16xf32> -> tensor<16xbf16>
// CHECK: %[[Y:.*]], %[[AUX:.*]] = train.matmul %arg0, %arg1 epilogue gelu_aux_bias with %[[B]]
// CHECK: train.matmul %[[Y]], %arg3
// CHECK: %[[D:.*]] = train.matmul %arg4, %arg3 transposed epilogue dgelu with %[[AUX]]
// CHECK-SAME: -> tensor<4x16xbf16>
// CHECK: %[[F:.*]] = train.cast %[[D]] : tensor<4x16xbf16> -> tensor<4x16xf32>
// CHECK: %[[DB:.*]] = train.reduce sum %[[F]] axes = [0]
// CHECK: train.matmul %arg0 transposed, %[[D]]
// SUM-LABEL: func.func @feed_forward
// SUM: %[[D:.*]], %[[S:.*]] = train.matmul %arg4, %arg3 transposed epilogue dgelu_bgrad with
// SUM-SAME: -> tensor<4x16xbf16>, tensor<16xbf16>
// SUM: %[[DB:.*]] = train.cast %[[S]] : tensor<16xbf16> -> tensor<16xf32>
// SUM: train.matmul %arg0 transposed, %[[D]]
// SUM: return {{.*}}, %[[DB]],
// CHECK-NOT: train.gelu
// CHECK: return {{.*}}, %[[DB]],
func.func @feed_forward(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>, %v: tensor<16x8xbf16>, %g: tensor<4x8xbf16>)
    -> (tensor<4x8xbf16>, tensor<16xf32>, tensor<8x16xbf16>) {
  %0 = train.matmul %x, %w : tensor<4x8xbf16>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  %1 = train.cast %0 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %2 = train.broadcast %b axes = [1] : tensor<16xf32> -> tensor<4x16xf32>
  %3 = train.add %1, %2 : tensor<4x16xf32>
  %4 = train.reshape %3 : tensor<4x16xf32> -> tensor<2x2x16xf32>
  %5 = train.gelu %4 tanh : tensor<2x2x16xf32>
  %6 = train.cast %5 : tensor<2x2x16xf32> -> tensor<2x2x16xbf16>
  %7 = train.reshape %6 : tensor<2x2x16xbf16> -> tensor<4x16xbf16>
  %8 = train.matmul %7, %v : tensor<4x16xbf16>, tensor<16x8xbf16> -> tensor<4x8xbf16>
  %9 = train.matmul %g, %v transposed : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %10 = train.reshape %9 : tensor<4x16xbf16> -> tensor<2x2x16xbf16>
  %11 = train.cast %10 : tensor<2x2x16xbf16> -> tensor<2x2x16xf32>
  %12 = train.gelu_grad %4 tanh : tensor<2x2x16xf32>
  %13 = train.mul %11, %12 : tensor<2x2x16xf32>
  %14 = train.reshape %13 : tensor<2x2x16xf32> -> tensor<4x16xf32>
  %15 = train.reduce sum %14 axes = [0] : tensor<4x16xf32> -> tensor<16xf32>
  %16 = train.cast %14 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %17 = train.matmul %x transposed, %16 : tensor<4x8xbf16>, tensor<4x16xbf16> -> tensor<8x16xbf16>
  return %8, %15, %17 : tensor<4x8xbf16>, tensor<16xf32>, tensor<8x16xbf16>
}

// All in the low type, without biases.
// CHECK-LABEL: func.func @pure
// CHECK: %[[Y:.*]], %[[AUX:.*]] = train.matmul %arg0, %arg1 epilogue gelu_aux :
// CHECK: train.matmul %[[Y]], %arg2
// CHECK: train.matmul %arg3, %arg2 transposed epilogue dgelu with %[[AUX]]
func.func @pure(%x: tensor<4x8xf16>, %w: tensor<8x16xf16>, %v: tensor<16x8xf16>, %g: tensor<4x8xf16>)
    -> (tensor<4x8xf16>, tensor<8x16xf16>) {
  %0 = train.matmul %x, %w : tensor<4x8xf16>, tensor<8x16xf16> -> tensor<4x16xf16>
  %1 = train.gelu %0 tanh : tensor<4x16xf16>
  %2 = train.matmul %1, %v : tensor<4x16xf16>, tensor<16x8xf16> -> tensor<4x8xf16>
  %3 = train.matmul %g, %v transposed : tensor<4x8xf16>, tensor<16x8xf16> -> tensor<4x16xf16>
  %4 = train.gelu_grad %0 tanh : tensor<4x16xf16>
  %5 = train.mul %4, %3 : tensor<4x16xf16>
  %6 = train.matmul %x transposed, %5 : tensor<4x8xf16>, tensor<4x16xf16> -> tensor<8x16xf16>
  return %2, %6 : tensor<4x8xf16>, tensor<8x16xf16>
}
