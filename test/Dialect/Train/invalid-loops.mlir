// RUN: trainc-opt %s -split-input-file -verify-diagnostics

func.func @axis(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{expected scanned operand 0 to have a first axis of seq, got 'tensor<3x4xf32>'}}
  train.loop () scanned (%x) invariant () steps <seq> : (tensor<3x4xf32>) -> () {
  ^bb0(%s: tensor<4xf32>):
    train.loop_yield
  }
  return
}

// -----

func.func @results(%h: tensor<4xf32>) {
  // expected-error@+1 {{expected a result for each of 1 carried values, got 0}}
  train.loop (%h) scanned () invariant () steps <3> : (tensor<4xf32>) -> () {
  ^bb0(%c: tensor<4xf32>):
    train.loop_yield
  }
  return
}

// -----

func.func @arguments(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{expected a body of 'tensor<4xf32>', got 'tensor<3x4xf32>'}}
  train.loop () scanned (%x) invariant () steps <3> : (tensor<3x4xf32>) -> () {
  ^bb0(%s: tensor<3x4xf32>):
    train.loop_yield
  }
  return
}

// -----

func.func @stacked(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{expected results of 'tensor<3x4xf32>', got 'tensor<4xf32>'}}
  %0 = train.loop () scanned (%x) invariant () steps <3> : (tensor<3x4xf32>) -> tensor<4xf32> {
  ^bb0(%s: tensor<4xf32>):
    train.loop_yield %s : tensor<4xf32>
  }
  return
}

// -----

func.func @carried(%h: tensor<4xf32>, %x: tensor<3x5xf32>) {
  // expected-error@+1 {{expected to carry on 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %0 = train.loop (%h) scanned (%x) invariant () steps <3> : (tensor<4xf32>, tensor<3x5xf32>) -> tensor<5xf32> {
  ^bb0(%c: tensor<4xf32>, %s: tensor<5xf32>):
    train.loop_yield %s : tensor<5xf32>
  }
  return
}
