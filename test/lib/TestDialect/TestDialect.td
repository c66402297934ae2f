// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A dialect of tests. Its ops implement the interfaces of the train dialect and are known to nothing else:
// whatever works on them works by interface.
#ifndef TRAINC_TEST_DIALECT_TD
#define TRAINC_TEST_DIALECT_TD

include "dialects/Plan/PlanInterfaces.td"
include "dialects/Train/TrainInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Test_Dialect : Dialect {
  let name = "testdialect";
  let cppNamespace = "::trainc::testdialect";
  let summary = "ops that implement the interfaces of the train dialect, for tests";
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

class Test_Op<string mnemonic, list<Trait> traits>
    : Op<Test_Dialect, mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>], traits)>;

def Test_SquareplusOp : Test_Op<"squareplus", [SameOperandsAndResultType,
    DeclareOpInterfaceMethods<PointwiseOpInterface>]> {
  let summary = "(x + sqrt(x^2 + b)) / 2 (Barron 2021)";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$operand, F64Attr:$b);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def Test_SumSquaresOp : Test_Op<"sum_squares", [DeclareOpInterfaceMethods<ReductionOpInterface,
    ["buildMap", "evaluateMap"]>]> {
  let summary = "sum of the squares of each row: reduces the last axis";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$operand);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Test_CallOp : Op<Test_Dialect, "call", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<FusionOpInterface>]> {
  let summary = "a library call that no library has";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$operand);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

def Test_MistypedOp : Op<Test_Dialect, "mistyped", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<AxisMapOpInterface, ["cloneRestricted"]>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "the identity, whose interfaces make f64 of everything: passes must find it out";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$operand);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

def Test_SilentOp : Op<Test_Dialect, "silent", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<AxisMapOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface>,
    DeclareOpInterfaceMethods<LibraryCallOpInterface>]> {
  let summary = "a library call whose interfaces leave out the loops and the place of its result";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$operand);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

def Test_ProjectOp : Op<Test_Dialect, "project", [Pure, DeclareOpInterfaceMethods<AxisMapOpInterface>]> {
  let summary = "rows, of any number of axes, times a matrix [out, in]: a projection without a derivative";
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$rows, RankedTensorOf<[AnyFloat]>:$matrix);
  let results = (outs RankedTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = "$rows `,` $matrix attr-dict `:` functional-type(operands, results)";
}

#endif // TRAINC_TEST_DIALECT_TD
