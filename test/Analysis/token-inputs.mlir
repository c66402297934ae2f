// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which inputs hold tokens and labels, and what pads them.
// RUN: trainc-test-opt %s --pass-pipeline='builtin.module(func.func(test-token-inputs))' --verify-diagnostics --split-input-file

!ids = tensor<?x?xi64, #train.dims<batch, seq>>
!narrow = tensor<?x?xi32, #train.dims<batch, seq>>
!flat = tensor<?xi32, #train.dims<batch*seq>>
!rows = tensor<?x?x8xf32, #train.dims<batch, seq, 8>>
!one = tensor<?xi64, #train.dims<batch>>
!losses = tensor<?xf32, #train.dims<batch>>
!logits = tensor<?x5xf32, #train.dims<batch, 5>>

train.symbol @batch min 1 input "input_ids" axis 0
train.symbol @seq min 1 input "input_ids" axis 1

// Ids through casts; a mask by its name; segments with a shorter table are no tokens; a table that is
// no parameter and a gather of columns are no embedding.
// expected-remark @+1 {{embed 1, 1 uses, mask 3, by mask}}
func.func @masked(%table: tensor<100x8xf32> {train.role = "parameter", train.name = "wte"},
                  %ids: !ids {train.role = "input", train.name = "input_ids"},
                  %types: !ids {train.role = "input", train.name = "token_type_ids"},
                  %mask: !ids {train.role = "input", train.name = "attention_mask"},
                  %segments: tensor<2x8xf32> {train.role = "parameter", train.name = "wse"},
                  %columns: tensor<8x100xf32> {train.role = "parameter", train.name = "c"},
                  %other: tensor<?xi64, #train.dims<seq>> {train.role = "input", train.name = "o"},
                  %values: tensor<100x8xf32> {train.role = "input", train.name = "v"})
    -> (!rows, !rows, !ids, tensor<8x?xf32, #train.dims<8, seq>>, tensor<?x8xf32, #train.dims<seq, 8>>) {
  %0 = train.cast %ids : !ids -> !narrow
  %1 = train.gather %table, %0 axis = 0 : tensor<100x8xf32>, !narrow -> !rows
  %2 = train.gather %segments, %types axis = 0 : tensor<2x8xf32>, !ids -> !rows
  %3 = train.gather %columns, %other axis = 1 : tensor<8x100xf32>, tensor<?xi64, #train.dims<seq>> -> tensor<8x?xf32, #train.dims<8, seq>>
  %4 = train.gather %values, %other axis = 0 : tensor<100x8xf32>, tensor<?xi64, #train.dims<seq>> -> tensor<?x8xf32, #train.dims<seq, 8>>
  return %1, %2, %mask, %3, %4 : !rows, !rows, !ids, tensor<8x?xf32, #train.dims<8, seq>>, tensor<?x8xf32, #train.dims<seq, 8>>
}

// What the user names wins over the mask, and makes an input one of tokens; padding_idx does not.
// expected-remark @+2 {{embed 1, 1 uses, pad 3, mask 3}}
// expected-remark @+1 {{embed 2, 1 uses, pad 0, mask 3}}
func.func @named(%table: tensor<100x8xf32> {train.role = "parameter", train.name = "wte"},
                 %ids: !ids {train.role = "input", train.name = "input_ids", train.pad_token = 3 : i64},
                 %types: !ids {train.role = "input", train.name = "token_type_ids", train.pad_token = 0 : i64},
                 %mask: !ids {train.role = "input", train.name = "attention_mask"},
                 %segments: tensor<2x8xf32> {train.role = "parameter", train.name = "wse"}) -> (!rows, !rows, !ids) {
  %1 = train.gather %table, %ids axis = 0 : tensor<100x8xf32>, !ids -> !rows
  %2 = train.gather %segments, %types axis = 0 : tensor<2x8xf32>, !ids -> !rows
  return %1, %2, %mask : !rows, !rows, !ids
}

// expected-remark @+1 {{embed 1, 1 uses, pad 1, mask 2, by mask}}
func.func @padding_idx(%table: tensor<100x8xf32> {train.role = "parameter", train.name = "wte"},
                       %ids: !ids {train.role = "input", train.name = "input_ids", train.padding_idx = 1 : i64},
                       %mask: !ids {train.role = "input", train.name = "attention_mask"}) -> (!rows, !ids) {
  %1 = train.gather %table, %ids axis = 0 : tensor<100x8xf32>, !ids -> !rows
  return %1, %mask : !rows, !ids
}

// A mask of another prefix is none, but for the input that is named; one that nothing reads is none.
// expected-remark @+2 {{embed 1, 1 uses, padding unknown}}
// expected-remark @+1 {{embed 2, 1 uses, mask 3, by mask}}
func.func @prefixes(%table: tensor<100x8xf32> {train.role = "parameter", train.name = "wte"},
                    %ids: !ids {train.role = "input", train.name = "input_ids"},
                    %named: !ids {train.role = "input", train.name = "other_ids", train.pad_mask = "decoder_attention_mask"},
                    %mask: !ids {train.role = "input", train.name = "decoder_attention_mask"},
                    %unused: !ids {train.role = "input", train.name = "attention_mask"},
                    %same: tensor<?xi64, #train.dims<seq>> {train.role = "input", train.name = "flat_ids"})
    -> (!rows, !rows, !ids) {
  %1 = train.gather %table, %ids axis = 0 : tensor<100x8xf32>, !ids -> !rows
  %2 = train.gather %table, %named axis = 0 : tensor<100x8xf32>, !ids -> !rows
  return %1, %2, %mask : !rows, !rows, !ids
}

// Labels shifted by one, padded with the ignored class, in another type and flat; the same input is ids.
// expected-remark @+2 {{embed 1, 1 uses, padding unknown}}
// expected-remark @+1 {{label 1, 1 uses, pad -100}}
func.func @labels(%table: tensor<100x8xf32> {train.role = "parameter", train.name = "wte"},
                  %ids: !ids {train.role = "input", train.name = "tokens"},
                  %logits: tensor<?x100xf32, #train.dims<batch*seq, 100>> {train.role = "input", train.name = "l"})
    -> (!rows, tensor<?xf32, #train.dims<batch*seq>>) {
  %rows = train.gather %table, %ids axis = 0 : tensor<100x8xf32>, !ids -> !rows
  %0 = train.pad %ids value = -100 : i64 low = <0, 0> : !ids -> tensor<?x?xi64, #train.dims<batch, seq + 1>>
  %1 = train.slice %0 starts = <0, 1> steps = [1, 1] : tensor<?x?xi64, #train.dims<batch, seq + 1>> -> !ids
  %2 = train.cast %1 : !ids -> !narrow
  %3 = train.reshape %2 : !narrow -> !flat
  %loss, %lse = train.cross_entropy %logits, %3 {ignore_index = -100 : i64} : (tensor<?x100xf32, #train.dims<batch*seq, 100>>, !flat) -> (tensor<?xf32, #train.dims<batch*seq>>, tensor<?xf32, #train.dims<batch*seq>>)
  return %rows, %loss : !rows, tensor<?xf32, #train.dims<batch*seq>>
}

// Without an ignored class, or computed, labels tell nothing.
func.func @counted(%labels: !one {train.role = "input", train.name = "labels"},
                   %shift: !one {train.role = "input", train.name = "shift"},
                   %logits: !logits {train.role = "input", train.name = "l"}) -> (!losses, !losses) {
  %loss, %lse = train.cross_entropy %logits, %labels : (!logits, !one) -> (!losses, !losses)
  %0 = train.add %labels, %shift : !one
  %loss2, %lse2 = train.cross_entropy %logits, %0 {ignore_index = -100 : i64} : (!logits, !one) -> (!losses, !losses)
  return %loss, %loss2 : !losses, !losses
}

// A table that ranks share out is one as well, of as many rows as the whole.
train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}
// expected-remark @+1 {{embed 2, 1 uses, mask 4, by mask}}
func.func @gathered(%part: tensor<?x64xf32, #train.dims<64*floordiv(world + 1, world), 64>>
                        {train.role = "parameter", train.name = "wte", train.shard = {of = tensor<128x64xf32>, unit = 4096 : i64}},
                    %segments: tensor<2x64xf32> {train.role = "parameter", train.name = "wse"},
                    %ids: !ids {train.role = "input", train.name = "input_ids"},
                    %types: !ids {train.role = "input", train.name = "token_type_ids"},
                    %mask: !ids {train.role = "input", train.name = "attention_mask"})
    -> (tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, !ids) {
  %table = train.all_gather %part units = [4096] : (tensor<?x64xf32, #train.dims<64*floordiv(world + 1, world), 64>>) -> tensor<128x64xf32>
  %0 = train.gather %table, %ids axis = 0 : tensor<128x64xf32>, !ids -> tensor<?x?x64xf32, #train.dims<batch, seq, 64>>
  %1 = train.gather %segments, %types axis = 0 : tensor<2x64xf32>, !ids -> tensor<?x?x64xf32, #train.dims<batch, seq, 64>>
  return %0, %1, %mask : tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, tensor<?x?x64xf32, #train.dims<batch, seq, 64>>, !ids
}
