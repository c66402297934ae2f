// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an op's results hold where it is known of its operands. Every claim is a proof: the defaults
// say nothing.

#ifndef TRAINC_TRAIN_RANGES_TD
#define TRAINC_TRAIN_RANGES_TD

include "mlir/IR/OpBase.td"

def RangeOpInterface : OpInterface<"RangeOpInterface"> {
  let cppNamespace = "::trainc::train";
  let description = [{
    Interval arithmetic on elements. Ranges hold for every rounding and for every element type that the op takes;
    attached from outside of the ops (RangeModels.cpp), so that an op may also go without.
  }];
  let methods = [
    InterfaceMethod<[{
        The range of result elements made of operand elements in these ranges. A reduction combines one element or
        more, a matmul sums up one product or more. Call train::inferRange instead.
      }],
      "::trainc::train::Range", "getRange",
      (ins "unsigned":$result, "::llvm::ArrayRef<::trainc::train::Range>":$operands)>,
    InterfaceMethod<[{
        Whether elements of the operands that are `changed`, finite numbers in the ranges instead of others, lead to
        no infinity and no NaN, in the results or in a gradient of finite cotangents, that were not there with the
        others. Ranges of operands that are not changed say what they hold.
      }],
      "bool", "keepsFinite",
      (ins "::llvm::ArrayRef<::trainc::train::Range>":$operands, "::llvm::ArrayRef<bool>":$changed), [{}],
      [{ (void)operands; (void)changed; return false; }]>,
    InterfaceMethod<"whether a result is the sum of what is computed along the op's reduction loops", "bool", "addsUp",
      (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"whether f(x + c, y + c) = f(x, y), of integers", "bool", "cancelsTerm", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"whether f(.., x + c, ..) = f(.., x, ..) + c for this operand, of integers", "bool", "carriesTerm",
      (ins "unsigned":$operand), [{}], [{ (void)operand; return false; }]>,
    InterfaceMethod<"how elements of operand 0 compete, if they do", "std::optional<::trainc::train::Contest>",
      "getContest", (ins), [{}], [{ return std::nullopt; }]>,
  ];
}

#endif // TRAINC_TRAIN_RANGES_TD
