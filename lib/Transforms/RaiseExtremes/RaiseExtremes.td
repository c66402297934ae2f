// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-extremes`.
#ifndef TRAINC_TRANSFORMS_RAISEEXTREMES_TD
#define TRAINC_TRANSFORMS_RAISEEXTREMES_TD

include "mlir/Pass/PassBase.td"

def RaiseExtremesPass : Pass<"raise-extremes", "::mlir::func::FuncOp"> {
  let summary = "sums of the elements where a maximum was found are the maximum";
  let description = [{
    A maximum pool is written so that its gradient goes to the first of equal elements: the sum, over the taps, of the element
    at the first position whose element is not below the maximum, zeros for all others. Once gradients are made, the sum is the
    maximum itself, but for the sign of a zero (a NaN is the maximum of what it is among, and its position is the first of a NaN). One reduction
    less, and none but the maximum where nothing reads the position, as in evaluation.

    The positions have to be 0, 1, 2, ... through the axes that are reduced, the last axis fastest, and the number behind them what stands
    for "not here".

    ```mlir
    func.func @f(%x: tensor<3x8xf32>) -> tensor<8xf32> {
      %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
      %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
      %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
      %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
      %4 = train.or %2, %3 : tensor<3x8xi1>
      %5 = train.iota 0 : tensor<3x8xi8>
      %6 = train.full 3 : i8 : tensor<3x8xi8>
      %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
      %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
      %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
      %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
      %11 = train.full 0.0 : f32 : tensor<3x8xf32>
      %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
      %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
      return %13 : tensor<8xf32>
    }
    // becomes
    func.func @f(%x: tensor<3x8xf32>) -> tensor<8xf32> {
      %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```

    Run it behind autodiff, on functions whose equal ops are one. Remarks, of category `raise-extremes`: `Raised`.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

#endif // TRAINC_TRANSFORMS_RAISEEXTREMES_TD
