// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What becomes of a 16-bit type in ops that mixed precision leaves in f32.

#ifndef TRAINC_TRAIN_PRECISION_TD
#define TRAINC_TRAIN_PRECISION_TD

include "mlir/IR/OpBase.td"

def CarriedTypeOpInterface : OpInterface<"CarriedTypeOpInterface"> {
  let cppNamespace = "::trainc::train";
  let description = [{
    A result of the op has the type of its operands where PyTorch's autocast computes it: a sum of two 16-bit tensors is a
    16-bit tensor, an exponential is of f32. Attached from outside of the ops (PrecisionModels.cpp), to those that are named there.
  }];
  let methods = [
    InterfaceMethod<"the axis of the result that has the taps of windows, if the op makes one", "std::optional<int64_t>",
      "getTapsAxis", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"whether f, of one operand, of a rounded number is f of the number, rounded", "bool",
      "commutesWithRounding", (ins), [{}], [{ return false; }]>,
  ];
}

#endif // TRAINC_TRAIN_PRECISION_TD
