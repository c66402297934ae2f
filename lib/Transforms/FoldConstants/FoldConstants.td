// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fold-constants`.
#ifndef TRAINC_TRANSFORMS_FOLDCONSTANTS_TD
#define TRAINC_TRANSFORMS_FOLDCONSTANTS_TD

include "mlir/Pass/PassBase.td"

def FoldConstantsPass : Pass<"fold-constants", "::mlir::func::FuncOp"> {
  let summary = "computes ops on constants while compiling";
  let description = [{
    An op whose operands are all known is evaluated by the reference evaluator, in double, and rounded to
    its element type. Results of more than `max-elements` elements stay as they are: they cost more as data
    of the package than as code. Ops without operands (`train.full`, `train.iota`) are left alone. Integers
    and booleans of any size, symbolic too, become a `train.full` where they are the same number everywhere, as
    exporters write them with positions and segments that were never given (include/trainc/Analysis/AffineIntegers.h),
    and so do formulas of numbers that are the same everywhere (a mask of ones).

    ```mlir
    func.func @f() -> tensor<2xf32> {
      %0 = train.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %1 = train.full 0.5 : f32 : tensor<2xf32>
      %2 = train.mul %0, %1 : tensor<2xf32>
      return %2 : tensor<2xf32>
    }
    // becomes
    func.func @f() -> tensor<2xf32> {
      %0 = train.constant dense<[5.000000e-01, 1.000000e+00]> : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
    ```

    Remarks: `FoldConstants` passed for each op that was folded, missed where the result is too large.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"maxElements", "max-elements", "int64_t", "1024",
           "largest result, in elements, that becomes a constant">,
  ];
}

#endif // TRAINC_TRANSFORMS_FOLDCONSTANTS_TD
