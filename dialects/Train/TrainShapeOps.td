// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that move elements: constants, shapes, gathers and scatters.

#ifndef TRAINC_TRAIN_SHAPE_TD
#define TRAINC_TRAIN_SHAPE_TD

include "dialects/Train/TrainBase.td"

// Moves elements by index arithmetic only.
class Train_AccessOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<ElementAccessOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>], traits)> {
  let extraClassDefinition = [{
    ::trainc::train::FusionRole $cppClass::getFusionRole() {
      return ::trainc::train::FusionRole::Access;
    }
  }];
}

def Train_ConstantOp : Train_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>,
    DeclareOpInterfaceMethods<ElementAccessOpInterface>, DeclareOpInterfaceMethods<FusionOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "tensor known at compile time";
  let description = [{
    Not for weights. A splat is inlined into kernels, anything else becomes constant data of the package.
    Example: `train.constant dense<[0, 1]> : tensor<2xi64>`.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def Train_IotaOp : Train_PointwiseOp<"iota", "scalar::iota(b, loc, i[getAxis()], getResult().getType())", "double(i[getAxis()])", ""> {
  let summary = "index along one axis";
  let arguments = (ins I64Attr:$axis);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ bool dependsOnIndex(int64_t axis) { return axis == int64_t(getAxis()); } }];
}

def Train_BroadcastOp : Train_AccessOp<"broadcast", [DeclareOpInterfaceMethods<StridedViewOpInterface>]> {
  let summary = "repeats a tensor along new axes";
  let description = [{
    Axis `axes[i]` of the result is axis `i` of the operand (ascending, equal sizes); the other axes are new.
    Example: `train.broadcast %b axes = [2] : tensor<8xf32> -> tensor<2x4x8xf32>`.
  }];
  let arguments = (ins Train_AnyTensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand `axes` `=` $axes attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{ bool onlyMoves() { return true; } }];
}

def Train_ReshapeOp : Train_Op<"reshape", [DeclareOpInterfaceMethods<StridedViewOpInterface>,
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>,
    DeclareOpInterfaceMethods<ElementAccessOpInterface, ["hasElements"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>, DeclareOpInterfaceMethods<FusionOpInterface>]> {
  let summary = "same elements in row-major order, other shape";
  let description = [{
    The element counts are equal for all sizes. Axes that correspond one to one (equal size, equal
    product of the axes before) are parallel loops, the others opaque.
  }];
  let arguments = (ins Train_AnyTensor:$operand);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{ bool onlyMoves() { return true; } }];
}

def Train_BarrierOp : Train_Op<"barrier", [SameOperandsAndResultType,
    DeclareOpInterfaceMethods<StridedViewOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["separatesKernels"]>]> {
  let summary = "the operand, as a value of its own";
  let description = [{
    What is computed from the result is not merged with what is computed from the operand, and no kernel with it
    starts before this op: what `recompute` computes again stays where it was put. A view; nothing is copied.
  }];
  let arguments = (ins Train_AnyTensor:$operand);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def Train_TransposeOp : Train_AccessOp<"transpose", [DeclareOpInterfaceMethods<StridedViewOpInterface>]> {
  let summary = "permutes axes: axis i of the result is axis permutation[i] of the operand";
  let arguments = (ins Train_AnyTensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand `permutation` `=` $permutation attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{ bool onlyMoves() { return true; } }];
}

def Train_SliceOp : Train_AccessOp<"slice", [DeclareOpInterfaceMethods<SliceOpInterface, ["isPrefix"]>,
    DeclareOpInterfaceMethods<SubrangeOpInterface>,
    DeclareOpInterfaceMethods<StridedViewOpInterface>]> {
  let summary = "elements starts[a] + i * steps[a] along every axis; sizes are the result's";
  let description = [{Starts are size expressions; steps may be negative. Starts are in range.}];
  let arguments = (ins Train_AnyTensor:$operand, Train_DimsAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand `starts` `=` $starts `steps` `=` $steps attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{ bool onlyMoves() { return true; } }];
}

def Train_PadOp : Train_AccessOp<"pad", [DeclareOpInterfaceMethods<SubrangeOpInterface, ["getFill"]>]> {
  let summary = "surrounds a tensor with one value; `low[a]` elements before it along axis a";
  let description = [{`low` may be negative (cropping), and sizes are the result's.}];
  let arguments = (ins Train_AnyTensor:$operand, TypedAttrInterface:$value, Train_DimsAttr:$low);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand `value` `=` $value `low` `=` $low attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Train_ConcatOp : Train_AccessOp<"concat", [DeclareOpInterfaceMethods<SubrangeOpInterface>]> {
  let summary = "joins tensors along one axis";
  let arguments = (ins Variadic<Train_AnyTensor>:$operands, I64Attr:$axis);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operands `axis` `=` $axis attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

def Train_SplitOp : Train_AccessOp<"split", [DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<SubrangeOpInterface>]> {
  let summary = "cuts a tensor along one axis into the results, in order";
  let arguments = (ins Train_AnyTensor:$operand, I64Attr:$axis);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let assemblyFormat = "$operand `axis` `=` $axis attr-dict `:` functional-type($operand, $results)";
  let hasVerifier = 1;
}

def Train_GatherOp : Train_AccessOp<"gather", [DeclareOpInterfaceMethods<IndexOperandOpInterface>,
    DeclareOpInterfaceMethods<SliceOpInterface, ["isPrefix"]>]> {
  let summary = "slices of `data` along `axis` chosen by indices of any rank (ONNX Gather, embedding)";
  let description = [{
    result[a..., i..., b...] = data[a..., indices[i...], b...]. Negative indices count from the end; one
    out of range ends the run with the node's name.
  }];
  let arguments = (ins Train_AnyTensor:$data, Train_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$data `,` $indices `axis` `=` $axis attr-dict `:` type($data) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Train_GatherElementsOp : Train_AccessOp<"gather_elements", [DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "result[i] = data[i with coordinate `axis` replaced by indices[i]] (ONNX GatherElements)";
  let arguments = (ins Train_AnyTensor:$data, Train_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$data `,` $indices `axis` `=` $axis attr-dict `:` type($data) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Train_GatherNdOp : Train_AccessOp<"gather_nd"> {
  let summary = "elements or slices addressed by index tuples in the last axis of `indices` (ONNX GatherND)";
  let description = [{The last axis of `indices` is static. `batch_dims` leading axes are shared.}];
  let arguments = (ins Train_AnyTensor:$data, Train_IntTensor:$indices, I64Attr:$batch_dims);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$data `,` $indices `batch_dims` `=` $batch_dims attr-dict `:` type($data) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of each tuple of indices the number of its row, i64, in row-major order of the axes that are indexed; below 0
    /// counts from the end. `isValid`, if given: whether each index is in its axis.
    ::mlir::Value buildRowNumbers(::trainc::train::TrainBuilder &tb, ::mlir::Value *isValid = nullptr);
  }];
}

def Train_SelectRowsOp : Train_AccessOp<"select_rows", [DeclareOpInterfaceMethods<SliceOpInterface>, RowSelectionOpInterface]> {
  let summary = "indices of one axis that are wanted, each at most once; its gradient is the same op";
  let description = [{
    result[..., i, ...] = data[..., index[i], ...] along `axis`, 0 where index[i] < 0. `inverse` leads back: the
    gradient of data[..., j, ...] is that of result[..., inverse[j], ...], 0 where inverse[j] < 0. Slots of `index` that
    `inverse` does not name repeat an element and take no part in the gradient: their cotangents are 0.

    So rows are packed (`index`: the row of a slot, a repeated row in slots that are left over) and put back
    (`index`: the slot of a row, -1 where it has none). Both index tensors are i32 of rank 1.
  }];
  let arguments = (ins Train_AnyTensor:$data, Train_IntTensor:$index, Train_IntTensor:$inverse, I64Attr:$axis);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = [{
    $data `,` $index `inverse` $inverse `axis` `=` $axis attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Train_DequantizeOp : Train_AccessOp<"dequantize"> {
  let summary = "numbers of 4-bit or 8-bit codes, in blocks of one scale";
  let description = [{
    With i an element's number in row-major order, result[i] = table[code i] * scales[i / block]. `table` is what the
    codes stand for: with 16 entries (NF4 and FP4: Dettmers et al., QLoRA, 2023) `codes` (i8) hold two a byte, the even
    one in the high half, with 256 (the scales of its double quantization) one. The last block may be short, and the
    last byte half empty. No gradient flows.
    Example: `train.dequantize %codes, %table, %scales block 64 : (tensor<64xi8>, tensor<16xf32>, tensor<2xf32>) -> tensor<8x16xf32>`.
  }];
  let arguments = (ins Train_IntTensor:$codes, Train_FloatTensor:$table, Train_FloatTensor:$scales, I64Attr:$block);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$codes `,` $table `,` $scales `block` $block attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ bool isDifferentiable(unsigned) { return false; } }];
}

// Sliding windows along one axis: what convolutions and pools read, and its transpose.
class Train_SlidingOp<string mnemonic, list<Trait> traits = []> : Train_AccessOp<mnemonic, traits> {
  let arguments = (ins Train_AnyTensor:$operand, I64Attr:$axis, I64Attr:$taps, I64Attr:$stride, I64Attr:$dilation);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = [{
    $operand `axis` `=` $axis `taps` `=` $taps `stride` `=` $stride `dilation` `=` $dilation attr-dict `:`
    type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Train_WindowOp : Train_SlidingOp<"window", [DeclareOpInterfaceMethods<StridedViewOpInterface>]> {
  let summary = "windows that slide along `axis`; the axis `taps` holds their taps";
  let description = [{
    The element at o along `axis` and at k along `taps` is the operand's at o * stride + k * dilation along `axis` and at
    k along `taps`. Mostly of a tensor that is repeated along the taps (im2col, one axis at a time). All positions lie
    inside the operand; pad it before.
    Example: `train.window %x axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<4x9x3xf32> -> tensor<4x4x3xf32>`.
  }];
}

def Train_SpreadOp : Train_SlidingOp<"spread"> {
  let summary = "puts the elements of windows back where they came from: the transpose of `train.window`";
  let description = [{
    The element at o * stride + k * dilation along `axis` and at k along `taps` is the operand's at o and k; 0 where no o
    fits. Summed over the taps it is the gradient of a convolution's input, and a transposed convolution (col2im).
    Example: `train.spread %x axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<4x4x3xf32> -> tensor<4x9x3xf32>`.
  }];
}

class Train_StandaloneOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>], traits)> {
  let extraClassDefinition = [{
    ::trainc::train::FusionRole $cppClass::getFusionRole() {
      return ::trainc::train::FusionRole::Standalone;
    }
  }];
}

def Train_ScatterAddOp : Train_StandaloneOp<"scatter_add", [DeclareOpInterfaceMethods<ScatterOpInterface>]> {
  let summary = "sums slices into zeros at indices along `axis`: the gradient of gather";
  let description = [{
    result[a..., indices[i...], b...] += updates[a..., i..., b...], duplicates in row-major order.
    `unique`: there are none, of one axis of indices, and a negative index means nowhere.
  }];
  let arguments = (ins Train_IntTensor:$indices, Train_FloatTensor:$updates, I64Attr:$axis, UnitAttr:$unique);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$indices `,` $updates `axis` `=` $axis (`unique` $unique^)? attr-dict `:` type($indices) `,` type($updates) `->` type($result)";
  let hasVerifier = 1;
}

def Train_ScatterElementsAddOp : Train_StandaloneOp<"scatter_elements_add", [DeclareOpInterfaceMethods<ScatterOpInterface>]> {
  let summary = "sums elements into zeros at indices along `axis`: the gradient of gather_elements";
  let arguments = (ins Train_IntTensor:$indices, Train_FloatTensor:$updates, I64Attr:$axis);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$indices `,` $updates `axis` `=` $axis attr-dict `:` type($indices) `,` type($updates) `->` type($result)";
  let hasVerifier = 1;
}

def Train_CumsumOp : Train_StandaloneOp<"cumsum", [SameOperandsAndResultType, DeclareOpInterfaceMethods<ScanOpInterface>]> {
  let summary = "running sum along one axis (ONNX CumSum)";
  let arguments = (ins Train_NumberTensor:$operand, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$operand `axis` `=` $axis (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // TRAINC_TRAIN_SHAPE_TD
