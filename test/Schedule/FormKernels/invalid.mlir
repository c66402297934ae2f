// RUN: trainc-opt %s --form-kernels --verify-diagnostics

func.func @composite(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{op 'train.softmax' does not say how it becomes a kernel}}
  %0 = train.softmax %x axis = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
