// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The `train` dialect: value-semantic tensor operations of a training step.

#ifndef TRAINC_TRAIN_DIALECT_TD
#define TRAINC_TRAIN_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::trainc::train";
  let summary = "tensor operations of a training step";
  let description = [{
    Pure operations on ranked tensors whose symbolic dims keep their names. Broadcasting is explicit,
    randomness is an operand, every op answers about itself through interfaces, so that passes never
    ask for an op's name. See the README beside the sources for the rationale.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Train_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Train_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Train_DimAttr : Train_Attr<"Dim", "dim"> {
  let summary = "size expression: a polynomial over named symbols";
  let description = [{
    A canonical polynomial with integer coefficients over atoms; an atom is a symbol (a string) or a
    `#train.dim_fn` (floordiv, mod, max, min). Terms are sorted, so equal expressions are the same
    attribute, and types that carry them are equal when their sizes are.

    Example: `#train.dim<batch*seq + 1>`, `#train.dim<floordiv(seq, 2)>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$coefficients,
                        ArrayRefParameter<"::mlir::ArrayAttr">:$monomials);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static DimAttr constant(::mlir::MLIRContext *context, int64_t value);
    static DimAttr symbol(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// The value where the expression has no symbol.
    std::optional<int64_t> getConstant() const;
    bool isConstant(int64_t value) const { return getConstant() == value; }
    /// The name where the expression is one symbol.
    std::optional<::llvm::StringRef> getSymbol() const;
    /// Text in the syntax of the attribute, without the `#train.dim<>` around it.
    std::string str() const;
    /// Value for given symbols; fails on an unknown symbol, a division by zero or an overflow.
    ::mlir::FailureOr<int64_t> evaluate(
        ::llvm::function_ref<std::optional<int64_t>(::llvm::StringRef)> lookup) const;
    /// Calls `fn` for every symbol in it (with repetitions).
    void forEachSymbol(::llvm::function_ref<void(::llvm::StringRef)> fn) const;
    /// Replaces symbols; null from `fn` keeps the symbol.
    DimAttr substitute(::llvm::function_ref<DimAttr(::llvm::StringRef)> fn) const;
  }];
}

def Train_DimFnKind : I32EnumAttr<"DimFnKind", "function in a size expression", [
    I32EnumAttrCase<"floordiv", 0>, I32EnumAttrCase<"mod", 1>,
    I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>]> {
  let cppNamespace = "::trainc::train";
  let genSpecializedAttr = 0;
}

def Train_Epilogue : I32EnumAttr<"Epilogue", "what a matmul does before it stores", [
    I32EnumAttrCase<"bias", 1>, I32EnumAttrCase<"gelu_aux", 2>, I32EnumAttrCase<"gelu_aux_bias", 3>,
    I32EnumAttrCase<"dgelu", 4>, I32EnumAttrCase<"dgelu_bgrad", 5>]> {
  let cppNamespace = "::trainc::train";
  let genSpecializedAttr = 0;
}
def Train_EpilogueAttr : EnumAttr<Train_Dialect, Train_Epilogue, "epilogue"> {
  let assemblyFormat = "$value";
}

def Train_DimFnAttr : Train_Attr<"DimFn", "dim_fn"> {
  let summary = "non-polynomial atom of a size expression";
  let parameters = (ins "::trainc::train::DimFnKind":$kind, "::mlir::Attribute":$lhs,
                        "::mlir::Attribute":$rhs);
  let hasCustomAssemblyFormat = 1;
}

def Train_DimsAttr : Train_Attr<"Dims", "dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "list of size expressions; as a tensor's encoding, its dims with their names";
  let description = [{
    `tensor<?x?x64xf32, #train.dims<batch, seq, 64>>`. Fully static tensors carry no encoding.
  }];
  let parameters = (ins ArrayRefParameter<"::trainc::train::DimAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
}

def Train_WeightAttr : Train_Attr<"Weight", "weight"> {
  let summary = "where the initial value of a parameter is stored";
  let description = [{
    `file` is relative to the model's folder, or empty for a blob that the importer keeps (`offset` is
    then its number). `absent` says that the file was not there. The bytes are never read while compiling.
  }];
  let parameters = (ins "::mlir::StringAttr":$file, "int64_t":$offset, "int64_t":$length,
                        "bool":$absent);
  let assemblyFormat = "`<` $file `,` $offset `,` $length `,` $absent `>`";
}

#endif // TRAINC_TRAIN_DIALECT_TD
