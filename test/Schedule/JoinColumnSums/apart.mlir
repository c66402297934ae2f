// What stays as it is, and what is told of it.
// RUN: trainc-opt %s --join-column-sums --remarks-filter=join-column-sums 2>&1 | FileCheck %s
// RUN: trainc-opt %s --join-column-sums='min-rows=64' | FileCheck %s --check-prefix=ROWS
// RUN: trainc-opt %s --join-column-sums='max-length=4097' | FileCheck %s --check-prefix=LENGTH
// RUN: trainc-opt %s --join-column-sums='max-sums=0' | FileCheck %s --check-prefix=SUMS

!unknown = tensor<?x?xf32, #train.dims<a, b>>

// A matmul stands between: the sums need its result, and it that of the rows.
// CHECK: KeptApart
// CHECK-SAME: what the kernel that reads them too needs, or is needed for, stands between the two
// CHECK-LABEL: func.func @between
// CHECK: train.fusion
// CHECK: train.matmul
// CHECK: train.fusion
func.func @between(%x: tensor<2048x2048xf32>) -> tensor<2048xf32> {
  %0 = train.fusion(%x) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  ^bb0(%a: tensor<2048x2048xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<2048x2048xf32> -> tensor<2048xf32>
    %4 = train.broadcast %3 axes = [0] : tensor<2048xf32> -> tensor<2048x2048xf32>
    %5 = train.mul %a, %4 : tensor<2048x2048xf32>
    train.yield %5 : tensor<2048x2048xf32>
  }
  %1 = train.matmul %0, %0 : tensor<2048x2048xf32>, tensor<2048x2048xf32> -> tensor<2048x2048xf32>
  %2 = train.fusion(%x, %0, %1) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x2048xf32>, %b: tensor<2048x2048xf32>, %c: tensor<2048x2048xf32>):
    %3 = train.mul %a, %b : tensor<2048x2048xf32>
    %4 = train.mul %3, %c : tensor<2048x2048xf32>
    %5 = train.reduce sum %4 axes = [0] : tensor<2048x2048xf32> -> tensor<2048xf32>
    train.yield %5 : tensor<2048xf32>
  }
  return %2 : tensor<2048xf32>
}

// One launch sums up few rows.
// CHECK-LABEL: func.func @few
// CHECK-COUNT-2: train.fusion
// ROWS-LABEL: func.func @few
// ROWS: train.fusion
// ROWS-NOT: train.fusion
// ROWS: return
// SUMS-LABEL: func.func @few
// SUMS-COUNT-2: train.fusion
func.func @few(%x: tensor<1023x64xf32>) -> (tensor<1023xf32>, tensor<64xf32>) {
  %0 = train.fusion(%x) : (tensor<1023x64xf32>) -> tensor<1023xf32> {
  ^bb0(%a: tensor<1023x64xf32>):
    %2 = train.reduce sum %a axes = [1] : tensor<1023x64xf32> -> tensor<1023xf32>
    train.yield %2 : tensor<1023xf32>
  }
  %1 = train.fusion(%x) : (tensor<1023x64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<1023x64xf32>):
    %2 = train.reduce sum %a axes = [0] : tensor<1023x64xf32> -> tensor<64xf32>
    train.yield %2 : tensor<64xf32>
  }
  return %0, %1 : tensor<1023xf32>, tensor<64xf32>
}

// Threads do not hold rows of such a length, or of one that is not known.
// CHECK-LABEL: func.func @long
// CHECK-COUNT-2: train.fusion
// LENGTH-LABEL: func.func @long
// LENGTH: train.fusion
// LENGTH-NOT: train.fusion
// LENGTH: return
func.func @long(%x: tensor<2048x4097xf32>) -> (tensor<2048xf32>, tensor<4097xf32>) {
  %0 = train.fusion(%x) : (tensor<2048x4097xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x4097xf32>):
    %2 = train.reduce sum %a axes = [1] : tensor<2048x4097xf32> -> tensor<2048xf32>
    train.yield %2 : tensor<2048xf32>
  }
  %1 = train.fusion(%x) : (tensor<2048x4097xf32>) -> tensor<4097xf32> {
  ^bb0(%a: tensor<2048x4097xf32>):
    %2 = train.reduce sum %a axes = [0] : tensor<2048x4097xf32> -> tensor<4097xf32>
    train.yield %2 : tensor<4097xf32>
  }
  return %0, %1 : tensor<2048xf32>, tensor<4097xf32>
}

// CHECK-LABEL: func.func @unknown
// CHECK-COUNT-2: train.fusion
func.func @unknown(%x: !unknown) -> (tensor<?xf32, #train.dims<a>>, tensor<?xf32, #train.dims<b>>) {
  %0 = train.fusion(%x) : (!unknown) -> tensor<?xf32, #train.dims<a>> {
  ^bb0(%a: !unknown):
    %2 = train.reduce sum %a axes = [1] : !unknown -> tensor<?xf32, #train.dims<a>>
    train.yield %2 : tensor<?xf32, #train.dims<a>>
  }
  %1 = train.fusion(%x) : (!unknown) -> tensor<?xf32, #train.dims<b>> {
  ^bb0(%a: !unknown):
    %2 = train.reduce sum %a axes = [0] : !unknown -> tensor<?xf32, #train.dims<b>>
    train.yield %2 : tensor<?xf32, #train.dims<b>>
  }
  return %0, %1 : tensor<?xf32, #train.dims<a>>, tensor<?xf32, #train.dims<b>>
}

// More would be read for the sums than the rows have in common with them.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: train.fusion
func.func @others(%x: tensor<2048x64xf32>, %y: tensor<2048x64xf32>, %z: tensor<2048x64xf32>) -> (tensor<2048xf32>, tensor<64xf32>) {
  %0 = train.fusion(%x) : (tensor<2048x64xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x64xf32>):
    %2 = train.reduce sum %a axes = [1] : tensor<2048x64xf32> -> tensor<2048xf32>
    train.yield %2 : tensor<2048xf32>
  }
  %1 = train.fusion(%x, %y, %z) : (tensor<2048x64xf32>, tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<2048x64xf32>, %b: tensor<2048x64xf32>, %c: tensor<2048x64xf32>):
    %2 = train.mul %a, %b : tensor<2048x64xf32>
    %3 = train.mul %2, %c : tensor<2048x64xf32>
    %4 = train.reduce sum %3 axes = [0] : tensor<2048x64xf32> -> tensor<64xf32>
    train.yield %4 : tensor<64xf32>
  }
  return %0, %1 : tensor<2048xf32>, tensor<64xf32>
}

// The rows wait for the sums.
// CHECK-LABEL: func.func @waits
// CHECK-COUNT-2: train.fusion
func.func @waits(%x: tensor<2048x64xf32>) -> tensor<2048xf32> {
  %0 = train.fusion(%x) : (tensor<2048x64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<2048x64xf32>):
    %2 = train.reduce sum %a axes = [0] : tensor<2048x64xf32> -> tensor<64xf32>
    train.yield %2 : tensor<64xf32>
  }
  %1 = train.fusion(%x, %0) : (tensor<2048x64xf32>, tensor<64xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x64xf32>, %b: tensor<64xf32>):
    %2 = train.broadcast %b axes = [1] : tensor<64xf32> -> tensor<2048x64xf32>
    %3 = train.mul %a, %2 : tensor<2048x64xf32>
    %4 = train.reduce sum %3 axes = [1] : tensor<2048x64xf32> -> tensor<2048xf32>
    train.yield %4 : tensor<2048xf32>
  }
  return %1 : tensor<2048xf32>
}

// The second one reads a parameter that the sums' kernel may write, in between.
// CHECK-LABEL: func.func @updated
// CHECK-COUNT-3: train.fusion
func.func @updated(%x: tensor<2048x64xf32>, %w: tensor<64xf32>) -> (tensor<2048xf32>, tensor<64xf32>, tensor<2048x64xf32>) {
  %0 = train.fusion(%x) : (tensor<2048x64xf32>) -> tensor<2048xf32> {
  ^bb0(%a: tensor<2048x64xf32>):
    %3 = train.reduce sum %a axes = [1] : tensor<2048x64xf32> -> tensor<2048xf32>
    train.yield %3 : tensor<2048xf32>
  }
  %1 = train.fusion(%x, %w, %0) : (tensor<2048x64xf32>, tensor<64xf32>, tensor<2048xf32>) -> tensor<2048x64xf32> {
  ^bb0(%a: tensor<2048x64xf32>, %b: tensor<64xf32>, %c: tensor<2048xf32>):
    %3 = train.broadcast %b axes = [1] : tensor<64xf32> -> tensor<2048x64xf32>
    %4 = train.broadcast %c axes = [0] : tensor<2048xf32> -> tensor<2048x64xf32>
    %5 = train.add %a, %3 : tensor<2048x64xf32>
    %6 = train.add %5, %4 : tensor<2048x64xf32>
    train.yield %6 : tensor<2048x64xf32>
  }
  %2 = train.fusion(%x, %w) : (tensor<2048x64xf32>, tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<2048x64xf32>, %b: tensor<64xf32>):
    %3 = train.reduce sum %a axes = [0] : tensor<2048x64xf32> -> tensor<64xf32>
    %4 = train.sub %b, %3 : tensor<64xf32>
    train.yield %4 : tensor<64xf32>
  }
  return %0, %2, %1 : tensor<2048xf32>, tensor<64xf32>, tensor<2048x64xf32>
}
