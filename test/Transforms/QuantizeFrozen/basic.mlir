// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --quantize-frozen="block=16" | FileCheck %s
// RUN: trainc-opt %s --quantize-frozen="format=fp4 block=32 double" | FileCheck %s --check-prefix=DOUBLE
// RUN: trainc-opt %s --quantize-frozen="format=int8" | FileCheck %s --check-prefix=INT8
// RUN: trainc-opt %s --quantize-frozen="block=16 scale-type=bf16" | FileCheck %s --check-prefix=SCALES
// RUN: trainc-opt %s --quantize-frozen="block=16" --remarks-filter=quantize-frozen --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not trainc-opt %s --quantize-frozen="format=nf5" 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not trainc-opt %s --quantize-frozen="block=48" 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not trainc-opt %s --quantize-frozen="skip=." 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: trainc-opt %s --quantize-frozen="skip=none" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SKIP

// A weight that two projections read has one set of codes; 5 x 7 elements leave half a byte.
// CHECK: func.func @forward(%[[CODES:[a-z0-9]+]]: tensor<18xi8> {train.name = "w", train.quantized = {block = 16 : i64, dtype = bf16, format = "nf4", parts = {absmax = "w.absmax"}, shape = [5, 7]}, train.role = "parameter"
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<3xf32> {train.name = "w.absmax", train.part_of = "w", train.role = "parameter"}
// CHECK: %[[TABLE:[a-z0-9]+]] = train.constant dense<[-1.000000e+00, -0.6961928,
// CHECK: %[[F:[a-z0-9]+]] = train.dequantize %[[CODES]], %[[TABLE]], %[[S]] block 16 : (tensor<18xi8>, tensor<16xf32>, tensor<3xf32>) -> tensor<5x7xf32>
// CHECK: %[[W:[a-z0-9]+]] = train.cast %[[F]] : tensor<5x7xf32> -> tensor<5x7xbf16>
// CHECK: train.matmul %{{.*}}, %[[W]] transposed
// CHECK: train.matmul %{{.*}}, %[[W]] :

// DOUBLE: parts = {absmax = "w.absmax", nested_absmax = "w.nested_absmax", nested_offset = "w.nested_offset"}
// DOUBLE: tensor<2xi8> {train.name = "w.absmax"
// DOUBLE: tensor<1xf32> {train.name = "w.nested_absmax"
// DOUBLE: tensor<f32> {train.name = "w.nested_offset"
// DOUBLE: %[[MAP:[a-z0-9]+]] = train.constant {{.*}}tensor<256xf32>
// DOUBLE: %[[EACH:[a-z0-9]+]] = train.dequantize %{{.*}}, %[[MAP]], %{{.*}} block 256 : (tensor<2xi8>, tensor<256xf32>, tensor<1xf32>) -> tensor<2xf32>
// DOUBLE: %[[SUM:[a-z0-9]+]] = train.add %[[EACH]],
// DOUBLE: train.dequantize %{{.*}}, %{{.*}}, %[[SUM]] block 32

// INT8: tensor<5x7xi8> {train.name = "w", train.quantized = {{.*}}row_absmax = "w.SCB"
// INT8: train.cast %{{.*}} : tensor<5x7xi8> -> tensor<5x7xf32>
// INT8: train.full 0.0078740157

// SCALES: tensor<3xbf16> {train.name = "w.absmax"

// REMARK-DAG: Quantized{{.*}}'w' is stored as nf4
// REMARK-DAG: NotQuantized{{.*}}it is a head{{.*}}'head' stays as it is
// REMARK-DAG: NotQuantized{{.*}}not only projections read it{{.*}}'tied' stays as it is
// FORMAT: error: quantize-frozen: the format must be nf4, fp4 or int8, not 'nf5'
// BLOCK: error: quantize-frozen: a block must be a power of two from 16 to 4096, not 48
// SKIP: warning: quantize-frozen: skip='none' matches no parameter
// NOTHING: error: quantize-frozen: there is no weight to quantize
func.func @forward(%w: tensor<5x7xbf16> {train.role = "parameter", train.name = "w"},
    %t: tensor<7x7xbf16> {train.role = "parameter", train.name = "trained", train.trainable},
    %table: tensor<7x7xbf16> {train.role = "parameter", train.name = "tied"},
    %head: tensor<3x7xbf16> {train.role = "parameter", train.name = "head"},
    %i: tensor<4xi64> {train.role = "input", train.name = "i"}) -> (tensor<4x3xbf16> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %table, %i axis = 0 : tensor<7x7xbf16>, tensor<4xi64> -> tensor<4x7xbf16>
  %1 = train.matmul %0, %w transposed : tensor<4x7xbf16>, tensor<5x7xbf16> -> tensor<4x5xbf16>
  %2 = train.matmul %1, %w : tensor<4x5xbf16>, tensor<5x7xbf16> -> tensor<4x7xbf16>
  %3 = train.matmul %2, %table transposed : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %4 = train.matmul %3, %t : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %5 = train.matmul %4, %head transposed : tensor<4x7xbf16>, tensor<3x7xbf16> -> tensor<4x3xbf16>
  return %5 : tensor<4x3xbf16>
}
