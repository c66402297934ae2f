// RUN: trainc-opt %s --split-input-file --verify-diagnostics

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected 2 strides, got 1}}
  plan.gemm %a, %a, %a batch <> sizes <8, 8, 8> strides <8>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected sizes [m, n, k] and offsets [a, b, c]}}
  plan.gemm %a, %a, %a batch <> sizes <8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected at most 1 inputs, got 2}}
  plan.launch "k"(%a) inputs 2 dims <> work <1> grain 1 scratch <0>
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected a bias and an aux with this epilogue}}
  plan.gemm %a, %a, %a epilogue dgelu_bgrad aux %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected no bias and no aux with this epilogue}}
  plan.gemm %a, %a, %a bias %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer host : tensor<8xf32>
  %b = plan.buffer host : tensor<8xf32>
  // expected-error@+1 {{expected a buffer of the device on one side}}
  plan.copy %a to %b bytes <32>
}
