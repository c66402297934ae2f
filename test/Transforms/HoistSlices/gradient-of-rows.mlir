// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One row of each sample, at a computed position, in a graph that holds its gradients: rows of the merged axis, which
// views take apart into samples and positions.
// RUN: trainc-opt %s --raise-idioms --cse --hoist-slices --canonicalize --cse | FileCheck %s
// RUN: trainc-opt %s --raise-idioms --cse --hoist-slices --canonicalize --cse > %t.once
// RUN: trainc-opt %t.once --hoist-slices --canonicalize --cse | diff %t.once -
// RUN: trainc-opt %s --raise-idioms --cse --hoist-slices --remarks-filter='hoist-slices' --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

train.symbol @batch min 1 input "x" axis 0
train.symbol @seq min 1 input "x" axis 1

!rows = tensor<?x?x4xf32, #train.dims<batch, seq, 4>>
!flat = tensor<?x4xf32, #train.dims<batch*seq, 4>>
!one = tensor<?x4xf32, #train.dims<batch, 4>>
!each = tensor<?xi64, #train.dims<batch>>
!column = tensor<?x1xi64, #train.dims<batch, 1>>

// x[arange(batch), at], and its gradient: index_put, as PyTorch exports it.
// CHECK-LABEL: func.func @last_tokens
// CHECK-NOT: train.matmul {{.*}}batch*seq
// CHECK: train.matmul {{.*}} : tensor<?x4xf32, #train.dims<batch, 4>>, tensor<4x4xf32>
// CHECK-NOT: train.matmul {{.*}}batch*seq
// CHECK: train.matmul {{.*}} : tensor<4x?xf32, #train.dims<4, batch>>, tensor<?x4xf32, #train.dims<batch, 4>> -> tensor<4x4xf32>
// CHECK-NOT: train.matmul {{.*}}batch*seq
// CHECK: return
// REMARK-DAG: [Passed] Restricted {{.*}} Function=last_tokens {{.*}}"train.mul of node 'tanh_grad' leaves out rows where a gradient is 0"
// REMARK-DAG: [Passed] Restricted {{.*}} Function=last_tokens {{.*}}"train.matmul of node 'dw' leaves out rows where a gradient is 0"
func.func @last_tokens(%x: !rows, %w: tensor<4x4xf32>, %at: !each, %g: !one) -> (!one, tensor<4x4xf32>) {
  %flat = train.reshape %x : !rows -> !flat
  %0 = train.matmul %flat, %w : !flat, tensor<4x4xf32> -> !flat
  %1 = train.reshape %0 : !flat -> !rows
  %2 = train.tanh %1 : !rows
  %sample = train.iota 0 : !each
  %3 = train.reshape %sample : !each -> !column
  %4 = train.reshape %at : !each -> !column
  %5 = train.concat %3, %4 axis = 1 : (!column, !column) -> tensor<?x2xi64, #train.dims<batch, 2>>
  %6 = train.gather_nd %2, %5 batch_dims = 0 : !rows, tensor<?x2xi64, #train.dims<batch, 2>> -> !one

  %7 = train.slice %5 starts = <0, 1> steps = [1, 1] : tensor<?x2xi64, #train.dims<batch, 2>> -> !column
  %8 = train.reshape %7 : !column -> !each
  %zero = train.full 0 : i64 : !each
  %below = train.compare lt %8, %zero : !each -> tensor<?xi1, #train.dims<batch>>
  %seq = train.dim <seq> : tensor<i64>
  %size = train.broadcast %seq axes = [] : tensor<i64> -> !each
  %9 = train.add %8, %size : !each
  %10 = train.select %below, %9, %8 : tensor<?xi1, #train.dims<batch>>, !each
  %11 = train.mul %sample, %size : !each
  %12 = train.add %11, %10 : !each
  %13 = train.broadcast %12 axes = [0] : !each -> tensor<?x4xi64, #train.dims<batch, 4>>
  %14 = train.scatter_elements_add %13, %g axis = 0 : tensor<?x4xi64, #train.dims<batch, 4>>, !one -> !flat
  %15 = train.reshape %14 : !flat -> !rows
  %16 = train.mul %2, %2 : !rows
  %c = train.full 1.0 : f32 : !rows
  %17 = train.sub %c, %16 : !rows
  %18 = train.mul %15, %17 : !rows loc("tanh_grad")
  %19 = train.reshape %18 : !rows -> !flat
  %20 = train.transpose %flat permutation = [1, 0] : !flat -> tensor<4x?xf32, #train.dims<4, batch*seq>>
  %21 = train.matmul %20, %19 : tensor<4x?xf32, #train.dims<4, batch*seq>>, !flat -> tensor<4x4xf32> loc("dw")
  return %6, %21 : !one, tensor<4x4xf32>
}

// Two samples' rows may be one: sample * 2 is no sample's first row.
// CHECK-LABEL: func.func @other_stride
// CHECK: train.scatter_{{.*}}add
// CHECK: train.mul %{{.*}} : tensor<?x4xf32, #train.dims<batch*seq, 4>>
func.func @other_stride(%x: !rows, %at: !each, %g: !one) -> !flat {
  %sample = train.iota 0 : !each
  %two = train.full 2 : i64 : !each
  %0 = train.mul %sample, %two : !each
  %1 = train.add %0, %at : !each
  %2 = train.broadcast %1 axes = [0] : !each -> tensor<?x4xi64, #train.dims<batch, 4>>
  %3 = train.scatter_elements_add %2, %g axis = 0 : tensor<?x4xi64, #train.dims<batch, 4>>, !one -> !flat
  %4 = train.mul %3, %3 : !flat
  return %4 : !flat
}
