// RUN: trainc-opt %s --split-input-file --form-kernels | FileCheck %s

// Pointwise ops become one kernel; the broadcast is index arithmetic inside it.
// CHECK-LABEL: func.func @pointwise
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[K:.*]] = train.fusion(%[[X]], %[[B]])
// CHECK: train.broadcast
// CHECK: train.add
// CHECK: train.exp
// CHECK: train.yield
// CHECK-NOT: train.fusion
// CHECK: return %[[K]]
func.func @pointwise(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = train.broadcast %b axes = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %1 = train.add %x, %0 : tensor<4x8xf32>
  %2 = train.exp %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Two kernels that read the same tensor are one, which reads it once; not where one waits for what is made of the other.
// CHECK-LABEL: func.func @shared
// CHECK: %[[P:.*]] = train.matmul
// CHECK: train.fusion(%[[P]], %{{.*}}, %{{.*}}) : {{.*}} -> (tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK-NOT: train.fusion
// CHECK: return
func.func @shared(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = train.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %0 = train.mul %p, %a : tensor<8x8xf32>
  %1 = train.matmul %0, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = train.mul %p, %b : tensor<8x8xf32>
  %3 = train.matmul %2, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// CHECK-LABEL: func.func @shared_in_turn
// CHECK: train.fusion({{.*}}) : {{.*}} -> tensor<8x8xf32>
// CHECK: train.fusion({{.*}}) : {{.*}} -> tensor<8x8xf32>
func.func @shared_in_turn(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %p = train.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %0 = train.mul %p, %a : tensor<8x8xf32>
  %1 = train.matmul %0, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = train.mul %p, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Two reductions over the same axis, what comes between and after: one kernel.
// CHECK-LABEL: func.func @softmax
// CHECK: train.fusion
// CHECK: train.reduce max
// CHECK: train.reduce sum
// CHECK: train.div
// CHECK-NOT: train.fusion
// CHECK: return
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = train.reduce max %x axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = train.broadcast %0 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = train.sub %x, %1 : tensor<4x8xf32>
  %3 = train.exp %2 : tensor<4x8xf32>
  %4 = train.reduce sum %3 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %5 = train.broadcast %4 axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %6 = train.div %3, %5 : tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}

// -----

// Reductions over different axes are two kernels; the cheap product is computed in both, not stored.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK: train.fusion(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
// CHECK: train.mul
// CHECK: train.reduce
// CHECK: train.fusion(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8xf32>
// CHECK: train.mul
// CHECK: train.reduce
func.func @rows_and_columns(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = train.mul %x, %y : tensor<4x8xf32>
  %1 = train.reduce sum %0 axes = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = train.reduce sum %0 axes = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2 : tensor<4xf32>, tensor<8xf32>
}

// -----

// A library call reads the transpose through strides: no kernel for it.
// CHECK-LABEL: func.func @strided_operand
// CHECK-NOT: train.fusion
// CHECK: %[[T:.*]] = train.transpose
// CHECK: train.matmul %{{.*}}, %[[T]]
func.func @strided_operand(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>) -> tensor<2x4x4xf32> {
  %0 = train.transpose %y permutation = [0, 2, 1] : tensor<2x4x8xf32> -> tensor<2x8x4xf32>
  %1 = train.matmul %x, %0 : tensor<2x4x8xf32>, tensor<2x8x4xf32> -> tensor<2x4x4xf32>
  return %1 : tensor<2x4x4xf32>
}

// -----

// The call writes the transposed result itself.
// CHECK-LABEL: func.func @strided_result
// CHECK-NOT: train.fusion
// CHECK: %[[M:.*]] = train.matmul
// CHECK: %[[T:.*]] = train.transpose %[[M]]
// CHECK: train.fusion(%[[T]])
func.func @strided_result(%x: tensor<2x4x8xf32>, %y: tensor<2x8x3xf32>) -> tensor<2x3x4xf32> {
  %0 = train.matmul %x, %y : tensor<2x4x8xf32>, tensor<2x8x3xf32> -> tensor<2x4x3xf32>
  %1 = train.transpose %0 permutation = [0, 2, 1] : tensor<2x4x3xf32> -> tensor<2x3x4xf32>
  %2 = train.exp %1 : tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// -----

// The update waits for the last reader of the old value, and then runs before anything else.
// CHECK-LABEL: func.func @update
// CHECK: train.matmul
// CHECK: train.matmul
// CHECK: train.fusion({{.*}}) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: train.fusion({{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @update(%w: tensor<8x8xf32> {train.role = "parameter", train.name = "w"},
                  %g: tensor<8x8xf32>, %x: tensor<4x8xf32>)
    -> (tensor<8x8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"}, tensor<4x8xf32>) {
  %0 = train.sub %w, %g : tensor<8x8xf32>
  %1 = train.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %2 = train.matmul %1, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %3 = train.exp %2 : tensor<4x8xf32>
  return %0, %3 : tensor<8x8xf32>, tensor<4x8xf32>
}

// -----

// A number for each row that is repeated along it is read once for each row, through a view of what it is repeated to as well: nothing
// is stored for that.
// CHECK-LABEL: func.func @repeated_view
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8xf32>, %[[Y:.*]]: tensor<4x8xf32>)
// CHECK: %[[S:.*]] = train.fusion(%[[X]]) : (tensor<1x4x8xf32>) -> tensor<1x4xf32>
// CHECK: %[[K:.*]] = train.fusion(%[[S]], %[[Y]]) : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: train.broadcast
// CHECK: train.reshape
// CHECK-NOT: train.fusion
// CHECK: return %[[K]]
func.func @repeated_view(%x: tensor<1x4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = train.reduce sum %x axes = [2] : tensor<1x4x8xf32> -> tensor<1x4xf32>
  %1 = train.broadcast %0 axes = [0, 1] : tensor<1x4xf32> -> tensor<1x4x8xf32>
  %2 = train.reshape %1 : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %3 = train.mul %2, %y : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
