// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 targets=proj" | FileCheck %s
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 dropout=0.25" | FileCheck %s --check-prefix=DROP
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 targets=proj rank-pattern=1=down rslora save=head bias=lora_only" | FileCheck %s --check-prefix=OPTIONS
// RUN: trainc-opt %s --insert-lora="rank=2 alpha=4 targets=proj" --remarks-filter=insert-lora --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Nothing but the branches is trained; they begin as PEFT's do, and what adapter files say is kept.
// CHECK: module attributes {train.lora = {alpha = 4.000000e+00 : f64, bias = "none",
// CHECK-SAME: modules = [{a = "l.up_proj.lora_A.weight", alpha = 4.000000e+00 : f64, b = "l.up_proj.lora_B.weight", embedding = false, fan_in_fan_out = false, path = "l.up_proj", rank = 2 : i64, scale = 2.000000e+00 : f64, weight = "l.up_proj.weight"}
// CHECK-SAME: fan_in_fan_out = true, path = "l.down_proj"
// CHECK: func.func @forward
// CHECK-NOT: train.trainable{{.*}}l.up_proj.weight
// CHECK-SAME: %[[A:arg[0-9]+]]: tensor<2x4xf32> {train.init = {uniform = 5.000000e-01 : f64}, train.name = "l.up_proj.lora_A.weight", train.role = "parameter", train.trainable}
// CHECK-SAME: %[[B:arg[0-9]+]]: tensor<8x2xf32> {train.init = {constant = 0.000000e+00 : f64}, train.name = "l.up_proj.lora_B.weight", train.role = "parameter", train.trainable}
// CHECK: %[[Y:[0-9]+]] = train.matmul %[[X:[a-z0-9]+]], %{{[a-z0-9]+}} transposed : tensor<6x4xf32>, tensor<8x4xf32>
// CHECK-NEXT: %[[LOW:[0-9]+]] = train.matmul %[[X]], %[[A]] transposed
// CHECK-NEXT: %[[SCALE:[0-9]+]] = train.full 2.000000e+00
// CHECK-NEXT: %[[SCALED:[0-9]+]] = train.mul %[[B]], %[[SCALE]]
// CHECK-NEXT: %[[BRANCH:[0-9]+]] = train.matmul %[[LOW]], %[[SCALED]] transposed
// CHECK-NEXT: %[[SUM:[0-9]+]] = train.add %[[Y]], %[[BRANCH]]
// CHECK-NEXT: train.broadcast
// CHECK-NEXT: train.add %[[SUM]],

// Each branch has its own mask, before rows are put together. The head has no branch.
// DROP: %[[KEY:[0-9]+]] = train.rng_key
// DROP: train.dropout %{{.*}}, %[[KEY]] {{.*}}2.500000e-01{{.*}}tensor<2x3x4xf32>
// DROP: train.rng_key
// DROP: train.dropout
// DROP-NOT: train.dropout

// OPTIONS: modules_to_save = ["head.weight"]
// OPTIONS-SAME: trained_biases = ["l.up_proj.bias"]
// OPTIONS: train.name = "l.up_proj.bias"{{.*}}train.trainable
// OPTIONS: train.full 2.82842708
// OPTIONS: train.full 4.000000e+00 : f32 : tensor<4x1xf32>

// REMARK-DAG: NotInserted{{.*}}targets does not match its name{{.*}}no branch at 'head'
// REMARK-DAG: Inserted{{.*}}a branch of rank 2 and scale 2.00 at 'l.up_proj'
func.func @forward(%up: tensor<8x4xf32> {train.role = "parameter", train.name = "l.up_proj.weight", train.trainable},
    %bias: tensor<8xf32> {train.role = "parameter", train.name = "l.up_proj.bias", train.trainable},
    %down: tensor<8x4xf32> {train.role = "parameter", train.name = "l.down_proj.weight", train.trainable},
    %head: tensor<5x4xf32> {train.role = "parameter", train.name = "head.weight", train.trainable},
    %x: tensor<2x3x4xf32> {train.role = "input", train.name = "x"}) -> (tensor<6x5xf32> {train.role = "output", train.name = "y"}) {
  %0 = train.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = train.matmul %0, %up transposed : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %2 = train.broadcast %bias axes = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %3 = train.add %1, %2 : tensor<6x8xf32>
  %4 = train.matmul %3, %down : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %5 = train.matmul %4, %head transposed : tensor<6x4xf32>, tensor<5x4xf32> -> tensor<6x5xf32>
  return %5 : tensor<6x5xf32>
}
