// What follows on the sums of a scatter of rows is in its kernel.
// RUN: trainc-opt %s --split-input-file --form-kernels | FileCheck %s

// A tied embedding's gradient: the sums are added to the product, which is narrower.
// CHECK-LABEL: func.func @tied
// CHECK: %[[HEAD:.*]] = train.matmul
// CHECK: %[[SUM:.*]] = train.fusion(%{{.*}}, %{{.*}}, %[[HEAD]])
// CHECK: train.scatter_add
// CHECK: train.add
// CHECK: train.yield
// CHECK-NOT: train.fusion
// CHECK: return %[[SUM]]
func.func @tied(%i: tensor<5xi64>, %u: tensor<5x8xf32>, %x: tensor<9x5xbf16>, %y: tensor<5x8xbf16>) -> tensor<9x8xf32> {
  %0 = train.matmul %x, %y : tensor<9x5xbf16>, tensor<5x8xbf16> -> tensor<9x8xbf16>
  %1 = train.cast %0 : tensor<9x8xbf16> -> tensor<9x8xf32>
  %2 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %3 = train.add %1, %2 : tensor<9x8xf32>
  return %3 : tensor<9x8xf32>
}

// -----

// Two scatters, one onto the other, and an accumulator: two kernels.
// CHECK-LABEL: func.func @chain
// CHECK: train.fusion
// CHECK: train.scatter_add
// CHECK-NEXT: train.yield
// CHECK: train.fusion
// CHECK: train.scatter_add
// CHECK-NEXT: train.add
// CHECK-NEXT: train.add
// CHECK-NEXT: train.yield
// CHECK-NOT: train.fusion
// CHECK: return
func.func @chain(%i: tensor<5xi64>, %u: tensor<5x8xf32>, %v: tensor<5x8xf32>, %x: tensor<9x8xf32>) -> tensor<9x8xf32> {
  %0 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %1 = train.scatter_add %i, %v axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %2 = train.add %0, %1 : tensor<9x8xf32>
  %3 = train.add %x, %2 : tensor<9x8xf32>
  return %3 : tensor<9x8xf32>
}

// -----

// A table that a decoder and an encoder read, and the head: each sum is added where the last one is, when it is made. The
// decoder's does not wait for the encoder's.
// CHECK-LABEL: func.func @shared
// CHECK: %[[HEAD:.*]] = train.matmul
// CHECK: %[[DECODER:.*]] = train.fusion(%{{.*}}, %{{.*}}, %[[HEAD]]) : {{.*}} -> tensor<9x8xf32>
// CHECK: train.scatter_add
// CHECK-NEXT: train.add
// CHECK-NEXT: train.yield
// CHECK: %[[GRADIENT:.*]] = train.matmul
// CHECK: %[[SUM:.*]] = train.fusion(%{{.*}}, %[[GRADIENT]], %[[DECODER]]) : {{.*}} -> tensor<9x8xf32>
// CHECK: train.scatter_add
// CHECK-NEXT: train.add
// CHECK-NEXT: train.yield
// CHECK: return %[[SUM]]
func.func @shared(%i: tensor<5xi64>, %j: tensor<5xi64>, %u: tensor<5x8xf32>, %w: tensor<8x8xf32>, %x: tensor<9x5xf32>) -> tensor<9x8xf32> {
  %0 = train.matmul %x, %u : tensor<9x5xf32>, tensor<5x8xf32> -> tensor<9x8xf32>
  %1 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %2 = train.add %0, %1 : tensor<9x8xf32>
  %3 = train.matmul %u, %w : tensor<5x8xf32>, tensor<8x8xf32> -> tensor<5x8xf32>
  %4 = train.scatter_add %j, %3 axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %5 = train.add %2, %4 : tensor<9x8xf32>
  return %5 : tensor<9x8xf32>
}

// -----

// Sums that are read elsewhere, at other places, or of rows that do not meet, are stored.
// CHECK-LABEL: func.func @stored
// CHECK-COUNT-3: train.scatter_add {{.*}}{{[[:space:]]+}}train.yield
// CHECK: return
func.func @stored(%i: tensor<5xi64>, %u: tensor<5x8xf32>, %v: tensor<8x9xf32>, %x: tensor<9x8xf32>)
    -> (tensor<9x8xf32>, tensor<9x8xf32>, tensor<8x9xf32>, tensor<9x8xf32>) {
  %0 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %1 = train.add %x, %0 : tensor<9x8xf32>
  %2 = train.exp %u : tensor<5x8xf32>
  %3 = train.scatter_add %i, %2 axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %4 = train.transpose %3 permutation = [1, 0] : tensor<9x8xf32> -> tensor<8x9xf32>
  %5 = train.add %v, %4 : tensor<8x9xf32>
  %6 = train.scatter_add %i, %u axis = 0 unique : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %7 = train.add %x, %6 : tensor<9x8xf32>
  return %0, %1, %5, %7 : tensor<9x8xf32>, tensor<9x8xf32>, tensor<8x9xf32>, tensor<9x8xf32>
}

// -----

// An update that alone reads the sums takes them as they are made, with all of its results; where a norm reads them, too,
// they are stored.
// CHECK-LABEL: func.func @update
// CHECK: %[[NEW:.*]]:2 = train.fusion
// CHECK: train.scatter_add
// CHECK: train.yield {{.*}}, {{.*}} : tensor<9x8xf32>, tensor<9x8xf32>
// CHECK-NOT: train.fusion
// CHECK: return %[[NEW]]#1, %[[NEW]]#0
func.func @update(%i: tensor<5xi64>, %u: tensor<5x8xf32>, %p: tensor<9x8xf32>, %m: tensor<9x8xf32>) -> (tensor<9x8xf32>, tensor<9x8xf32>) {
  %0 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %1 = train.mul %0, %0 : tensor<9x8xf32>
  %2 = train.add %m, %1 : tensor<9x8xf32>
  %3 = train.div %0, %2 : tensor<9x8xf32>
  %4 = train.sub %p, %3 : tensor<9x8xf32>
  return %4, %2 : tensor<9x8xf32>, tensor<9x8xf32>
}

// -----

// CHECK-LABEL: func.func @clipped
// CHECK: train.scatter_add {{.*}}
// CHECK-NEXT: train.yield
// CHECK: train.reduce
// CHECK: train.sub
func.func @clipped(%i: tensor<5xi64>, %u: tensor<5x8xf32>, %p: tensor<9x8xf32>) -> tensor<9x8xf32> {
  %0 = train.scatter_add %i, %u axis = 0 : tensor<5xi64>, tensor<5x8xf32> -> tensor<9x8xf32>
  %1 = train.reduce sum %0 axes = [0, 1] : tensor<9x8xf32> -> tensor<f32>
  %2 = train.broadcast %1 axes = [] : tensor<f32> -> tensor<9x8xf32>
  %3 = train.mul %0, %2 : tensor<9x8xf32>
  %4 = train.sub %p, %3 : tensor<9x8xf32>
  return %4 : tensor<9x8xf32>
}
