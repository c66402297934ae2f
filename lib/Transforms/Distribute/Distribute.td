// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `distribute`.
#ifndef TRAINC_TRANSFORMS_DISTRIBUTE_TD
#define TRAINC_TRANSFORMS_DISTRIBUTE_TD

include "mlir/Pass/PassBase.td"

def DistributePass : Pass<"distribute", "::mlir::ModuleOp"> {
  let summary = "adds what the ranks of a run send each other between gradients and update: @exchange";
  let description = [{
    `@exchange` takes the accumulated gradients of a rank, those that `@update` has, and returns them as the update takes
    them: summed up over all ranks, in the order of ranks (`train.all_reduce`). `form-steps` puts it in front of `@update`.
    Gradients of 16 bits are exchanged as their accumulators, in f32, until `narrow-sums` makes them travel as they are; with
    `narrow-apart` those that are made in 16 bits are in buckets of their own for that.

    Where `@update` has shards (`train.shard`), `@exchange` returns the rank's shards of the sums (`train.reduce_scatter`),
    `@shards` those of the parameters, and `@publish` makes parameters of their shards (`train.all_gather`): `form-steps`
    puts these two around the update. With `each-micro` the gradients of each micro-batch are exchanged as soon as they
    are there, and only shards of them are accumulated. Where there are no shards, they are exchanged as soon as a step's
    last micro-batch has been added to the accumulators (`train.with_last`).

    Gradients travel in buckets of one type and of `bucket` bytes at least, but for the last one, the last ones of the
    model first, as the backward pass makes them: fewer, longer messages.

    Fails without `@update`, and where the forward pass itself changes values (running statistics), which each rank would
    do in its own way.

    ```mlir
    // distribute
    func.func @update(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                      %g: tensor<8xf32> {train.role = "gradient", train.name = "w"})
        -> (tensor<8xf32> {train.role = "update", train.updates = "parameter", train.name = "w"}) {
      %0 = train.sub %w, %g : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    // adds
    func.func @exchange(%g: tensor<8xf32> {train.name = "w", train.role = "gradient"})
        -> (tensor<8xf32> {train.name = "w", train.role = "gradient"}) attributes {train.with_last} {
      %0 = train.all_reduce %g {train.bucket = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```

    Remarks, of category `distribute`: `Exchanged`, `Published`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"bucket", "bucket", "int64_t", "33554432", "bytes of gradients that travel together">,
    Option<"eachMicro", "each-micro", "bool", "false", "gradients travel behind each micro-batch, not behind all">,
    Option<"narrowApart", "narrow-apart", "bool", "false", "gradients that are made in 16 bits are in buckets of their own">,
  ];
}

#endif // TRAINC_TRANSFORMS_DISTRIBUTE_TD
