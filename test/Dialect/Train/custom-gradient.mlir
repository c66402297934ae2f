// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values with a gradient that is given: round trip, parts, and what the verifier refuses.
// RUN: split-file %s %t
// RUN: trainc-opt %t/good.mlir | trainc-opt | FileCheck %s
// RUN: trainc-opt %t/good.mlir --decompose | FileCheck %s --check-prefix=PARTS
// RUN: trainc-opt %t/bad.mlir --split-input-file --verify-diagnostics

// CHECK: train.custom_gradient %{{.*}} of %{{.*}}, %{{.*}} wrt = [0] : (tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4xf32> {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<i64>, %{{.*}}: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>):
// CHECK-NEXT: train.custom_gradient_yield %[[G]] : tensor<4xf32>
// PARTS-NOT: train.custom_gradient
// PARTS: return %arg0

//--- good.mlir
func.func @f(%y: tensor<4xf32>, %x: tensor<4xf32>, %i: tensor<i64>) -> tensor<4xf32> {
  %0 = train.custom_gradient %y of %x, %i wrt = [0] : (tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<i64>, %c: tensor<4xf32>, %g: tensor<4xf32>):
    train.custom_gradient_yield %g : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

//--- bad.mlir
func.func @f(%y: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error@+1 {{expected results of 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %0 = train.custom_gradient %y of %x wrt = [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>, %g: tensor<4xf32>):
    train.custom_gradient_yield %g : tensor<4xf32>
  }
  return
}

// -----
func.func @f(%y: tensor<4xf32>, %x: tensor<4xi64>) {
  // expected-error@+1 {{expected wrt to name inputs that are floats, got 0}}
  %0 = train.custom_gradient %y of %x wrt = [0] : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xi64>, %c: tensor<4xf32>, %g: tensor<4xf32>):
    train.custom_gradient_yield %a : tensor<4xi64>
  }
  return
}

// -----
func.func @f(%y: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error@+1 {{expected a body of 'tensor<4xf32>', 'tensor<4xf32>', 'tensor<4xf32>', got 'tensor<4xf32>', 'tensor<4xf32>'}}
  %0 = train.custom_gradient %y of %x wrt = [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
    train.custom_gradient_yield %a : tensor<4xf32>
  }
  return
}

// -----
func.func @f(%y: tensor<4xf32>, %x: tensor<5xf32>) {
  // expected-error@+1 {{expected gradients of 'tensor<5xf32>', got 'tensor<4xf32>'}}
  %0 = train.custom_gradient %y of %x wrt = [0] : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>, %c: tensor<4xf32>, %g: tensor<4xf32>):
    train.custom_gradient_yield %g : tensor<4xf32>
  }
  return
}
