// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of the `onnx` dialect: graph, node, initializer, none, return.

#ifndef DIALECTS_ONNX_ONNXOPS_TD
#define DIALECTS_ONNX_ONNXOPS_TD

include "dialects/ONNX/ONNXDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class ONNX_Op<string mnemonic, list<Trait> traits = []> : Op<ONNX_Dialect, mnemonic, traits>;

def ONNX_GraphOp : ONNX_Op<"graph", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "The graph of a model";
  let description = [{
    A function: arguments are the graph inputs without an initializer, results are its outputs. Names
    and symbolic dimensions are argument and result attributes.

    ```mlir
    onnx.graph @main(%arg0: tensor<?x4xf32> {onnx.dims = ["batch", ""], onnx.name = "x"})
        -> (tensor<?x4xf32> {onnx.name = "y"})
        attributes {ir_version = 10 : i64, metadata_props = {}, model = "m.onnx",
                    opset_imports = {ai.onnx = 20 : i64}} {
      ...
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs,
    StrAttr:$model,
    DictionaryAttr:$opset_imports,
    DictionaryAttr:$metadata_props,
    DefaultValuedAttr<I64Attr, "0">:$ir_version
  );
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    /// The ONNX name of an input or an output ("" if it has none).
    ::llvm::StringRef getInputName(unsigned index);
    ::llvm::StringRef getOutputName(unsigned index);
    /// The names of an input's axes, one an axis, "" where an axis has none.
    ::llvm::SmallVector<::llvm::StringRef> getInputDims(unsigned index);
  }];
}

def ONNX_NodeOp : ONNX_Op<"node"> {
  let summary = "Any ONNX operator";
  let description = [{
    `version` is the opset that the node's model or function imports for the domain, not the version in
    which the operator last changed. The default domain is "". Inputs that the node leaves out are
    `onnx.none` values. Subgraph attributes are regions, named by `subgraph_names`; they may
    capture values from above.

    ```mlir
    %0 = onnx.node "Gemm" version 20(%x, %w, %b) {transB = 1 : i64}
         : (tensor<?x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<?x8xf32>
    ```
  }];
  let arguments = (ins
    StrAttr:$op_type,
    DefaultValuedStrAttr<StrAttr, "">:$domain,
    I64Attr:$version,
    DictionaryAttr:$node_attributes,
    OptionalAttr<StrArrayAttr>:$subgraph_names,
    Variadic<AnyType>:$inputs
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region VariadicRegion<AnyRegion>:$subgraphs);
  let assemblyFormat = [{
    $op_type (`domain` $domain^)? `version` $version `(` $inputs `)` $node_attributes
    (`subgraphs` $subgraph_names^ $subgraphs)? attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def ONNX_InitializerOp : ONNX_Op<"initializer", [Pure]> {
  let summary = "A weight or constant of the graph";
  let description = [{
    `value` is there for small tensors and for integer data that shapes may depend on; compilation
    never needs to read a file for them.

    ```mlir
    %w = onnx.initializer "fc.weight" #onnx.weight<file = "m.onnx", offset = 99, length = 128>
         : tensor<8x4xf32>
    %c = onnx.initializer "axes" #onnx.weight<length = 8, blob = 0> = dense<1> : tensor<1xi64>
         : tensor<1xi64>
    ```
  }];
  let arguments = (ins StrAttr:$name, ONNX_WeightAttr:$weight, OptionalAttr<ElementsAttr>:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name $weight (`=` $value^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def ONNX_NoneOp : ONNX_Op<"none", [Pure]> {
  let summary = "An input that a node leaves out";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict";
}

def ONNX_ReturnOp : ONNX_Op<"return", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a graph or a subgraph: its outputs";
  let arguments = (ins Variadic<AnyType>:$outputs);
  let assemblyFormat = "($outputs^ `:` type($outputs))? attr-dict";
}

#endif // DIALECTS_ONNX_ONNXOPS_TD
