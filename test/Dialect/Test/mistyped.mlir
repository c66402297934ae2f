// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an op outside of the compiler says about itself is checked in release builds, too.
// RUN: not trainc-test-opt %s --autodiff 2>&1 | FileCheck %s --check-prefix=GRADIENT
// RUN: not trainc-test-opt %s --hoist-slices 2>&1 | FileCheck %s --check-prefix=RESTRICTED
// RUN: not trainc-test-opt %s --decompose 2>&1 | FileCheck %s --check-prefix=PARTS

// GRADIENT: error: testdialect.mistyped{{.*}} gave a gradient of type 'tensor<8xf64>' for an operand of type 'tensor<8xf32>'
// GRADIENT: note: the operand
// RESTRICTED: error: testdialect.mistyped{{.*}} restricted along one axis has type 'tensor<4xf64>', not 'tensor<4xf32>'
// RESTRICTED: note: what is restricted
// PARTS: error: testdialect.mistyped{{.*}} has parts of other types than its results
func.func @forward(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable})
    -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
  %0 = testdialect.mistyped %w : tensor<8xf32>
  %1 = train.slice %0 starts = <2> steps = [1] : tensor<8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %1 axes = [0] : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
