// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of what is only widened for them take the narrow numbers, in all functions that ranks may run at once or in none.
// RUN: trainc-opt %s --split-input-file --narrow-sums="split=64" | FileCheck %s
// RUN: trainc-opt %s --split-input-file --narrow-sums="split=65" | FileCheck %s --check-prefix=FEW
// RUN: trainc-opt %s --split-input-file --narrow-sums="split=65" --remarks-filter=narrow-sums --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// One of two types becomes two calls, where that saves enough: the second one has a number of its own. Zeros are of any type.
// REMARK: remark: {{.*}}64 bytes of 16-bit gradients travel in f32
// CHECK-LABEL: func.func @step
// CHECK-NOT: train.cast
// CHECK: %[[NARROW:.*]]:2 = train.all_reduce %arg0, %arg2 {train.bucket = 3 : i64} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: %[[WIDE:.*]] = train.all_reduce %arg1 {train.bucket = 4 : i64} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: return %[[NARROW]]#0, %[[WIDE]], %[[NARROW]]#1
// FEW-LABEL: func.func @step
// FEW: train.all_reduce {{.*}} {train.bucket = 3 : i64} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>)
func.func @step(%a: tensor<4x4xbf16>, %b: tensor<4xf32>, %c: tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>)
    attributes {train.in_step = "step"} {
  %0 = train.cast %a : tensor<4x4xbf16> -> tensor<4x4xf32>
  %1 = train.cast %c : tensor<4x4xbf16> -> tensor<4x4xf32>
  %2:3 = train.all_reduce %0, %b, %1 {train.bucket = 3 : i64}
      : (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>)
  return %2#0, %2#1, %2#2 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>
}
// CHECK-LABEL: func.func @absent_step
// CHECK: %[[ZERO:.*]] = train.full 0.000000e+00 : bf16 : tensor<4x4xbf16>
// CHECK: train.all_reduce %[[ZERO]], %{{.*}} {train.bucket = 3 : i64} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: train.all_reduce %{{.*}} {train.bucket = 4 : i64} : (tensor<4xf32>) -> tensor<4xf32>
func.func @absent_step() -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) attributes {train.in_step = "step"} {
  %0 = train.full 0.000000e+00 : f32 : tensor<4x4xf32>
  %1 = train.full 0.000000e+00 : f32 : tensor<4xf32>
  %2:3 = train.all_reduce %0, %1, %0 {train.bucket = 3 : i64}
      : (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>)
  return %2#0, %2#1, %2#2 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>
}

// -----

// All of one type stay one call, however small. Of shards, too; whoever else reads the f32 has it.
// REMARK: remark: {{.*}}32 bytes of gradients are exchanged in 16 bits
// CHECK-LABEL: func.func @micro
// CHECK: %[[WIDE:.*]] = train.cast %arg0
// CHECK: train.reduce_scatter %arg0 units = [4] {train.bucket = 0 : i64} : (tensor<4x4xf16>) -> tensor<?x4xf32, #train.dims<floordiv(world + 3, world), 4>>
// CHECK: return %{{.*}}, %[[WIDE]]
train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}
func.func @micro(%a: tensor<4x4xf16>) -> (tensor<?x4xf32, #train.dims<floordiv(world + 3, world), 4>>, tensor<4x4xf32>)
    attributes {train.in_step = "micro"} {
  %0 = train.cast %a : tensor<4x4xf16> -> tensor<4x4xf32>
  %1 = train.reduce_scatter %0 units = [4] {train.bucket = 0 : i64} : (tensor<4x4xf32>) -> tensor<?x4xf32, #train.dims<floordiv(world + 3, world), 4>>
  return %1, %0 : tensor<?x4xf32, #train.dims<floordiv(world + 3, world), 4>>, tensor<4x4xf32>
}

// -----

// Of two types in two variants, of zeros alone, of what is rounded no further, or of what is no number of 16 bits.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-4: train.all_reduce {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
func.func @step(%a: tensor<4xbf16>, %b: tensor<4xi1>, %c: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    attributes {train.in_step = "step"} {
  %0 = train.cast %a : tensor<4xbf16> -> tensor<4xf32>
  %zero = train.full 0.000000e+00 : f32 : tensor<4xf32>
  %1 = train.cast %b : tensor<4xi1> -> tensor<4xf32>
  %c32 = train.cast %c : tensor<4xbf16> -> tensor<4xf32>
  %2 = train.mul %c32, %c32 : tensor<4xf32>
  %3 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = train.all_reduce %zero {train.bucket = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = train.all_reduce %1 {train.bucket = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = train.all_reduce %2 {train.bucket = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %3, %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @step_packed
// CHECK-COUNT-4: train.all_reduce {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
func.func @step_packed(%a: tensor<4xf16>, %b: tensor<4xi1>, %c: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    attributes {train.in_step = "step", train.variant_of = "step"} {
  %0 = train.cast %a : tensor<4xf16> -> tensor<4xf32>
  %zero = train.full 0.000000e+00 : f32 : tensor<4xf32>
  %1 = train.cast %b : tensor<4xi1> -> tensor<4xf32>
  %2 = train.cast %c : tensor<4xbf16> -> tensor<4xf32>
  %x = train.mul %2, %2 : tensor<4xf32>
  %3 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = train.all_reduce %zero {train.bucket = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = train.all_reduce %1 {train.bucket = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = train.all_reduce %x {train.bucket = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %3, %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
