// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `shard-parameters`.
#ifndef TRAINC_TRANSFORMS_SHARDPARAMETERS_TD
#define TRAINC_TRANSFORMS_SHARDPARAMETERS_TD

include "mlir/Pass/PassBase.td"

def ShardParametersPass : Pass<"shard-parameters", "::mlir::ModuleOp"> {
  let summary = "each rank holds a shard of large parameters, gathered where they are read";
  let description = [{
    Parameters of `from` elements at least become shards (`train.shard`), in all functions that have them, and what read
    such a parameter reads `train.all_gather` of its shard: `rematerialize-weights` puts one in front of each use. Runs
    behind `autodiff`: gradients are of whole parameters, and `distribute` scatters their sums. Frozen parameters are
    gathered as they are stored: of weights of codes these. Integers that are no codes (masks, indices) stay whole, as
    do parameters of a size that is not known.

    What evaluates is marked, too: ranks that evaluate together gather in one order (`train.in_step`).

    ```mlir
    train.symbol @world min 1 {train.run}
    train.symbol @rank min 0 {train.run}
    func.func @forward(%w: tensor<256x257xf32> {train.role = "parameter", train.name = "w", train.trainable})
        -> (tensor<256x257xf32> {train.role = "output", train.name = "y"}) {
      %0 = train.tanh %w : tensor<256x257xf32>
      return %0 : tensor<256x257xf32>
    }
    // becomes
    train.symbol @world min 1 {train.run}
    train.symbol @rank min 0 {train.run}
    func.func @forward(%w: tensor<?x256xf32, #train.dims<16 * floordiv(world + 16, world), 256>> {train.name = "w", train.role = "parameter",
          train.shard = {of = tensor<256x257xf32>, unit = 4096 : i64}, train.trainable})
        -> (tensor<256x257xf32> {train.name = "y", train.role = "output"}) {
      %0 = train.all_gather %w units = [4096] : (tensor<?x256xf32, #train.dims<16 * floordiv(world + 16, world), 256>>) -> tensor<256x257xf32>
      %1 = train.tanh %0 : tensor<256x257xf32>
      return %1 : tensor<256x257xf32>
    }
    ```

    Remarks, of category `distribute`: `Sharded`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"from", "from", "int64_t", "65536", "elements of a parameter from which on it is cut, 4096 at least">,
  ];
}

#endif // TRAINC_TRANSFORMS_SHARDPARAMETERS_TD
