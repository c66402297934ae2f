// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --distribute --split-input-file --verify-diagnostics
// RUN: not trainc-opt %s --distribute="bucket=0" --split-input-file 2>&1 | FileCheck %s

// CHECK: error: expected buckets of at least a byte, got 0

// expected-error @below {{expected the function @update: run attach-optimizer first}}
module {
}

// -----

module {
  // expected-error @below {{the forward pass changes 'mean', which each rank would do in its own way}}
  func.func @gradients(%mean: tensor<4xf32> {train.role = "parameter", train.name = "mean"})
      -> (tensor<4xf32> {train.role = "update", train.updates = "parameter", train.name = "mean"}) {
    return %mean : tensor<4xf32>
  }
  func.func @update() {
    return
  }
}
