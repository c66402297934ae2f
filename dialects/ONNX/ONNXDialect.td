// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The `onnx` dialect: a faithful mirror of an ONNX file, which judges nothing. One op stands for every
// operator, so that any model can be imported, dumped, reduced and inspected. See README.md.

#ifndef DIALECTS_ONNX_ONNXDIALECT_TD
#define DIALECTS_ONNX_ONNXDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def ONNX_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::trainc::onnx";
  let summary = "A faithful mirror of an ONNX model";
  let description = [{
    `onnx.graph` holds a model's graph, `onnx.initializer` its weights (as references into files),
    and `onnx.node` every operator by name. Nothing is checked beyond structure: `legalize` decides
    what the compiler understands.

    Discardable attributes on graph arguments and results: `onnx.name` (the value's name in the file)
    and `onnx.dims` (an array of strings, one an axis: the symbolic dimension's name, or ""). Results of
    training graphs also have `onnx.gradient_of` (the initializer whose gradient the result is) or
    `onnx.updates` (the initializer whose value after a step it is).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class ONNX_Type<string name, string typeMnemonic> : TypeDef<ONNX_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def ONNX_AnyType : ONNX_Type<"Any", "any"> {
  let summary = "A value of unknown or non-tensor type";
  let description = [{
    Sequences, optionals, strings, and results for which the model has no `value_info`.
  }];
}

def ONNX_WeightAttr : AttrDef<ONNX_Dialect, "Weight"> {
  let mnemonic = "weight";
  let summary = "Where the bytes of an initializer are";
  let description = [{
    Weights never enter the IR. `file` is relative to the model's folder; `offset` and `length` are in
    bytes. `blob` is -1, or the index of a blob that the import made, since the file does not hold
    the elements as raw bytes (`file` is then empty and `offset` 0). `absent`: the file was not there.

    ```mlir
    #onnx.weight<file = "model.onnx", offset = 128, length = 4096>
    #onnx.weight<length = 12, blob = 0>
    #onnx.weight<file = "model.onnx.data", length = 4096, absent = true>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"relative to the model's folder", "\"\"">:$file,
    DefaultValuedParameter<"int64_t", "0", "in bytes">:$offset,
    DefaultValuedParameter<"int64_t", "0", "in bytes">:$length,
    DefaultValuedParameter<"int64_t", "-1", "index of a converted blob">:$blob,
    DefaultValuedParameter<"bool", "false", "the file was not there">:$absent
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // DIALECTS_ONNX_ONNXDIALECT_TD
