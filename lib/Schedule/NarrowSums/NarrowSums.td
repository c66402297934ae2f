// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `narrow-sums`.
#ifndef TRAINC_SCHEDULE_NARROWSUMS_TD
#define TRAINC_SCHEDULE_NARROWSUMS_TD

include "mlir/Pass/PassBase.td"

def NarrowSumsPass : Pass<"narrow-sums", "::mlir::ModuleOp"> {
  let summary = "ranks send each other gradients of 16 bits as they are, and add them up in f32";
  let description = [{
    What ranks add up has the type of accumulators. Where it is only made f32 for that, of bf16 or f16, the call takes what it is
    made of: half of it travels, and nothing has to widen it first. No bit changes, as widening is exact and sums are made in f32.

    Functions that ranks may run at the same time (`train.in_step`) have the same calls: so an operand becomes narrow where it is
    in all of them, zeros apart, which are narrow everywhere. A call with others becomes two, where that saves `split` bytes of
    what a rank adds up at least: else it stays as it is.

    ```mlir
    func.func @step(%0: tensor<4x4xbf16>) -> tensor<4x4xf32> attributes {train.in_step = "step"} {
      %1 = train.cast %0 : tensor<4x4xbf16> -> tensor<4x4xf32>
      %2 = train.all_reduce %1 {train.bucket = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %2 : tensor<4x4xf32>
    }
    func.func @absent_step() -> tensor<4x4xf32> attributes {train.in_step = "step"} {
      %0 = train.full 0.000000e+00 : f32 : tensor<4x4xf32>
      %1 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    // becomes
    func.func @step(%0: tensor<4x4xbf16>) -> tensor<4x4xf32> attributes {train.in_step = "step"} {
      %1 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    func.func @absent_step() -> tensor<4x4xf32> attributes {train.in_step = "step"} {
      %0 = train.full 0.000000e+00 : bf16 : tensor<4x4xbf16>
      %1 = train.all_reduce %0 {train.bucket = 0 : i64} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    ```

    Run it in front of `align-collectives`. Remarks, of category `narrow-sums`: `Narrowed`, `KeptWide`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"split", "split", "int64_t", "1048576", "bytes that have to be saved where a call becomes two">,
  ];
}

#endif // TRAINC_SCHEDULE_NARROWSUMS_TD
