// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of the operations. A pointwise op states its formula three times in one place: as
// generated code, as a double and as a gradient, which the property tests hold against each other.

#ifndef TRAINC_TRAIN_BASE_TD
#define TRAINC_TRAIN_BASE_TD

include "dialects/Train/TrainDialect.td"
include "dialects/Train/TrainInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Train_OpOf<Dialect dialect, string mnemonic, list<Trait> traits = []>
    : Op<dialect, mnemonic, !listconcat([Pure], traits)>;
class Train_Op<string mnemonic, list<Trait> traits = []> : Train_OpOf<Train_Dialect, mnemonic, traits>;

// A dynamic size without a name could not be reasoned about.
def Train_NamedDims : CPred<"::trainc::train::hasNamedDims($_self)">;
class Train_Element<list<Type> types>
    : RankedTensorOf<types, [Train_NamedDims], "tensor with constant or named dims">;
def Train_FloatTensor : Train_Element<[AnyFloat]>;
def Train_IntTensor : Train_Element<[I8, I16, I32, I64, I1]>;
def Train_NumberTensor : Train_Element<[AnyFloat, I8, I16, I32, I64, I1]>;
def Train_BoolTensor : Train_Element<[I1]>;
def Train_AnyTensor : Train_Element<[AnyFloat, I8, I16, I32, I64, I1]>;

// C++ bodies: `b`, `loc`, `x` (elements), `i` (index) in `scalar`; `x`, `i` in `evaluate`;
// `tb`, `g` (cotangent), `x` (operands), `y` (result), `dx` (gradients), `needed` in `vjp`.
// Of any dialect: those of plug-ins, too.
class Train_PointwiseOpOf<Dialect dialect, string mnemonic, code scalar, code evaluate, code vjp, int cost = 1,
                          list<Trait> traits = []>
    : Train_OpOf<dialect, mnemonic, !listconcat([
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<PointwiseOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getElementCost"]>], traits)> {
  code commonDefinition = [{
    ::trainc::train::AxisMap $cppClass::getAxisMap() {
      return ::trainc::train::detail::pointwiseAxisMap(getOperation());
    }
    ::trainc::train::FusionRole $cppClass::getFusionRole() {
      return ::trainc::train::FusionRole::Pointwise;
    }
    unsigned $cppClass::getElementCost() { return }] # cost # [{; }
    ::mlir::Value $cppClass::buildScalar(::mlir::OpBuilder &b, ::mlir::Location loc,
                                         ::mlir::ValueRange x, ::mlir::ValueRange i) {
      (void)i;
      return }] # scalar # [{;
    }
    double $cppClass::evaluateScalar(::llvm::ArrayRef<double> x, ::llvm::ArrayRef<int64_t> i) {
      (void)i;
      return }] # evaluate # [{;
    }
    void $cppClass::buildVJP(::trainc::train::TrainBuilder &tb,
                             ::llvm::ArrayRef<::mlir::Value> cotangents,
                             ::llvm::ArrayRef<bool> needed,
                             ::llvm::MutableArrayRef<::mlir::Value> dx) {
      ::mlir::Value g = cotangents[0];
      auto x = getOperation()->getOperands();
      ::mlir::Value y = getOperation()->getResult(0);
      (void)tb; (void)g; (void)x; (void)y; (void)dx; (void)needed;
      }] # vjp # [{
    }
  }];
  let extraClassDefinition = commonDefinition;
}
class Train_PointwiseOp<string mnemonic, code scalar, code evaluate, code vjp, int cost = 1, list<Trait> traits = []>
    : Train_PointwiseOpOf<Train_Dialect, mnemonic, scalar, evaluate, vjp, cost, traits>;

class Train_UnaryOp<string mnemonic, code scalar, code evaluate, code vjp, int cost = 1>
    : Train_PointwiseOp<mnemonic, scalar, evaluate, vjp, cost, [SameOperandsAndResultType]> {
  let arguments = (ins Train_FloatTensor:$operand);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class Train_BinaryOp<string mnemonic, code scalar, code evaluate, code vjp, int cost = 1>
    : Train_PointwiseOp<mnemonic, scalar, evaluate, vjp, cost, [SameOperandsAndResultType]> {
  let arguments = (ins Train_NumberTensor:$lhs, Train_NumberTensor:$rhs);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

class Train_LogicalOp<string mnemonic, code scalar, code evaluate>
    : Train_PointwiseOp<mnemonic, scalar, evaluate, "", 1, [SameOperandsAndResultType]> {
  let arguments = (ins Train_IntTensor:$lhs, Train_IntTensor:$rhs);
  let results = (outs Train_IntTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

class Train_TestOp<string mnemonic, code scalar, code evaluate>
    : Train_PointwiseOp<mnemonic, scalar, evaluate, "", 1> {
  let arguments = (ins Train_FloatTensor:$operand);
  let results = (outs Train_BoolTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

#endif // TRAINC_TRAIN_BASE_TD
