// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Enums of the plan dialect, apart because their generator takes everything that a file includes.

#ifndef TRAINC_PLAN_ENUMS_TD
#define TRAINC_PLAN_ENUMS_TD

include "mlir/IR/EnumAttr.td"

def Plan_Space : I32EnumAttr<"Space", "where a buffer lives", [
    I32EnumAttrCase<"arena", 0>, I32EnumAttrCase<"parameter", 1>, I32EnumAttrCase<"state", 2>,
    I32EnumAttrCase<"gradient", 3>, I32EnumAttrCase<"input", 4>, I32EnumAttrCase<"hyper", 5>,
    I32EnumAttrCase<"constant", 6>, I32EnumAttrCase<"output", 7>, I32EnumAttrCase<"host", 8>,
    I32EnumAttrCase<"derived", 9>]> {
  let cppNamespace = "::trainc::plan";
  let genSpecializedAttr = 0;
}

def Plan_CollectiveKind : I32EnumAttr<"CollectiveKind", "what ranks do together", [
    I32EnumAttrCase<"all_reduce", 0>, I32EnumAttrCase<"reduce_scatter", 1>, I32EnumAttrCase<"all_gather", 2>]> {
  let cppNamespace = "::trainc::plan";
  let genSpecializedAttr = 0;
}

def Plan_ConvolutionKind : I32EnumAttr<"ConvolutionKind", "which of its tensors a convolution makes of the others", [
    I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"data", 1>, I32EnumAttrCase<"filter", 2>]> {
  let cppNamespace = "::trainc::plan";
  let genSpecializedAttr = 0;
}

def Plan_KernelForm : I32EnumAttr<"KernelForm", "how a kernel goes over its elements", [
    I32EnumAttrCase<"pointwise", 1>, I32EnumAttrCase<"row", 2>, I32EnumAttrCase<"column", 3>,
    I32EnumAttrCase<"scatter", 4>, I32EnumAttrCase<"scan", 5>, I32EnumAttrCase<"product", 6>]> {
  let cppNamespace = "::trainc::plan";
  let genSpecializedAttr = 0;
}

#endif // TRAINC_PLAN_ENUMS_TD
