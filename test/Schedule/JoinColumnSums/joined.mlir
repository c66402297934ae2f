// Sums down the columns are made by the kernel of rows that reads the same tensors.
// RUN: trainc-opt %s --join-column-sums | FileCheck %s

!rows = tensor<?x64xf32, #train.dims<s, 64>>
!row = tensor<?xf32, #train.dims<s>>

// The gradients of a norm's input and of its weight: %x and %dy are read once; what the sums' kernel reads for nothing, by
// none. The column sum stands in place of the first of both.
// CHECK-LABEL: func.func @norm
// CHECK:       %[[ALL:.*]]:2 = train.fusion(%arg0, %arg1, %arg2)
// CHECK:         %[[SCALED:.*]] = train.mul
// CHECK:         train.reduce sum {{.*}} axes = [1]
// CHECK:         %[[SUM:.*]] = train.reduce sum %{{.*}} axes = [0]
// CHECK:         train.cast %[[SUM]]
// CHECK-NEXT:    train.yield
// CHECK-NOT:   train.fusion
// CHECK:       return %[[ALL]]#0, %[[ALL]]#1
func.func @norm(%x: !rows, %dy: !rows, %w: tensor<64xf32>, %rest: !rows) -> (!rows, tensor<64xbf16>) {
  %dw = train.fusion(%dy, %x, %rest) : (!rows, !rows, !rows) -> tensor<64xbf16> {
  ^bb0(%a: !rows, %b: !rows, %c: !rows):
    %0 = train.mul %a, %b : !rows
    %unread = train.add %0, %c : !rows
    %1 = train.reduce sum %0 axes = [0] : !rows -> tensor<64xf32>
    %2 = train.cast %1 : tensor<64xf32> -> tensor<64xbf16>
    train.yield %2 : tensor<64xbf16>
  }
  %dx = train.fusion(%x, %dy, %w) : (!rows, !rows, tensor<64xf32>) -> !rows {
  ^bb0(%a: !rows, %b: !rows, %c: tensor<64xf32>):
    %w_rows = train.broadcast %c axes = [1] : tensor<64xf32> -> !rows
    %0 = train.mul %b, %w_rows : !rows
    %1 = train.reduce sum %0 axes = [1] : !rows -> !row
    %2 = train.broadcast %1 axes = [0] : !row -> !rows
    %3 = train.mul %2, %a : !rows
    train.yield %3 : !rows
  }
  return %dx, %dw : !rows, tensor<64xbf16>
}

// Sums of what a kernel of rows makes: it is not stored if nobody else reads it. Rows of heads, and a second sum.
// CHECK-LABEL: func.func @made
// CHECK:       %[[ALL:.*]]:3 = train.fusion(%arg0, %arg1) : ({{.*}}) -> (tensor<512x8xf32>, tensor<128xf32>, tensor<128xf32>)
// CHECK-NOT:   train.fusion
// CHECK:       return %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2
func.func @made(%x: tensor<512x8x128xf32>, %y: tensor<512x8x128xf32>) -> (tensor<512x8xf32>, tensor<128xf32>, tensor<128xf32>) {
  %r:2 = train.fusion(%x) : (tensor<512x8x128xf32>) -> (tensor<512x8xf32>, tensor<512x8x128xf32>) {
  ^bb0(%a: tensor<512x8x128xf32>):
    %0 = train.reduce max %a axes = [2] : tensor<512x8x128xf32> -> tensor<512x8xf32>
    %1 = train.broadcast %0 axes = [0, 1] : tensor<512x8xf32> -> tensor<512x8x128xf32>
    %2 = train.sub %a, %1 : tensor<512x8x128xf32>
    train.yield %0, %2 : tensor<512x8xf32>, tensor<512x8x128xf32>
  }
  %first = train.fusion(%r#1) : (tensor<512x8x128xf32>) -> tensor<128xf32> {
  ^bb0(%a: tensor<512x8x128xf32>):
    %0 = train.reduce sum %a axes = [0, 1] : tensor<512x8x128xf32> -> tensor<128xf32>
    train.yield %0 : tensor<128xf32>
  }
  %second = train.fusion(%x, %y, %r#1) : (tensor<512x8x128xf32>, tensor<512x8x128xf32>, tensor<512x8x128xf32>) -> tensor<128xf32> {
  ^bb0(%a: tensor<512x8x128xf32>, %b: tensor<512x8x128xf32>, %c: tensor<512x8x128xf32>):
    %0 = train.mul %a, %b : tensor<512x8x128xf32>
    %1 = train.add %0, %c : tensor<512x8x128xf32>
    %2 = train.reduce sum %1 axes = [0, 1] : tensor<512x8x128xf32> -> tensor<128xf32>
    train.yield %2 : tensor<128xf32>
  }
  return %r#0, %first, %second : tensor<512x8xf32>, tensor<128xf32>, tensor<128xf32>
}

// What the sums' kernel has made for the rows is stored no more.
// CHECK-LABEL: func.func @for_rows
// CHECK:       %[[ALL:.*]]:2 = train.fusion(%arg0, %arg1) : ({{.*}}) -> (tensor<64xf32>, tensor<2048xf32>)
// CHECK-NOT:   train.fusion
// CHECK:       return %[[ALL]]#0, %[[ALL]]#1
func.func @for_rows(%x: tensor<2048x64xf32>, %y: tensor<2048x64xf32>) -> (tensor<64xf32>, tensor<2048xf32>) {
  %0:2 = train.fusion(%x, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> (tensor<2048x64xf32>, tensor<64xf32>) {
  ^bb0(%a: tensor<2048x64xf32>, %b: tensor<2048x64xf32>):
    %2 = train.mul %a, %b : tensor<2048x64xf32>
    %3 = train.reduce sum %2 axes = [0] : tensor<2048x64xf32> -> tensor<64xf32>
    train.yield %2, %3 : tensor<2048x64xf32>, tensor<64xf32>
  }
  %1 = train.fusion(%0#0) : (tensor<2048x64xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x64xf32>):
    %2 = train.reduce sum %a axes = [1] : tensor<2048x64xf32> -> tensor<2048xf32>
    train.yield %2 : tensor<2048xf32>
  }
  return %0#1, %1 : tensor<64xf32>, tensor<2048xf32>
}
