// A convolution and both of its gradients are one command each; their operands are row major.
// RUN: trainc-test-opt %s --test-train-to-plan | FileCheck %s

// CHECK-LABEL: plan.function @step
// CHECK: %[[X:.*]] = plan.buffer input "x"
// CHECK: %[[W:.*]] = plan.buffer parameter "w"
// CHECK: %[[DX:.*]] = plan.buffer output "dx"
// CHECK: %[[DW:.*]] = plan.buffer output "dw"
// CHECK: %[[Y:.*]] = plan.buffer arena
// CHECK: plan.convolution forward %[[X]], %[[W]], %[[Y]] sizes <batch, 4, 6, 2> positions <9, 10> taps <3, 1> windows <5, 5> strides <2, 2> dilations <1, 1> pads <1, 0> : f32
// CHECK: plan.convolution data %[[DX]], %[[W]], %[[Y]] sizes <batch, 4, 6, 2> positions <9, 10>
// CHECK: plan.convolution filter %[[X]], %[[DW]], %[[Y]] sizes <batch, 4, 6, 2> positions <9, 10>
!image = tensor<?x9x10x4xf32, #train.dims<batch, 9, 10, 4>>
!windows = tensor<?x5x5x6xf32, #train.dims<batch, 5, 5, 6>>
!filter = tensor<6x3x1x2xf32>
func.func @step(%x: !image {train.role = "input", train.name = "x"}, %w: !filter {train.role = "parameter", train.name = "w"})
    -> (!image {train.role = "output", train.name = "dx"}, !filter {train.role = "output", train.name = "dw"}) {
  %y = train.conv %x, %w strides = [2, 2] dilations = [1, 1] low = <1, 0> high = <1, 0> groups = 2
      : (!image, !filter) -> !windows
  %dx = train.conv_data_grad %y, %w strides = [2, 2] dilations = [1, 1] low = <1, 0> high = <1, 0> groups = 2
      : (!windows, !filter) -> !image
  %dw = train.conv_filter_grad %x, %y strides = [2, 2] dilations = [1, 1] low = <1, 0> high = <1, 0> groups = 2
      : (!image, !windows) -> !filter
  return %dx, %dw : !image, !filter
}
