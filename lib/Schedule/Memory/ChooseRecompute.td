// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-recompute`.
#ifndef TRAINC_SCHEDULE_MEMORY_CHOOSERECOMPUTE_TD
#define TRAINC_SCHEDULE_MEMORY_CHOOSERECOMPUTE_TD

include "mlir/Pass/PassBase.td"

def ChooseRecomputePass : Pass<"choose-recompute", "::mlir::ModuleOp"> {
  let summary = "computes again in the backward pass what makes a step fit into a budget of memory";
  let description = [{
    Finds the cheapest set of values of the forward pass that the pass `recompute` computes again so that a step holds no more than `budget`,
    and runs that pass with it. How much a step holds is not guessed: for each set that is tried the schedule and the plan are made on a copy, as the
    phases behind make them, and its arena is laid out for the largest sizes. Which set to try next is a knapsack: classes of values in the order
    of what a byte costs by the model of the processor's time, as many as are needed; then fewer of the dear ones.

    The other options say what the step is made for, as those of trainc with these names do. With `fit` it is the batch, too, that is
    chosen: the one with the best predicted rate that fits into the budget.

    Fails with an error where nothing fits, which tells the least that a step can do with and what that consists of; where a size has no largest
    value; and where no function trains.
    Remarks, of category `choose-recompute`: `Chosen`, `Batch`, `Ranks` (whose budget it is); `Declined` says of values why they are kept, of batches why
    another one is chosen.

    ```mlir
    // autodiff,attach-optimizer{kind=sgd},form-steps{micro=false},canonicalize,cse,choose-recompute{budget=0.7}
    train.symbol @batch min 1 max 1024 input "x" axis 0
    func.func @forward(%x: tensor<?x64xf32, #train.dims<batch, 64>> {train.role = "input", train.name = "x"},
                       %w0: tensor<64x64xf32> {train.role = "parameter", train.name = "w0", train.trainable},
                       %w1: tensor<64x64xf32> {train.role = "parameter", train.name = "w1", train.trainable},
                       %w2: tensor<64x64xf32> {train.role = "parameter", train.name = "w2", train.trainable},
                       %w3: tensor<64x64xf32> {train.role = "parameter", train.name = "w3", train.trainable})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}) {
      %m0 = train.matmul %x, %w0 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
      %g0 = train.gelu %m0 : tensor<?x64xf32, #train.dims<batch, 64>>
      %m1 = train.matmul %g0, %w1 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
      %g1 = train.gelu %m1 : tensor<?x64xf32, #train.dims<batch, 64>>
      %m2 = train.matmul %g1, %w2 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
      %g2 = train.gelu %m2 : tensor<?x64xf32, #train.dims<batch, 64>>
      %m3 = train.matmul %g2, %w3 : tensor<?x64xf32, #train.dims<batch, 64>>, tensor<64x64xf32> -> tensor<?x64xf32, #train.dims<batch, 64>>
      %g3 = train.gelu %m3 : tensor<?x64xf32, #train.dims<batch, 64>>
      %loss = train.reduce sum %g3 axes = [0, 1] : tensor<?x64xf32, #train.dims<batch, 64>> -> tensor<f32>
      return %loss : tensor<f32>
    }
    // becomes
    ...
    func.func @step(...
    ...
    %m0 = train.matmul %x, %w0 : ...
    %g0 = train.gelu %m0 : ...
    ...
    %loss = train.reduce sum ...
    ...
    %kept = train.barrier ...
    ...
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::trainc::plan::PlanDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"budget", "budget", "std::string", "\"1.0\"", "SIZE (40GB) of all memory, a fraction (0.5) of activations and temporaries, or fit[:SIZE]">,
    Option<"deviceMemory", "device-memory", "int64_t", "0", "bytes that fit without a size fills; 0: there is no device">,
    Option<"target", "target", "std::string", "\"cpu\"", "as --target has it">,
    Option<"precision", "precision", "::trainc::Precision", "::trainc::Precision::Graph", "what values are computed in",
           [{::llvm::cl::values(
             clEnumValN(::trainc::Precision::Graph, "graph", "the graph's own types"),
             clEnumValN(::trainc::Precision::TF32, "tf32", "matmuls in TF32"),
             clEnumValN(::trainc::Precision::BF16, "bf16", "matmuls in bf16"),
             clEnumValN(::trainc::Precision::FP16, "fp16", "matmuls in f16"),
             clEnumValN(::trainc::Precision::PureBF16, "pure-bf16", "everything in bf16"))}]>,
    Option<"fuseEpilogues", "fuse-epilogues", "bool", "true", "matmuls take biases and GELUs where the target's library can">,
    Option<"scheduleUpdates", "schedule-updates", "bool", "true", "a parameter is updated as soon as its gradient is there">,
    ListOption<"largestSizes", "largest-sizes", "std::string", "NAME=N of the sizes that --dim bounds">,
    Option<"accumulate", "accumulate", "int64_t", "1", "micro-batches a step">,
    Option<"world", "world", "int64_t", "0", "ranks of which one has the budget; 0: the package is for one process">,
    Option<"shards", "shards", "int64_t", "0", "how many of them share a replica of what is in shards; 0: all">,
    Option<"density", "density", "double", "1", "share of the elements that counts count">,
    Option<"embedWeights", "embed-weights", "bool", "false", "weights lie in the package">,
    Option<"offload", "offload", "bool", "false", "activations wait on the host (the pass offload)">,
    Option<"offloadLimit", "offload-limit", "int64_t", "-1", "bytes of pinned memory at most; -1: no limit">,
    Option<"offloadRate", "offload-rate", "double", "50", "of the link to the host, each way, in GB/s">,
  ];
}

#endif // TRAINC_SCHEDULE_MEMORY_CHOOSERECOMPUTE_TD
