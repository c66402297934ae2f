// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(form-kernels{max-ops=1}))' | FileCheck %s --check-prefix=APART
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(form-kernels{recompute-cost=0}))' | FileCheck %s --check-prefix=STORE

// APART-LABEL: func.func @chain
// APART-COUNT-2: train.fusion
func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.tanh %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Nothing is computed twice: the product is stored once.
// STORE-LABEL: func.func @stored
// STORE: train.fusion
// STORE: train.mul
// STORE-NOT: train.mul
// STORE: return
func.func @stored(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = train.mul %x, %x : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2 : tensor<4xf32>, tensor<8xf32>
}
