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
