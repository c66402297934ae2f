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

// -----

// Something reads the narrow one; neither side is short; no side is known; the type is wider than f32; one side is tokens;
// a side that is short, but not beside the axis that is summed over.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: xbf16> -> tensor<{{.*}}xf32
// CHECK-COUNT-6: train.cast
func.func @kept(%g: tensor<?x4xbf16, #train.dims<t, 4>>, %x: tensor<?x512xbf16, #train.dims<t, 512>>, %y: tensor<?x?xbf16, #train.dims<t, n>>, %w: tensor<512x4xbf16>, %v: tensor<128x512xbf16>)
    -> (tensor<4x512xf32>, tensor<4x512xbf16>, tensor<512x512xf32>, tensor<?x?xf32, #train.dims<n, n>>, tensor<4x512xf64>, tensor<?x4xf32, #train.dims<t, 4>>, tensor<128x512xf32>) {
  %0 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<t, 4>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<4x512xbf16>
  %1 = train.cast %0 : tensor<4x512xbf16> -> tensor<4x512xf32>
  %2 = train.matmul %x transposed, %x : tensor<?x512xbf16, #train.dims<t, 512>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<512x512xbf16>
  %3 = train.cast %2 : tensor<512x512xbf16> -> tensor<512x512xf32>
  %4 = train.matmul %y transposed, %y : tensor<?x?xbf16, #train.dims<t, n>>, tensor<?x?xbf16, #train.dims<t, n>> -> tensor<?x?xbf16, #train.dims<n, n>>
  %5 = train.cast %4 : tensor<?x?xbf16, #train.dims<n, n>> -> tensor<?x?xf32, #train.dims<n, n>>
  %6 = train.matmul %g transposed, %x : tensor<?x4xbf16, #train.dims<t, 4>>, tensor<?x512xbf16, #train.dims<t, 512>> -> tensor<4x512xbf16>
  %7 = train.cast %6 : tensor<4x512xbf16> -> tensor<4x512xf64>
  %8 = train.matmul %x, %w : tensor<?x512xbf16, #train.dims<t, 512>>, tensor<512x4xbf16> -> tensor<?x4xbf16, #train.dims<t, 4>>
  %9 = train.cast %8 : tensor<?x4xbf16, #train.dims<t, 4>> -> tensor<?x4xf32, #train.dims<t, 4>>
  %10 = train.matmul %v, %2 : tensor<128x512xbf16>, tensor<512x512xbf16> -> tensor<128x512xbf16>
  %11 = train.cast %10 : tensor<128x512xbf16> -> tensor<128x512xf32>
  return %1, %0, %3, %5, %7, %9, %11 : tensor<4x512xf32>, tensor<4x512xbf16>, tensor<512x512xf32>, tensor<?x?xf32, #train.dims<n, n>>, tensor<4x512xf64>, tensor<?x4xf32, #train.dims<t, 4>>, tensor<128x512xf32>
}
