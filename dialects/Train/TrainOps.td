// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, matmuls and the composites that passes see as one thing.

#ifndef TRAINC_TRAIN_OPS_TD
#define TRAINC_TRAIN_OPS_TD

include "dialects/Train/TrainPointwiseOps.td"
include "dialects/Train/TrainShapeOps.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def Train_CountKind : I32EnumAttr<"CountKind", "what is counted", [
    I32EnumAttrCase<"elements", 0>, I32EnumAttrCase<"runs", 1>, I32EnumAttrCase<"longest_run", 2>,
    I32EnumAttrCase<"sequences", 3>, I32EnumAttrCase<"longest_sequence", 4>]> {
  let cppNamespace = "::trainc::train";
  let genSpecializedAttr = 0;
}
def Train_CountKindAttr : EnumAttr<Train_Dialect, Train_CountKind, "count_kind"> {
  let assemblyFormat = "$value";
}

def Train_SymbolOp : Op<Train_Dialect, "symbol", [Symbol]> {
  let summary = "declares a size symbol";
  let description = [{
    `min`, `max` (absent: unbounded), `divisor` hold for every run; `input` and `axis` say which input's
    axis gives the value. With `differs` in place of an axis the value is a count: that of the input's elements which
    differ from this number, found on the host before a step and rounded up to a bucket, a multiple of the divisor.
    A step is right with any larger value. `counts` (absent: elements) says what of a row of these elements is counted,
    what lies between them left out: `runs` of equal ones, in all rows together, or the elements of the `longest_run`. Of
    `sequences`, each element of which is one more than that before it, and the `longest_sequence`, nothing is left out.
    Examples: `train.symbol @batch min 1 input "input_ids" axis 0`,
    `train.symbol @labelled min 8 divisor 8 input "labels" differs -100`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$min, OptionalAttr<I64Attr>:$max,
                       DefaultValuedAttr<I64Attr, "1">:$divisor, OptionalAttr<StrAttr>:$input,
                       OptionalAttr<I64Attr>:$axis, OptionalAttr<I64Attr>:$differs,
                       DefaultValuedAttr<Train_CountKindAttr, "CountKind::elements">:$counts);
  let assemblyFormat = [{
    $sym_name `min` $min (`max` $max^)? (`divisor` $divisor^)? (`input` $input^)? (`axis` $axis^)?
    (`differs` $differs^)? (`counts` $counts^)? attr-dict
  }];
}

def Train_FusionOp : Train_Op<"fusion", [IsolatedFromAbove, SingleBlock, DeclareOpInterfaceMethods<FusionOpInterface>]> {
  let summary = "ops that become one kernel";
  let description = [{
    The body is a straight line of pointwise, access and reduction ops (or one standalone op with
    producers of its operands) on the block arguments, ended by `train.yield`.
  }];
  let arguments = (ins Variadic<Train_AnyTensor>:$inputs);
  let results = (outs Variadic<Train_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body";
  let hasVerifier = 1;
}

def Train_YieldOp : Train_Op<"yield", [Terminator, ReturnLike, ParentOneOf<["FusionOp"]>]> {
  let summary = "results of a fusion";
  let arguments = (ins Variadic<Train_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Reductions and matmuls
//===----------------------------------------------------------------------===//

def Train_ReduceKind : I32EnumAttr<"ReduceKind", "reduction", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>,
    I32EnumAttrCase<"prod", 3>]> {
  let cppNamespace = "::trainc::train";
  let genSpecializedAttr = 0;
}
def Train_ReduceKindAttr : EnumAttr<Train_Dialect, Train_ReduceKind, "reduce_kind"> {
  let assemblyFormat = "$value";
}

def Train_ReduceOp : Train_Op<"reduce", [
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<ReductionOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>, DeclareOpInterfaceMethods<FusionOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "sum, max, min or product over axes; the axes are dropped";
  let description = [{
    Example: `train.reduce sum %x axes = [1] : tensor<4x8xf32> -> tensor<4xf32>`. Booleans: max is "any",
    min is "all". Equal extremes share the gradient.
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_AnyTensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "`` $kind $operand `axes` `=` $axes attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Train_MatmulOp : Train_Op<"matmul", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["hasDerivative"]>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>, LowPrecisionOpInterface,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>, ContractionOpInterface]> {
  let summary = "batched matmul, either operand transposed, and what its call does besides";
  let description = [{
    lhs [batch..., m, k] (transposed: [batch..., k, m]), rhs [batch..., k, n] (transposed: [batch..., n, k]),
    result [batch..., m, n]; equal batch axes, rank at least 2. One element type; the result of 16-bit operands may be f32,
    the type of the sums (`widen-products`).

    `plus` an addend of the result's type, added before the sums are rounded (`accumulate-products`).

    With an `epilogue` (`fuse-epilogues`), p the sums, the GELU in its tanh form, `operand` the optional operand behind
    `with` and `extra` the optional second result, all of one element type:

    | epilogue        | operand           | result          | extra            |
    |-----------------|-------------------|-----------------|------------------|
    | `bias`          | bias [n]          | p + bias        |                  |
    | `gelu_aux`      |                   | gelu(p)         | p                |
    | `gelu_aux_bias` | bias [n]          | gelu(p + bias)  | p + bias         |
    | `dgelu`         | aux [m, n]        | p * gelu'(aux)  |                  |
    | `dgelu_bgrad`   | aux [m, n]        | p * gelu'(aux)  | its sum over m   |

    `streamed` (`stream-weights`): no library's call but a kernel of its own, which makes each element of rhs once, as it
    reads it: for weights that are stored in fewer bits, and few rows, never more than the number given. GPUs have it for
    16-bit floats and up to 64 rows, with a static k that 64 divides, and a static n that 32 divides.

    The passes that make an epilogue or stream come after autodiff: such a matmul has no derivative. Addends, epilogues
    and streaming are of matmuls without a batch, and an addend and an epilogue exclude each other.
  }];
  let arguments = (ins Train_FloatTensor:$lhs, Train_FloatTensor:$rhs, Optional<Train_FloatTensor>:$addend,
                       Optional<Train_FloatTensor>:$operand, UnitAttr:$transposeLhs, UnitAttr:$transposeRhs,
                       OptionalAttr<Train_EpilogueAttr>:$epilogue, OptionalAttr<I64Attr>:$streamed_rows);
  let results = (outs Train_FloatTensor:$result, Optional<Train_FloatTensor>:$extra);
  let assemblyFormat = [{
    $lhs (`transposed` $transposeLhs^)? `,` $rhs (`transposed` $transposeRhs^)? (`plus` $addend^)?
    (`epilogue` `` $epilogue^)? (`with` $operand^)? (`streamed` $streamed_rows^)? attr-dict
    `:` type(operands) `->` type(results)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$lhs, "::mlir::Value":$rhs, "bool":$transposeLhs,
                   "bool":$transposeRhs)>
  ];
  let extraClassDeclaration = [{
    /// Whether it is the sums, or their sum with the addend, and nothing else. What a call can do besides says no here,
    /// and nobody takes it for a sum.
    bool isSum();
    /// Of ContractionOpInterface, beside the accessors of the same names.
    bool isPlain();
    bool takesAddend();
    bool canStoreF32();
    bool canStream();
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Train_AttentionOp : Train_Op<"attention", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["isDifferentiable", "isDifferentiableResult"]>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>,
    DeclareOpInterfaceMethods<EvalModeOpInterface>,
    DeclareOpInterfaceMethods<LowPrecisionOpInterface, ["givesLowPrecision"]>]> {
  let summary = "scaled dot product attention in one call (Vaswani et al. 2017; Dao et al. 2022)";
  let description = [{
    q [batch, heads, rows, depth], k [batch, key heads, columns, depth], v [batch, key heads, columns, width];
    the key heads divide the heads, and neighbouring heads share one.
    `s = q k^T * scale + bias`, with `causal` -inf where column > row + columns - rows;
    `result = dropout(softmax(s)) v` [batch, heads, rows, width], `stats = log sum e^s` [batch, heads, rows] in f32
    (f64 for f64), saved for the gradient: nothing differentiates through it. A row of -inf gives zeros.
    With `offsets` (i32 [segments + 1], ascending) the batch is 1 and rows = columns hold segments behind each other:
    row t of segment g, offsets[g] <= t < offsets[g + 1], sees the columns of its segment only (`causal`: those up to t);
    rows from offsets[segments] on give zeros, as their gradients are. `longest` bounds a segment's length. The stats
    are then the library's own: only the gradient may read them.
    With `before` or `after` there are as many rows as columns, and row i sees columns from i - before to i + after only,
    its own among them: a sliding window (Child et al. 2019; Beltagy et al. 2020).
    `bias` is [batch or 1, heads or 1, rows or 1, columns]; it has a gradient where it is [1, heads, rows, columns] and no
    `offsets` are there. `seed` (i64, two elements) is the key and
    the offset of the dropout's random numbers. The mask is the library's: only the reference evaluator and the CPU
    use that of `train.dropout` with this key, on weights [batch, heads, rows, columns]; of segments on weights
    [samples, heads, positions, positions], where the rows' `positions` (i32 [2, rows]: samples and positions in them;
    absent: a segment is a sample) say where a row stood before segments were packed.
  }];
  let arguments = (ins Train_FloatTensor:$q, Train_FloatTensor:$k, Train_FloatTensor:$v,
                       Optional<Train_FloatTensor>:$bias, Optional<Train_IntTensor>:$seed,
                       Optional<Train_IntTensor>:$offsets, Optional<Train_IntTensor>:$positions,
                       F64Attr:$scale, F64Attr:$dropout, UnitAttr:$causal,
                       OptionalAttr<Train_DimAttr>:$longest, OptionalAttr<I64Attr>:$before,
                       OptionalAttr<I64Attr>:$after);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$stats);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`bias` $bias^)? (`seed` $seed^)? (`segments` $offsets^ `longest` $longest)?
    (`positions` $positions^)? (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_AttentionGradOp : Train_Op<"attention_grad", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<AxisMapOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface, ["acceptsOperandLayout", "acceptsResultLayout"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getRecomputeClass"]>]> {
  let summary = "gradient of attention";
  let description = [{
    Operands of `train.attention`, its results and the gradient of its first one; results are the gradients of
    q, k and v, and of a bias [1, heads, rows, columns], if that is wanted: the sum over the batch, rounded once.
  }];
  let arguments = (ins Train_FloatTensor:$q, Train_FloatTensor:$k, Train_FloatTensor:$v,
                       Train_FloatTensor:$output, Train_FloatTensor:$stats, Train_FloatTensor:$cotangent,
                       Optional<Train_FloatTensor>:$bias, Optional<Train_IntTensor>:$seed,
                       Optional<Train_IntTensor>:$offsets, Optional<Train_IntTensor>:$positions,
                       F64Attr:$scale, F64Attr:$dropout, UnitAttr:$causal,
                       OptionalAttr<Train_DimAttr>:$longest, OptionalAttr<I64Attr>:$before,
                       OptionalAttr<I64Attr>:$after);
  let results = (outs Train_FloatTensor:$dq, Train_FloatTensor:$dk, Train_FloatTensor:$dv,
                      Optional<Train_FloatTensor>:$dbias);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $output `,` $stats `,` $cotangent (`bias` $bias^)? (`seed` $seed^)?
    (`segments` $offsets^ `longest` $longest)? (`positions` $positions^)? (`causal` $causal^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

class Train_CompositeOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<AxisMapOpInterface>,
        DeclareOpInterfaceMethods<DecomposableOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>,
        DeclareOpInterfaceMethods<FusionOpInterface>], traits)> {
  // Composites are decomposed before kernels form.
  let extraClassDefinition = [{
    ::trainc::train::FusionRole $cppClass::getFusionRole() { return ::trainc::train::FusionRole::None; }
  }];
}
class Train_DifferentiableCompositeOp<string mnemonic, list<Trait> traits = []>
    : Train_CompositeOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)>;

def Train_SoftmaxOp : Train_DifferentiableCompositeOp<"softmax", [SameOperandsAndResultType]> {
  let summary = "e^(x - max x) / sum along one axis";
  let description = [{
    A row of -inf gives NaN, as in ONNX; see `guarded`: such a row then gives zeros, and zero gradients
    (the exporters' Where(IsNaN(softmax), 0, softmax) is raised to it). Rows masked by the type's minimum
    are uniform.
  }];
  let arguments = (ins Train_FloatTensor:$operand, I64Attr:$axis, UnitAttr:$guarded);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `axis` `=` $axis (`guarded` $guarded^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Train_LogSoftmaxOp : Train_DifferentiableCompositeOp<"log_softmax", [SameOperandsAndResultType]> {
  let summary = "x - max x - log(sum e^(x - max x)) along one axis";
  let arguments = (ins Train_FloatTensor:$operand, I64Attr:$axis);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `axis` `=` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Train_LayerNormOp : Train_DifferentiableCompositeOp<"layer_norm"> {
  let summary = "layer normalisation over the axes from `axis` on (Ba et al. 2016; ONNX LayerNormalization-17)";
  let description = [{
    y = (x - mean) * rstd * scale + bias, rstd = 1 / sqrt(population variance + epsilon). `scale` and
    `bias` have the shape of the normalised axes; `mean` and `rstd` that of the axes before.
  }];
  let arguments = (ins Train_FloatTensor:$operand, Train_FloatTensor:$scale, Optional<Train_FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$mean, Train_FloatTensor:$rstd);
  let assemblyFormat = [{
    $operand `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_CrossEntropyOp : Train_DifferentiableCompositeOp<"cross_entropy", [DeclareOpInterfaceMethods<IndexOperandOpInterface>,
    DeclareOpInterfaceMethods<IgnoredRowsOpInterface>]> {
  let summary = "-log softmax(logits)[label] of each row";
  let description = [{
    logits [rows..., classes], labels [rows...] of integers. `loss` [rows...] is 0 where the label is
    `ignore_index`; `lse` is log(sum e^logits). Means and class weights are written in other ops. A label
    out of range is an error of the data, found on the host where it comes from an input.
  }];
  let arguments = (ins Train_FloatTensor:$logits, Train_IntTensor:$labels, OptionalAttr<I64Attr>:$ignore_index);
  let results = (outs Train_FloatTensor:$loss, Train_FloatTensor:$lse);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Train_InTrainingOp : Train_CompositeOp<"in_training", [SameOperandsAndResultType,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["isDifferentiable"]>,
    DeclareOpInterfaceMethods<EvalModeOpInterface>]> {
  let summary = "one value while the model is trained, another one where it is evaluated";
  let description = [{
    Batch normalisation divides by the statistics of the batch in training and by the running ones in evaluation.
    Example: `train.in_training %mean else %running : tensor<8xf32>`. No gradient flows to the second operand.
  }];
  let arguments = (ins Train_FloatTensor:$training, Train_FloatTensor:$evaluation);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$training `else` $evaluation attr-dict `:` type($result)";
}

def Train_WithGradientOp : Train_CompositeOp<"with_gradient", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<DifferentiableOpInterface, ["isDifferentiable"]>]> {
  let summary = "a scalar whose gradient for some values is at hand";
  let description = [{
    The result is `operand`; its derivative for `values[i]` is `gradients[i]`, of the same type. No gradient flows to the
    operand itself, nor to the gradients.
  }];
  let arguments = (ins Train_FloatTensor:$operand, Variadic<Train_FloatTensor>:$values,
                       Variadic<Train_FloatTensor>:$gradients);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `of` $values `are` $gradients attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

// Optimizer updates: all operands have the parameter's shape except the scalars. Formulas are PyTorch's.
def Train_SgdOp : Train_CompositeOp<"sgd"> {
  let summary = "stochastic gradient descent (torch.optim.SGD)";
  let description = [{
    g += weight_decay * p; with momentum: m = first step ? g : momentum * m + g; g = nesterov ? g + momentum * m : m;
    p -= lr * g. `step` (i64 scalar) is 1 for the first update. Without momentum `velocity` is passed through.
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient, Optional<Train_FloatTensor>:$velocity,
                       Train_FloatTensor:$lr, Train_FloatTensor:$weightDecay, Train_IntTensor:$step,
                       F64Attr:$momentum, UnitAttr:$nesterov);
  let results = (outs Train_FloatTensor:$result, Optional<Train_FloatTensor>:$newVelocity);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Train_AdamOp : Train_CompositeOp<"adam"> {
  let summary = "Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim";
  let description = [{
    decoupled: p *= 1 - lr * weight_decay, else g += weight_decay * p. m = m + (g - m) * (1 - beta1);
    v = beta2 * v + (1 - beta2) * g^2; p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon).
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient, Train_FloatTensor:$expAvg,
                       Train_FloatTensor:$expAvgSq, Train_FloatTensor:$lr, Train_FloatTensor:$weightDecay,
                       Train_IntTensor:$step, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon, UnitAttr:$decoupled);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$newExpAvg, Train_FloatTensor:$newExpAvgSq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Train_LambOp : Train_CompositeOp<"lamb"> {
  let summary = "LAMB (You et al. 2020, algorithm 2, bias-corrected)";
  let description = [{
    m, v as Adam; u = m_hat / (sqrt(v_hat) + epsilon) + weight_decay * p; r = |p| / |u| (1 where either
    norm is 0); p -= lr * r * u.
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient, Train_FloatTensor:$expAvg,
                       Train_FloatTensor:$expAvgSq, Train_FloatTensor:$lr, Train_FloatTensor:$weightDecay,
                       Train_IntTensor:$step, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$newExpAvg, Train_FloatTensor:$newExpAvgSq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // TRAINC_TRAIN_OPS_TD
