// RUN: trainc-opt %s | trainc-opt | FileCheck %s

// CHECK-LABEL: plan.function @step
// CHECK: %[[P:.*]] = plan.buffer parameter "w" : tensor<8x4xf32>
// CHECK: %[[X:.*]] = plan.buffer input "x" : tensor<?x8xf32, #train.dims<batch, 8>>
// CHECK: %[[Y:.*]] = plan.buffer arena : tensor<?x4xf32, #train.dims<batch, 4>>
// CHECK: plan.gemm %[[X]], %[[P]], %[[Y]] batch <> sizes <batch, 4, 8> strides <8, 1>, <4, 1>, <4, 1> offsets <0, 0, 0> : f32 -> f32
// CHECK: plan.gemm %[[X]], %[[P]], %[[Y]] epilogue gelu_aux_bias bias %[[P]] aux %[[Y]] batch <>
// CHECK: plan.launch "k0"(%[[Y]], %[[Y]]) inputs 1 dims <batch> work <4*batch> grain 16 scratch <0>
// CHECK: plan.copy %[[Y]] to %{{.*}} bytes <16*batch>
// CHECK: plan.copy %[[Y]] to %[[H:.*]] bytes <16*batch>
// CHECK: plan.collective all_reduce %[[P]], %[[Y]] elements <32, 4*batch> : f32
// CHECK: plan.collective all_reduce verdict %[[P]] elements <1> : f32
// CHECK: plan.collective all_reduce of bf16 %[[P]], %[[Y]] elements <32, 32> : f32
// CHECK: plan.collective reduce_scatter %[[P]], %[[Y]] elements <32, 4*batch> : f32
// CHECK: plan.collective all_gather %[[Y]], %[[P]] elements <4*batch, 32> : f32
// CHECK: plan.loop scanned(%[[Y]]) by(%[[S:.*]]) stacked() by() kept(%[[P]]) steps <batch> reverse
// CHECK: plan.loop end scanned(%[[Y]]) by(%[[S]]) stacked() by() kept(%[[P]]) steps <batch> reverse
// CHECK: plan.convolution filter %[[Y]], %[[P]], %[[Y]] sizes <batch, 8, 4, 1> positions <9> taps <3> windows <5> strides <2> dilations <1> pads <1> tf32 : f32
// CHECK: plan.external "p" "f"(%[[P]], %[[Y]]) inputs 1 : [tensor<8x4xf32>, tensor<?x4xf32, #train.dims<batch, 4>>] flops <4*batch>
// CHECK: plan.external "p" "k"(%[[P]]) inputs 1 : [tensor<8x4xf32>] flops <0> launch <batch, 1, 1, 32, 1, 1, 0> arguments [0, #train.dim<batch>]
// CHECK: plan.release %[[Y]]
plan.function @step {
  %w = plan.buffer parameter "w" : tensor<8x4xf32>
  %x = plan.buffer input "x" : tensor<?x8xf32, #train.dims<batch, 8>>
  %y = plan.buffer arena : tensor<?x4xf32, #train.dims<batch, 4>>
  %o = plan.buffer output "y" : tensor<?x4xf32, #train.dims<batch, 4>>
  %c = plan.buffer constant value dense<[1, 2]> : tensor<2xi64> : tensor<2xi64>
  plan.gemm %x, %w, %y batch <> sizes <batch, 4, 8> strides <8, 1>, <4, 1>, <4, 1> offsets <0, 0, 0> : f32 -> f32
  plan.gemm %x, %w, %y epilogue gelu_aux_bias bias %w aux %y batch <> sizes <batch, 4, 8> strides <8, 1>, <4, 1>, <4, 1> offsets <0, 0, 0> : f32 -> f32
  plan.launch "k0"(%y, %y) inputs 1 dims <batch> work <batch*4> grain 16 scratch <0>
  plan.copy %y to %o bytes <batch*16>
  %h = plan.buffer host : tensor<?x4xf32, #train.dims<batch, 4>>
  plan.copy %y to %h bytes <batch*16>
  plan.collective all_reduce %w, %y elements <32, 4*batch> : f32
  plan.collective all_reduce verdict %w elements <1> : f32
  plan.collective all_reduce of bf16 %w, %y elements <32, 32> : f32
  plan.collective reduce_scatter %w, %y elements <32, 4*batch> : f32
  plan.collective all_gather %y, %w elements <4*batch, 32> : f32
  %s = plan.buffer arena : tensor<4xf32>
  plan.loop scanned(%y) by(%s) stacked() by() kept(%w) steps <batch> reverse
  plan.loop end scanned(%y) by(%s) stacked() by() kept(%w) steps <batch> reverse
  plan.convolution filter %y, %w, %y sizes <batch, 8, 4, 1> positions <9> taps <3> windows <5> strides <2> dilations <1> pads <1> tf32 : f32
  plan.external "p" "f"(%w, %y) inputs 1 : [tensor<8x4xf32>, tensor<?x4xf32, #train.dims<batch, 4>>] flops <4*batch>
  plan.external "p" "k"(%w) inputs 1 : [tensor<8x4xf32>] flops <0> launch <batch, 1, 1, 32, 1, 1, 0> arguments [0, #train.dim<batch>]
  plan.release %y
}
