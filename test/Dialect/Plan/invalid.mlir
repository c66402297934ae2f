// RUN: trainc-opt %s --split-input-file --verify-diagnostics

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected 2 strides, got 1}}
  plan.gemm %a, %a, %a batch <> sizes <8, 8, 8> strides <8>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected sizes [m, n, k] and offsets [a, b, c]}}
  plan.gemm %a, %a, %a batch <> sizes <8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
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
  plan.gemm %a, %a, %a epilogue dgelu_bgrad aux %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected a result of 'f32', got 'f64'}}
  plan.gemm %a, %a, %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f64
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xbf16>
  // expected-error@+1 {{expected a result of 'bf16', got 'f32'}}
  plan.gemm %a, %a, %a epilogue dgelu aux %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : bf16 -> f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected no bias and no aux with this epilogue}}
  plan.gemm %a, %a, %a bias %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> : f32 -> f32
}

// -----

plan.function @f {
  %a = plan.buffer host : tensor<8xf32>
  %b = plan.buffer host : tensor<8xf32>
  // expected-error@+1 {{expected a buffer of the device on one side}}
  plan.copy %a to %b bytes <32>
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected 7 sizes, got 2}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected 5 offsets, one for each operand, got 1}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected 3 strides of o, got 1}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64>, scale = 1.0 : f64, dropout = 0.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected strides and a type of the bias where there is one}}
  plan.attention %a, %a, %a, %a, %a bias %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected sizes of segments where there are any}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64, segment_sizes = #train.dims<1, 8>}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected d_o, d_q, d_k and d_v with their strides, or none of them}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64, d_o_strides = #train.dims<64, 64, 8>}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected d_bias only with d_o and a bias}}
  plan.attention %a, %a, %a, %a, %a bias_gradient %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected a dropout from 0 to below 1, got 1}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 1.0 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected a seed with dropout}}
  plan.attention %a, %a, %a, %a, %a : f32 {sizes = #train.dims<1, 1, 1, 8, 8, 8, 8>, offsets = #train.dims<0, 0, 0, 0, 0>, q_strides = #train.dims<64, 64, 8>, k_strides = #train.dims<64, 64, 8>, v_strides = #train.dims<64, 64, 8>, o_strides = #train.dims<64, 64, 8>, scale = 1.0 : f64, dropout = 0.5 : f64}
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected `accumulate`, without an epilogue, for a sum}}
  plan.gemm %a, %a, %a epilogue bias bias %a batch <> sizes <8, 8, 8> strides <8, 1>, <8, 1>, <8, 1> offsets <0, 0, 0> accumulate : f32 -> f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected a work and a grain for each variant}}
  plan.launch "k"(%a) inputs 1 dims <> work <1> grain 1 scratch <0> variants ["k"] work <1, 2> grain [1]
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8x8xf32>
  // expected-error@+1 {{expected no variants of a group}}
  plan.launch "k"(%a, %a) inputs 1 dims <> work <1> grain 1 scratch <0> group <1, 1> variants ["k"] work <1> grain [1]
}

// -----

plan.function @f {
  // expected-error@+1 {{'arith.constant' is neither a buffer nor a command, which a plan consists of}}
  %0 = arith.constant 1 : i64
}

// -----

plan.function @f {
  // expected-error@+1 {{expected a name in the space 'input'}}
  %a = plan.buffer input : tensor<8xf32>
}

// -----

plan.function @f {
  // expected-error@+1 {{expected no name in the space 'arena'}}
  %a = plan.buffer arena "a" : tensor<8xf32>
}

// -----

plan.function @f {
  // expected-error@+1 {{expected a value in the space 'constant', and in no other, got none in 'constant'}}
  %a = plan.buffer constant : tensor<8xf32>
}

// -----

plan.function @f {
  // expected-error@+1 {{expected a value of type 'tensor<3xi64>', got 'tensor<2xi64>'}}
  %a = plan.buffer constant value dense<[1, 2]> : tensor<2xi64> : tensor<3xi64>
}

// -----

plan.function @f {
  %a = plan.buffer parameter "w" : tensor<8xf32>
  // expected-error@+1 {{expected a buffer of the arena, got one in the space 'parameter'}}
  plan.release %a
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  %b = plan.buffer host : tensor<8xf32>
  // expected-error@+1 {{ends a buffer's lifetime before its last use}}
  plan.release %a
  // expected-note@+1 {{which is here}}
  plan.copy %a to %b bytes <32>
}

// -----

plan.function @f {
  // expected-error@+1 {{expected a tensor at least}}
  "plan.collective"() {kind = #plan<collective_kind all_reduce>, elements = #train.dims<>, element_type = f32} : () -> ()
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected a number of elements for each of 1 tensors, got 2}}
  plan.collective all_reduce %a elements <8, 8> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xbf16>
  // expected-error@+1 {{expected tensors of f32 or f64, got 'bf16'}}
  plan.collective all_reduce %a elements <8> : bf16
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf64>
  // expected-error@+1 {{expected sums of bf16 or f16 in f32, got those of 'bf16' in 'f64'}}
  plan.collective all_reduce of bf16 %a, %a elements <8, 8> : f64
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected as many tensors to write as to read, got 1 together}}
  plan.collective all_reduce of bf16 %a elements <8> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected a verdict to be an all_reduce of one f32}}
  plan.collective all_reduce verdict %a elements <8> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected as many tensors to write as to read, got 1 together}}
  plan.collective all_gather %a elements <8> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected a slice for each of 1 and 0 tensors, got 0 and 0}}
  plan.loop scanned(%a) by() stacked() by() kept() steps <8>
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected sizes [batch, channels, filters, groups], got 3}}
  plan.convolution forward %a, %a, %a sizes <1, 2, 2> positions <2> taps <1> windows <1> strides <2> dilations <1> pads <0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected one to three axes of positions, got 0}}
  plan.convolution forward %a, %a, %a sizes <1, 2, 2, 1> positions <> taps <> windows <> strides <> dilations <> pads <> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected a number for each of 1 axes, got 2}}
  plan.convolution forward %a, %a, %a sizes <1, 2, 2, 1> positions <2> taps <1> windows <1> strides <2, 2> dilations <1> pads <0> : f32
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected a type for each of 1 buffers, got 0}}
  plan.external "p" "f"(%a) inputs 1 : [] flops <0>
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected at most 1 inputs, got 2}}
  plan.external "p" "f"(%a) inputs 2 : [tensor<8xf32>] flops <0>
}

// -----

plan.function @f {
  %a = plan.buffer arena : tensor<8xf32>
  // expected-error@+1 {{expected tensors with named sizes and types of a package's, got 'tensor<?xf32>'}}
  plan.external "p" "f"(%a) inputs 1 : [tensor<?xf32>] flops <0>
}
