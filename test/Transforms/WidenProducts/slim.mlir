// A slim product that is read in f32 alone is stored in f32.
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(widen-products))' | FileCheck %s
// RUN: trainc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(widen-products{max-side=2}))' | FileCheck %s --check-prefix=NARROW

// The gradients of two matrices below each other.
// CHECK-LABEL: func.func @stacked
// CHECK-NEXT: %[[P:.*]] = train.matmul %{{.*}} transposed, %{{.*}} : {{.*}} -> tensor<4x512xf32>
// CHECK-NEXT: %[[A:.*]] = train.slice %[[P]] {{.*}} : tensor<4x512xf32> -> tensor<2x512xf32>
// CHECK-NEXT: %[[B:.*]] = train.slice %[[P]] {{.*}} : tensor<4x512xf32> -> tensor<2x512xf32>
// CHECK-NEXT: return %[[A]], %[[B]]
// NARROW-LABEL: func.func @stacked
// NARROW: -> tensor<4x512xbf16>
// NARROW: train.cast
func.func @stacked(%g: tensor<?x4xbf16, #train.dims<t, 4>>, %x: tensor<?x512xbf16, #train.dims<t, 512>>) -> (tensor<2x512xf32>, tensor<2x512xf32>) {
  %0 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<t, 4>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<4x512xbf16>
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<4x512xbf16> -> tensor<2x512xbf16>
  %2 = train.cast %1 : tensor<2x512xbf16> -> tensor<2x512xf32>
  %3 = train.slice %0 starts = <2, 0> steps = [1, 1] : tensor<4x512xbf16> -> tensor<2x512xbf16>
  %4 = train.cast %3 : tensor<2x512xbf16> -> tensor<2x512xf32>
  return %2, %4 : tensor<2x512xf32>, tensor<2x512xf32>
}
