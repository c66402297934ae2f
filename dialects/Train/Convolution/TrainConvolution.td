// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and their gradients (docs/design/convolution.md). In a file of its own, since few passes know of them.

#ifndef TRAINC_TRAIN_CONVOLUTION_TD
#define TRAINC_TRAIN_CONVOLUTION_TD

include "dialects/Train/TrainBase.td"

def ConvolutionOpInterface : Train_Interface<"ConvolutionOpInterface"> {
  let description = [{
    A convolution or one of its gradients. All three relate an input [batch, positions..., channels], a filter
    [filters, taps..., channels / groups] and an output [batch, windows..., filters]: two of them are operands, the third
    one is the result. Along axis a, window o meets the input at o * strides[a] + tap * dilations[a] - low[a].
  }];
  let methods = [
    InterfaceMethod<"the input, or its gradient", "::mlir::Value", "getInput">,
    InterfaceMethod<"the filter, or its gradient", "::mlir::Value", "getFilter">,
    InterfaceMethod<"the output, or its gradient", "::mlir::Value", "getOutput">,
    InterfaceMethod<"positions from one window to the next, for each axis of positions",
      "::llvm::ArrayRef<int64_t>", "getStrides">,
    InterfaceMethod<"positions from one tap to the next, for each axis of positions",
      "::llvm::ArrayRef<int64_t>", "getDilations">,
    InterfaceMethod<"zeros before the input, for each axis of positions", "::trainc::train::DimsAttr", "getLow">,
    InterfaceMethod<"zeros behind the input, for each axis of positions", "::trainc::train::DimsAttr", "getHigh">,
    InterfaceMethod<"parts of the channels, each of which has filters of its own", "uint64_t", "getGroups">,
  ];
}

class Train_ConvolutionOp<string mnemonic> : Train_Op<mnemonic, [
    ConvolutionOpInterface, LowPrecisionOpInterface,
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>]> {
  let hasVerifier = 1;
  dag attributes = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, Train_DimsAttr:$low,
                        Train_DimsAttr:$high, I64Attr:$groups);
  string rest = [{ `strides` `=` $strides `dilations` `=` $dilations `low` `=` $low `high` `=` $high `groups` `=` $groups
                   attr-dict `:` functional-type(operands, results) }];
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::trainc::train::detail::verifyConvolution(*this); }
    ::trainc::train::AxisMap $cppClass::getAxisMap() { return ::trainc::train::detail::convolutionAxisMap(*this); }
    // All others are decomposed before kernels form.
    ::trainc::train::FusionRole $cppClass::getFusionRole() {
      return ::trainc::train::isLibraryCall(*this) ? ::trainc::train::FusionRole::Library : ::trainc::train::FusionRole::None;
    }
    bool $cppClass::acceptsOperandLayout(unsigned operand, const ::trainc::train::StridedLayout &layout) {
      return ::trainc::train::detail::isRowMajor(getOperation()->getOperand(operand), layout);
    }
    bool $cppClass::acceptsResultLayout(unsigned result, const ::trainc::train::StridedLayout &layout) {
      return ::trainc::train::detail::isRowMajor(getOperation()->getResult(result), layout);
    }
    ::trainc::train::DimAttr $cppClass::getFlops() { return ::trainc::train::detail::convolutionFlops(*this); }
    ::trainc::train::RecomputeClass $cppClass::getRecomputeClass() {
      return ::trainc::train::RecomputeClass::Costly;
    }
  }];
}

def Train_ConvOp : Train_ConvolutionOp<"conv"> {
  let summary = "convolution, channels last (ONNX Conv-11; torch.nn.functional.conv1d to conv3d)";
  let description = [{
    output[n, o, k] = sum over taps t and the channels c of k's group of filter[k, t, c] * input[n, o * strides + t *
    dilations - low, c]; outside of the input there are zeros. One element type; sums of 16-bit floats are in f32.
    Example, a 3x3 convolution of images of 9x9 with 4 channels: `train.conv %x, %w strides = [2, 2] dilations = [1, 1]
    low = <1, 1> high = <1, 1> groups = 1 : (tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) -> tensor<2x5x5x6xf32>`.
  }];
  let arguments = !con((ins Train_FloatTensor:$input, Train_FloatTensor:$filter), attributes);
  let results = (outs Train_FloatTensor:$output);
  let assemblyFormat = "$input `,` $filter" # rest;
}

def Train_ConvDataGradOp : Train_ConvolutionOp<"conv_data_grad"> {
  let summary = "gradient of a convolution for its input; a transposed convolution (ONNX ConvTranspose-11)";
  let description = [{
    `output` is the gradient of a `train.conv`'s output, the result that of its input: every window's number goes back,
    by each filter, to the positions that the window read.
  }];
  let arguments = !con((ins Train_FloatTensor:$output, Train_FloatTensor:$filter), attributes);
  let results = (outs Train_FloatTensor:$input);
  let assemblyFormat = "$output `,` $filter" # rest;
}

def Train_ConvFilterGradOp : Train_ConvolutionOp<"conv_filter_grad"> {
  let summary = "gradient of a convolution for its filter";
  let description = [{
    `output` is the gradient of a `train.conv`'s output, the result that of its filter: sums over batch and windows.
  }];
  let arguments = !con((ins Train_FloatTensor:$input, Train_FloatTensor:$output), attributes);
  let results = (outs Train_FloatTensor:$filter);
  let assemblyFormat = "$input `,` $output" # rest;
}

#endif // TRAINC_TRAIN_CONVOLUTION_TD
