// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bias through which parameters get a gradient: of all samples as it is, by sample with the batch in the heads.
// RUN: trainc-opt %s --raise-attention='type=bf16 bias-gradient=true' --canonicalize --cse --remarks-filter=raise-attention --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

train.symbol @batch min 1 input "ids" axis 0
train.symbol @seq min 2 input "ids" axis 1

// REMARK: Raised{{.*}}all columns, bias with a gradient
// CHECK-LABEL: func.func @relative
// CHECK: train.attention %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} {{.*}}, tensor<1x2x?x?xbf16, #train.dims<1, 2, seq, seq>>)
func.func @relative(%q: tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, %bias: tensor<2x?x?xf32, #train.dims<2, seq, seq>> {train.role = "parameter", train.name = "bias", train.trainable}) -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {
  %scores = train.matmul %q, %q transposed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %wide = train.broadcast %bias axes = [1, 2, 3] : tensor<2x?x?xf32, #train.dims<2, seq, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %biased = train.add %scores, %wide : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %weights = train.softmax %biased axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  return %mixed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
}

// A mask by sample, of the least float, beside what is trained: no row is all -inf.
// REMARK: Raised{{.*}}all columns, bias with a gradient
// CHECK-LABEL: func.func @padded
// CHECK: train.attention %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<1x?x?x8xbf16, #train.dims<1, 2*batch, seq, 8>>, {{.*}}, tensor<1x?x?x?xbf16, #train.dims<1, 2*batch, seq, seq>>)
func.func @padded(%q: tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, %bias: tensor<2x?x?xf32, #train.dims<2, seq, seq>> {train.role = "parameter", train.name = "bias", train.trainable}, %mask: tensor<?x?xi1, #train.dims<batch, seq>>) -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> {
  %scores = train.matmul %q, %q transposed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %wide = train.broadcast %bias axes = [1, 2, 3] : tensor<2x?x?xf32, #train.dims<2, seq, seq>> -> tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %biased = train.add %scores, %wide : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %least = train.full -3.40282347E+38 : f32 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %valid = train.broadcast %mask axes = [0, 3] : tensor<?x?xi1, #train.dims<batch, seq>> -> tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>
  %masked = train.select %valid, %biased, %least : tensor<?x2x?x?xi1, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %weights = train.softmax %masked axis = 3 : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>
  %mixed = train.matmul %weights, %q : tensor<?x2x?x?xf32, #train.dims<batch, 2, seq, seq>>, tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>> -> tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
  return %mixed : tensor<?x2x?x8xf32, #train.dims<batch, 2, seq, 8>>
}

// Disentangled attention, as DeBERTa has it: products are batched over samples and heads in one axis, the bias is gathered from
// products of queries and of keys. What is transposed is stored in the low type; everything else of the bias has one shape.
// REMARK: Raised{{.*}}all columns, bias with a gradient, dropout
// CHECK-LABEL: func.func @disentangled
// CHECK: %[[C:.*]] = train.gather_elements {{.*}} -> tensor<6x4x4xf32>
// CHECK: %[[P:.*]] = train.gather_elements {{.*}} -> tensor<6x4x4xf32>
// CHECK: %[[D:.*]] = train.div %[[P]], {{.*}} : tensor<6x4x4xf32>
// CHECK: %[[L:.*]] = train.cast %[[D]] : tensor<6x4x4xf32> -> tensor<6x4x4xbf16>
// CHECK: %[[T:.*]] = train.transpose %[[L]] permutation = [0, 2, 1]
// CHECK: %[[W:.*]] = train.cast %[[T]] : tensor<6x4x4xbf16> -> tensor<6x4x4xf32>
// CHECK: %[[S:.*]] = train.add %{{.*}}, %[[W]] : tensor<6x4x4xf32>
// CHECK: %[[B:.*]] = train.cast %[[S]] : tensor<6x4x4xf32> -> tensor<6x4x4xbf16>
// CHECK: %[[F:.*]] = train.reshape %[[B]] : tensor<6x4x4xbf16> -> tensor<1x6x4x4xbf16>
// CHECK: train.attention %{{.*}}, %{{.*}}, %{{.*}} bias %[[F]] seed {{.*}}scale = 2.500000e-01
func.func @disentangled(%q: tensor<6x4x8xf32>, %k: tensor<6x4x8xf32>, %v: tensor<6x4x8xf32>, %table: tensor<6x16x8xf32> {train.role = "parameter", train.name = "table", train.trainable}, %i: tensor<6x4x4xi64>, %key: tensor<i64>) -> tensor<6x4x8xf32> {
  %four = train.full 4.0 : f32 : tensor<6x4x8xf32>
  %scale = train.full 4.0 : f32 : tensor<6x4x4xf32>
  %ks = train.div %k, %four : tensor<6x4x8xf32>
  %scores = train.matmul %q, %ks transposed : tensor<6x4x8xf32>, tensor<6x4x8xf32> -> tensor<6x4x4xf32>
  %c2p = train.matmul %q, %table transposed : tensor<6x4x8xf32>, tensor<6x16x8xf32> -> tensor<6x4x16xf32>
  %0 = train.gather_elements %c2p, %i axis = 2 : tensor<6x4x16xf32>, tensor<6x4x4xi64> -> tensor<6x4x4xf32>
  %1 = train.div %0, %scale : tensor<6x4x4xf32>
  %p2c = train.matmul %k, %table transposed : tensor<6x4x8xf32>, tensor<6x16x8xf32> -> tensor<6x4x16xf32>
  %2 = train.gather_elements %p2c, %i axis = 2 : tensor<6x4x16xf32>, tensor<6x4x4xi64> -> tensor<6x4x4xf32>
  %3 = train.div %2, %scale : tensor<6x4x4xf32>
  %4 = train.transpose %3 permutation = [0, 2, 1] : tensor<6x4x4xf32> -> tensor<6x4x4xf32>
  %5 = train.add %1, %4 : tensor<6x4x4xf32>
  %6 = train.add %scores, %5 : tensor<6x4x4xf32>
  %7 = train.reshape %6 : tensor<6x4x4xf32> -> tensor<3x2x4x4xf32>
  %8 = train.softmax %7 axis = 3 : tensor<3x2x4x4xf32>
  %9 = train.dropout %8, %key {ratio = 0.1 : f64} : tensor<3x2x4x4xf32>, tensor<i64>
  %10 = train.reshape %9 : tensor<3x2x4x4xf32> -> tensor<6x4x4xf32>
  %11 = train.matmul %10, %v : tensor<6x4x4xf32>, tensor<6x4x8xf32> -> tensor<6x4x8xf32>
  return %11 : tensor<6x4x8xf32>
}
