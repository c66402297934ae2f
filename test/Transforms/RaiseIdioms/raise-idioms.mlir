// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --raise-idioms | FileCheck %s
// RUN: trainc-opt %s --raise-idioms --remark-format=emitRemark --remarks-filter=".*" 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @erf
// CHECK-NEXT: %[[R:.*]] = train.gelu %arg0 : tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
// REMARK: remark: [Passed] Raised{{.*}}ends a GELU
func.func @erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = train.full 5.000000e-01 : f32 : tensor<4x8xf32>
  %root2 = train.full 1.41421354 : f32 : tensor<4x8xf32>
  %one = train.full 1.000000e+00 : f32 : tensor<4x8xf32>
  %0 = train.mul %x, %half : tensor<4x8xf32>
  %1 = train.div %x, %root2 : tensor<4x8xf32>
  %2 = train.erf %1 : tensor<4x8xf32>
  %3 = train.add %2, %one : tensor<4x8xf32>
  %4 = train.mul %0, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// The cube by pow, the half at the end, a symbolic size.
// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: train.gelu %arg0 tanh
// CHECK-NEXT: return
// REMARK: remark: [Passed] Raised{{.*}}ends a GELU (tanh form)
func.func @tanh(%x: tensor<?xf32, #train.dims<n>>) -> tensor<?xf32, #train.dims<n>> {
  %three = train.full 3.000000e+00 : f32 : tensor<?xf32, #train.dims<n>>
  %c = train.full 4.471500e-02 : f32 : tensor<?xf32, #train.dims<n>>
  %s = train.full 0.797884583 : f32 : tensor<?xf32, #train.dims<n>>
  %half = train.full 5.000000e-01 : f32 : tensor<?xf32, #train.dims<n>>
  %one = train.full 1.000000e+00 : f32 : tensor<?xf32, #train.dims<n>>
  %0 = train.pow %x, %three : tensor<?xf32, #train.dims<n>>
  %1 = train.mul %0, %c : tensor<?xf32, #train.dims<n>>
  %2 = train.add %x, %1 : tensor<?xf32, #train.dims<n>>
  %3 = train.mul %s, %2 : tensor<?xf32, #train.dims<n>>
  %4 = train.tanh %3 : tensor<?xf32, #train.dims<n>>
  %5 = train.add %one, %4 : tensor<?xf32, #train.dims<n>>
  %6 = train.mul %x, %5 : tensor<?xf32, #train.dims<n>>
  %7 = train.mul %6, %half : tensor<?xf32, #train.dims<n>>
  return %7 : tensor<?xf32, #train.dims<n>>
}
