// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --quantize-frozen="block=16 skip=second" --remarks-filter=quantize-frozen --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// A head, a name that skip matches, a weight that is read in another way, too; a trained one is no news.
// CHECK: func.func @forward(%{{.*}}: tensor<{{.*}}xi8> {train.name = "first"
// CHECK-SAME: tensor<7x7xbf16> {train.name = "second"
// CHECK-SAME: tensor<7x7xbf16> {train.name = "third"
// CHECK-SAME: tensor<7x7xbf16> {train.name = "trained"
// CHECK-SAME: tensor<3x7xbf16> {train.name = "head"
// REMARK-NOT: 'trained'
// REMARK-DAG: NotQuantized{{.*}}skip matches its name{{.*}}'second' stays as it is
// REMARK-DAG: NotQuantized{{.*}}not only projections read it{{.*}}'third' stays as it is
// REMARK-DAG: NotQuantized{{.*}}it is a head: nothing is projected after it{{.*}}'head' stays as it is
func.func @forward(%a: tensor<7x7xbf16> {train.role = "parameter", train.name = "first"},
    %b: tensor<7x7xbf16> {train.role = "parameter", train.name = "second"},
    %c: tensor<7x7xbf16> {train.role = "parameter", train.name = "third"},
    %t: tensor<7x7xbf16> {train.role = "parameter", train.name = "trained", train.trainable},
    %head: tensor<3x7xbf16> {train.role = "parameter", train.name = "head"},
    %i: tensor<4xi64> {train.role = "input", train.name = "i"}) -> (tensor<4x3xbf16> {train.role = "output", train.name = "y"}) {
  %0 = train.gather %c, %i axis = 0 : tensor<7x7xbf16>, tensor<4xi64> -> tensor<4x7xbf16>
  %1 = train.matmul %0, %a transposed : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %2 = train.matmul %1, %b : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %3 = train.matmul %2, %c transposed : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %4 = train.matmul %3, %t : tensor<4x7xbf16>, tensor<7x7xbf16> -> tensor<4x7xbf16>
  %5 = train.matmul %4, %head transposed : tensor<4x7xbf16>, tensor<3x7xbf16> -> tensor<4x3xbf16>
  return %5 : tensor<4x3xbf16>
}
