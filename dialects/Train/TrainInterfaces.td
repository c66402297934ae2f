// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an op of a training graph can say about itself. Passes ask these questions and nothing else;
// an op that does not answer blocks an optimisation, never correctness.

#ifndef TRAINC_TRAIN_INTERFACES_TD
#define TRAINC_TRAIN_INTERFACES_TD

include "mlir/IR/OpBase.td"

class Train_Interface<string name> : OpInterface<name> {
  let cppNamespace = "::trainc::train";
}

def AxisMapOpInterface : Train_Interface<"AxisMapOpInterface"> {
  let description = [{
    Relates the axes of operands and results through loops, as linalg's indexing maps restricted to
    projected permutations. A loop is `parallel` (result index = operand index), `positional` (parallel,
    but the coordinate itself enters the value: iota, dropout's counter), `reduction` (summed over)
    or `opaque` (every result element along it may depend on every operand element along it).
  }];
  let methods = [
    InterfaceMethod<"loops, and for each operand and result the loop of each axis (-1: none)",
      "::trainc::train::AxisMap", "getAxisMap">,
    InterfaceMethod<[{
        Makes the op whose operands have been restricted along some parallel loops: same attributes, the given
        operands, and results whose axes on those loops have the sizes `extents`. The default clones and
        replaces the result types.
      }],
      "::mlir::Operation *", "cloneRestricted",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::llvm::ArrayRef<::trainc::train::LoopExtent>":$extents), [{}],
      [{ return ::trainc::train::detail::defaultCloneRestricted($_op, builder, operands, extents); }]>,
    InterfaceMethod<"whether atCoordinate gives an op", "bool", "takesCoordinates", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
        The same op with its coordinate along a positional loop given by `coordinate` (i32, the result's shape), which
        makes the loop parallel: for elements that were selected from a larger tensor.
      }],
      "::mlir::Operation *", "atCoordinate",
      (ins "::mlir::OpBuilder &":$builder, "unsigned":$loop, "::mlir::Value":$coordinate), [{}],
      [{ (void)builder; (void)loop; (void)coordinate; return nullptr; }]>,
  ];
}

def PointwiseOpInterface : Train_Interface<"PointwiseOpInterface"> {
  let description = [{
    result[i] = f(operands[i]...). Operands have the result's shape, or rank 0 (the same value for
    every element). The op has one result.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits f with arith and math ops. `elements` are scalars or vectors of one length (rank-0
        operands come already as splats); `index` holds the element's coordinates, `index` scalars or
        vectors of the same length.
      }],
      "::mlir::Value", "buildScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$elements,
           "::mlir::ValueRange":$index)>,
    InterfaceMethod<"whether f reads the coordinate of this axis (only a prefix along it is then the same op)",
      "bool", "dependsOnIndex", (ins "int64_t":$axis), [{}], [{ return false; }]>,
    InterfaceMethod<"f in double; integers and booleans are exact doubles",
      "double", "evaluateScalar",
      (ins "::llvm::ArrayRef<double>":$elements, "::llvm::ArrayRef<int64_t>":$index)>,
  ];
}

def ReductionOpInterface : Train_Interface<"ReductionOpInterface"> {
  let description = [{
    result = combine over the reduced axes of map(operand 0). The reduced axes are dropped. `combine`
    is associative up to rounding; the order is the code generator's and depends on shapes only.
  }];
  let methods = [
    InterfaceMethod<"axes of operand 0 that are reduced, ascending",
      "::llvm::SmallVector<int64_t>", "getReducedAxes">,
    InterfaceMethod<"the neutral element, for the element type given (scalar)",
      "::mlir::TypedAttr", "getIdentity", (ins "::mlir::Type":$elementType)>,
    InterfaceMethod<"value to be combined, from an operand element (scalar or vector)",
      "::mlir::Value", "buildMap",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$element), [{}],
      [{ return element; }]>,
    InterfaceMethod<"combine(a, b), scalars or vectors",
      "::mlir::Value", "buildCombine",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$lhs,
           "::mlir::Value":$rhs)>,
    InterfaceMethod<"map in double", "double", "evaluateMap", (ins "double":$element), [{}],
      [{ return element; }]>,
    InterfaceMethod<"combine in double", "double", "evaluateCombine",
      (ins "double":$lhs, "double":$rhs)>,
    InterfaceMethod<"neutral element in double", "double", "evaluateIdentity">,
  ];
}

def ElementAccessOpInterface : Train_Interface<"ElementAccessOpInterface"> {
  let description = [{
    The op's result element at an index is made from operand elements at other indices (broadcast,
    transpose, slice, gather, pad, iota ...): such ops fuse into any kernel as index arithmetic.
  }];
  let methods = [
    InterfaceMethod<"emits the element of result `result` at `index`",
      "::mlir::Value", "buildElement",
      (ins "::trainc::train::ElementBuilder &":$eb, "unsigned":$result,
           "::llvm::ArrayRef<::trainc::train::ElementIndex>":$index)>,
    InterfaceMethod<"whether buildElement can do it, for the shapes at hand",
      "bool", "hasElements", (ins), [{}], [{ return true; }]>,
    InterfaceMethod<"whether every result element is an element of operand 0, whatever the other operands hold",
      "bool", "onlyMoves", (ins), [{}], [{ return false; }]>,
  ];
}

def DecomposableOpInterface : Train_Interface<"DecomposableOpInterface"> {
  let description = [{
    A composite that passes see as one thing and kernels as its parts: pointwise ops, reductions and
    element accesses.
  }];
  let methods = [
    InterfaceMethod<"emits the parts; one value a result",
      "void", "decompose",
      (ins "::trainc::train::TrainBuilder &":$tb, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

def DifferentiableOpInterface : Train_Interface<"DifferentiableOpInterface"> {
  let description = [{
    Reverse-mode derivative. Floating-point operands are differentiable unless the op says otherwise.
    `cotangents` holds a value or null (zero) for each result; `gradients` takes a value or null (zero)
    for each operand, and only those with `needed` set are looked at.
  }];
  let methods = [
    InterfaceMethod<"emits the vector-Jacobian product",
      "void", "buildVJP",
      (ins "::trainc::train::TrainBuilder &":$tb, "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::MutableArrayRef<::mlir::Value>":$gradients)>,
    InterfaceMethod<"whether the op in its present form has a derivative", "bool", "hasDerivative",
      (ins), [{}], [{ return true; }]>,
    InterfaceMethod<"whether a gradient flows to this operand at all",
      "bool", "isDifferentiable", (ins "unsigned":$operand), [{}],
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getOperand(operand).getType())); }]>,
    InterfaceMethod<"whether a gradient comes back through this result (not for what only gradients read)",
      "bool", "isDifferentiableResult", (ins "unsigned":$result), [{}],
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getResult(result).getType())); }]>,
  ];
}

def CostOpInterface : Train_Interface<"CostOpInterface"> {
  let description = [{What the op costs, as expressions over the symbols.}];
  let methods = [
    InterfaceMethod<"floating-point operations", "::trainc::train::DimAttr", "getFlops", (ins), [{}],
      [{ return ::trainc::train::detail::elementCount($_op); }]>,
    InterfaceMethod<"free, cheap, costly or never to be computed again",
      "::trainc::train::RecomputeClass", "getRecomputeClass", (ins), [{}],
      [{ return ::trainc::train::RecomputeClass::Cheap; }]>,
    InterfaceMethod<"relative instruction count of one element, an add being 1",
      "unsigned", "getElementCost", (ins), [{}], [{ return 1; }]>,
  ];
}

def FusionOpInterface : Train_Interface<"FusionOpInterface"> {
  let description = [{How the op takes part in forming kernels.}];
  let methods = [
    InterfaceMethod<"role", "::trainc::train::FusionRole", "getFusionRole">,
    InterfaceMethod<"whether a library call can read an operand that lies like this",
      "bool", "acceptsOperandLayout",
      (ins "unsigned":$operand, "const ::trainc::train::StridedLayout &":$layout), [{}], [{ return true; }]>,
    InterfaceMethod<"whether a library call can write a result that lies like this",
      "bool", "acceptsResultLayout",
      (ins "unsigned":$result, "const ::trainc::train::StridedLayout &":$layout), [{}], [{ return true; }]>,
    InterfaceMethod<"whether kernels with what is computed from the result begin behind this op, a view",
      "bool", "separatesKernels", (ins), [{}], [{ return false; }]>,
  ];
}

def LowPrecisionOpInterface : Train_Interface<"LowPrecisionOpInterface"> {
  let description = [{
    The op gains from reading and writing a 16-bit float type and sums in f32 all the same: what
    mixed-precision puts casts around.
  }];
  let methods = [
    InterfaceMethod<"whether this operand may be of the low type", "bool", "takesLowPrecision",
      (ins "unsigned":$operand), [{}],
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getOperand(operand).getType())); }]>,
    InterfaceMethod<"whether this result is of the low type where the operands are", "bool",
      "givesLowPrecision", (ins "unsigned":$result), [{}], [{ return true; }]>,
  ];
}

def IndexOperandOpInterface : Train_Interface<"IndexOperandOpInterface"> {
  let description = [{
    An operand whose integers must lie in a range: checked on the host, before a step, where they come
    straight from an input.
  }];
  let methods = [
    InterfaceMethod<"the rule of one operand, if it has one",
      "std::optional<::trainc::train::IndexRule>", "getIndexRule", (ins "unsigned":$operand)>,
  ];
}

def StridedViewOpInterface : Train_Interface<"StridedViewOpInterface"> {
  let description = [{
    The result can be read in the operand's buffer through other strides, without a copy. Library calls
    take such operands.
  }];
  let methods = [
    InterfaceMethod<"layout of the result, if strides can express it",
      "std::optional<::trainc::train::StridedLayout>", "getStridedView",
      (ins "const ::trainc::train::StridedLayout &":$operand)>,
  ];
}

def ScatterOpInterface : Train_Interface<"ScatterOpInterface"> {
  let description = [{
    result = zeros; for each position p of `updates` in row-major order of the index space:
    result[..., index(p), ...] += updates[p]. Deterministic: duplicates are added in order.
  }];
  let methods = [
    InterfaceMethod<"operand with the indices", "::mlir::OpOperand &", "getScatterIndices">,
    InterfaceMethod<"operand with the updates", "::mlir::OpOperand &", "getScatterUpdates">,
    InterfaceMethod<"result axis that the indices address", "int64_t", "getScatterAxis">,
    InterfaceMethod<[{true: the updates have the indices' shape in place of the axis (as gather);
                      false: indices and updates have one shape (as gather_elements)}],
      "bool", "isRowScatter">,
    InterfaceMethod<[{rows only: no two indices are the same, and negative ones are left out, so that
                      nothing has to be added}],
      "bool", "hasUniqueIndices">,
  ];
}

def ScanOpInterface : Train_Interface<"ScanOpInterface"> {
  let description = [{Running combination along one axis (cumulative sum).}];
  let methods = [
    InterfaceMethod<"axis", "int64_t", "getScanAxis">,
    InterfaceMethod<"the element itself is left out", "bool", "isExclusive">,
    InterfaceMethod<"from the end", "bool", "isReverse">,
    InterfaceMethod<"neutral element", "::mlir::TypedAttr", "getScanIdentity", (ins "::mlir::Type":$elementType)>,
    InterfaceMethod<"combine", "::mlir::Value", "buildScanCombine",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$lhs,
           "::mlir::Value":$rhs)>,
  ];
}

def ContractionOpInterface : Train_Interface<"ContractionOpInterface"> {
  let description = [{
    Sums of products of two factors' elements, [batch..., m, k] and [batch..., k, n] or transposed, and what the same call
    or kernel does besides. The properties are set on the op in place.
  }];
  let methods = [
    InterfaceMethod<"left factor", "::mlir::Value", "getLhs">,
    InterfaceMethod<"right factor", "::mlir::Value", "getRhs">,
    InterfaceMethod<"whether the left factor is [batch..., k, m]", "bool", "getTransposeLhs">,
    InterfaceMethod<"whether the right factor is [batch..., n, k]", "bool", "getTransposeRhs">,
    InterfaceMethod<"what the matmul is added to, or null", "::mlir::Value", "getAddend">,
    InterfaceMethod<"the addend as an operand", "::mlir::MutableOperandRange", "getAddendMutable">,
    InterfaceMethod<"whether it is the matmul and nothing else, a library's call", "bool", "isPlain">,
    InterfaceMethod<"whether it has no addend and could have one, of its result's type", "bool", "takesAddend">,
    InterfaceMethod<"whether the result could be f32 where it is narrower", "bool", "canStoreF32">,
    InterfaceMethod<"whether a kernel that makes the right factor as it reads it could compute it", "bool", "canStream">,
    InterfaceMethod<"of such a kernel: the most rows there can be", "std::optional<uint64_t>", "getStreamedRows">,
    InterfaceMethod<"makes it one", "void", "setStreamedRows", (ins "std::optional<uint64_t>":$rows)>,
  ];
  let extraSharedClassDeclaration = [{
    /// The extent that is summed over.
    ::trainc::train::DimAttr getInnerDim() {
      const int64_t rank = ::trainc::train::getRank($_op.getLhs());
      return ::trainc::train::getDim($_op.getLhs(), rank - ($_op.getTransposeLhs() ? 2 : 1));
    }
  }];
}

def ReferenceOpInterface : Train_Interface<"ReferenceOpInterface"> {
  let description = [{
    Plain evaluation in double, for ops that the pointwise and reduction interfaces do not already
    describe. Must not share code with `decompose` or code generation: it is their oracle.
  }];
  let methods = [
    InterfaceMethod<[{
        Results from operands. The caller has set the results' shapes and sized their data (zeros).
        `symbols` gives the sizes that attributes name. Fails on an index out of range.
      }],
      "::mlir::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::trainc::train::HostTensor>":$operands,
           "const ::trainc::train::SymbolValues &":$symbols,
           "::llvm::MutableArrayRef<::trainc::train::HostTensor>":$results)>,
  ];
}

def SliceOpInterface : Train_Interface<"SliceOpInterface"> {
  let description = [{
    The op selects indices of operand 0 along one axis and leaves the other axes alone: what
    hoist-slices moves towards the inputs.
  }];
  let methods = [
    InterfaceMethod<"axis of operand 0 that is selected from; -1 if the op does more than that",
      "int64_t", "getSlicedAxis">,
    InterfaceMethod<"whether the axis is dropped in the result (scalar index)", "bool", "dropsAxis">,
    InterfaceMethod<"number of selected indices (1 where the axis is dropped)",
      "::trainc::train::DimAttr", "getSlicedExtent">,
    InterfaceMethod<"whether the selected indices are 0, 1, ... (coordinates stay what they were)",
      "bool", "isPrefix", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"the same selection along `axis` of another value, the axis kept",
      "::mlir::Value", "buildSliced",
      (ins "::trainc::train::TrainBuilder &":$tb, "::mlir::Value":$value, "int64_t":$axis)>,
  ];
}

def SubrangeOpInterface : Train_Interface<"SubrangeOpInterface"> {
  let description = [{
    Operands and results are ranges of one another: the axes are the same, and result element i is element
    starts + steps * i of an operand where there is one. What joins operands or cuts one up has such a range for each.
  }];
  let methods = [
    InterfaceMethod<"where elements of one result lie in one operand",
      "::trainc::train::Subrange", "getSubrange", (ins "unsigned":$operand, "unsigned":$result)>,
    InterfaceMethod<"what elements hold that no operand has; null where there are none",
      "::mlir::Attribute", "getFill", (ins), [{}], [{ return ::mlir::Attribute(); }]>,
  ];
}

def RowSelectionOpInterface : Train_Interface<"RowSelectionOpInterface"> {
  let description = [{
    result[..., i, ...] = data[..., index[i], ...] along one axis, 0 where index[i] is negative, each row at most once
    but in slots that are left over; `inverse` leads back. Rows are packed and put back so.
  }];
  let methods = [
    InterfaceMethod<"what is selected from", "::mlir::Value", "getData">,
    InterfaceMethod<"the row of each slot", "::mlir::Value", "getIndex">,
    InterfaceMethod<"the same as an operand", "::mlir::OpOperand &", "getIndexMutable">,
    InterfaceMethod<"the slot of each row", "::mlir::Value", "getInverse">,
    InterfaceMethod<"axis of data and result", "uint64_t", "getAxis">,
  ];
}

def ChoiceOpInterface : Train_Interface<"ChoiceOpInterface"> {
  let description = [{result[i] = condition[i] ? onTrue[i] : onFalse[i]; the one that is not taken is not looked at.}];
  let methods = [
    InterfaceMethod<"booleans", "::mlir::Value", "getCondition">,
    InterfaceMethod<"where they hold", "::mlir::Value", "getOnTrue">,
    InterfaceMethod<"where not", "::mlir::Value", "getOnFalse">,
  ];
}

def IgnoredRowsOpInterface : Train_Interface<"IgnoredRowsOpInterface"> {
  let description = [{
    Rows (indices of the leading axes) whose selector holds one number count for nothing: the first result is 0 there,
    and no gradient comes from there. What exploit-label-sparsity leaves out. The selector's axes are the leading axes
    of every other operand and of every result.
  }];
  let methods = [
    InterfaceMethod<"operand of integers that decides", "::mlir::OpOperand &", "getSelector">,
    InterfaceMethod<"the number, if rows are ignored at all", "std::optional<int64_t>", "getIgnored">,
  ];
}

def AffineOpInterface : Train_Interface<"AffineOpInterface"> {
  let description = [{
    The op's integer result may be an affine function of its own coordinates, as positions are and the
    masks made of them.
  }];
  let methods = [
    InterfaceMethod<"the result as such a function, if its operands make it one",
      "std::optional<::trainc::train::AffineInteger>", "getAffine",
      (ins "::trainc::train::AffineLookup":$get)>,
  ];
}

def EvalModeOpInterface : Train_Interface<"EvalModeOpInterface"> {
  let description = [{The op behaves differently when the model is evaluated (dropout is identity).}];
  let methods = [
    InterfaceMethod<"values that replace the results in evaluation",
      "void", "buildEvalMode",
      (ins "::trainc::train::TrainBuilder &":$tb, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif // TRAINC_TRAIN_INTERFACES_TD
