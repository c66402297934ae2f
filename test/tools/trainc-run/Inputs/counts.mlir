// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A linear model to whose loss the count `labelled` is added, less 1, so that its value is seen.
module {
  train.symbol @rows min 1 input "x" axis 0
  train.symbol @labelled min 8 divisor 8 input "labels" differs -100
  func.func @forward(%w: tensor<3xf32> {train.role = "parameter", train.name = "w", train.trainable},
                     %x: tensor<?x3xf32, #train.dims<rows, 3>> {train.role = "input", train.name = "x"},
                     %labels: tensor<?xi64, #train.dims<rows>> {train.role = "input", train.name = "labels"})
      -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
    %0 = train.broadcast %w axes = [1] : tensor<3xf32> -> tensor<?x3xf32, #train.dims<rows, 3>>
    %1 = train.mul %x, %0 : tensor<?x3xf32, #train.dims<rows, 3>>
    %2 = train.reduce sum %1 axes = [0, 1] : tensor<?x3xf32, #train.dims<rows, 3>> -> tensor<f32>
    %3 = train.iota 0 : tensor<?xf32, #train.dims<labelled>>
    %4 = train.reduce max %3 axes = [0] : tensor<?xf32, #train.dims<labelled>> -> tensor<f32>
    %5 = train.add %2, %4 : tensor<f32>
    return %5 : tensor<f32>
  }
}
