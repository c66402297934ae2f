// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A dialect of one op: y = (x + sqrt(x^2 + b)) / 2 (Barron 2021), with its code, its number and its gradient.
include "dialects/Train/TrainBase.td"

def Example_Dialect : Dialect {
  let name = "example";
  let cppNamespace = "::example";
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

def Example_SquareplusOp : Train_PointwiseOpOf<Example_Dialect, "squareplus",
    "squareplus(b, loc, x[0], getB().convertToDouble())",
    "(x[0] + std::sqrt(x[0] * x[0] + getB().convertToDouble())) / 2",
    "dx[0] = tb.mul(g, slope(tb, x[0], getB().convertToDouble()));", 6, [SameOperandsAndResultType]> {
  let summary = "a smooth max(x, 0)";
  let arguments = (ins Train_FloatTensor:$operand, F64Attr:$b);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}
