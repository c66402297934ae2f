// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointwise operations: formula, value in double and gradient of each in one place.

#ifndef TRAINC_TRAIN_POINTWISE_TD
#define TRAINC_TRAIN_POINTWISE_TD

include "dialects/Train/TrainBase.td"
include "mlir/Interfaces/CastInterfaces.td"

def Train_NegOp : Train_UnaryOp<"neg", "scalar::neg(b, loc, x[0])", "-x[0]", "dx[0] = tb.neg(g);"> {
  let summary = "-x";
}
def Train_AbsOp : Train_UnaryOp<"abs", "scalar::abs(b, loc, x[0])", "std::fabs(x[0])",
    "dx[0] = tb.mul(g, tb.sign(x[0]));"> {
  let summary = "|x|; the gradient at 0 is 0";
}
def Train_SignOp : Train_UnaryOp<"sign", "scalar::sign(b, loc, x[0])",
    "std::isnan(x[0]) ? x[0] : double((x[0] > 0) - (x[0] < 0))", "", 2> {
  let summary = "-1, 0 or 1";
}
def Train_ExpOp : Train_UnaryOp<"exp", "::mlir::math::ExpOp::create(b, loc, x[0])", "std::exp(x[0])",
    "dx[0] = tb.mul(g, y);", 16> {
  let summary = "e^x";
}
def Train_LogOp : Train_UnaryOp<"log", "::mlir::math::LogOp::create(b, loc, x[0])", "std::log(x[0])",
    "dx[0] = tb.div(g, x[0]);", 20> {
  let summary = "natural logarithm";
}
def Train_SqrtOp : Train_UnaryOp<"sqrt", "::mlir::math::SqrtOp::create(b, loc, x[0])", "std::sqrt(x[0])",
    "dx[0] = tb.div(tb.mul(g, tb.scalarLike(g, 0.5)), y);", 6> {
  let summary = "square root";
}
def Train_RsqrtOp : Train_UnaryOp<"rsqrt", "scalar::rsqrt(b, loc, x[0])", "1.0 / std::sqrt(x[0])",
    "dx[0] = tb.mul(tb.mul(g, tb.scalarLike(g, -0.5)), tb.mul(y, tb.mul(y, y)));", 10> {
  let summary = "1 / sqrt(x)";
}
def Train_ReciprocalOp : Train_UnaryOp<"reciprocal", "scalar::reciprocal(b, loc, x[0])", "1.0 / x[0]",
    "dx[0] = tb.neg(tb.mul(g, tb.mul(y, y)));", 6> {
  let summary = "1 / x";
}
def Train_TanhOp : Train_UnaryOp<"tanh", "::mlir::math::TanhOp::create(b, loc, x[0])", "std::tanh(x[0])",
    "dx[0] = tb.mul(g, tb.sub(tb.scalarLike(y, 1.0), tb.mul(y, y)));", 20> {
  let summary = "hyperbolic tangent";
}
def Train_ErfOp : Train_UnaryOp<"erf", "::mlir::math::ErfOp::create(b, loc, x[0])", "std::erf(x[0])",
    [{dx[0] = tb.mul(g, tb.mul(tb.scalarLike(g, 1.1283791670955126),
                               tb.exp(tb.neg(tb.mul(x[0], x[0])))));}], 25> {
  let summary = "error function";
}
def Train_SigmoidOp : Train_UnaryOp<"sigmoid", "scalar::sigmoid(b, loc, x[0])",
    "1.0 / (1.0 + std::exp(-x[0]))",
    "dx[0] = tb.mul(g, tb.mul(y, tb.sub(tb.scalarLike(y, 1.0), y)));", 20> {
  let summary = "1 / (1 + e^-x)";
}
def Train_ReluOp : Train_UnaryOp<"relu", "scalar::relu(b, loc, x[0])",
    "std::isnan(x[0]) ? x[0] : std::max(x[0], 0.0)",
    [{dx[0] = tb.select(tb.compare("gt", x[0], tb.scalarLike(x[0], 0.0)), g, tb.scalarLike(g, 0.0));}]> {
  let summary = "max(x, 0); the gradient at 0 is 0";
}
def Train_DetachOp : Train_UnaryOp<"detach", "x[0]", "x[0]", ""> {
  let summary = "x, through which no gradient flows";
  let extraClassDeclaration = [{
    bool isDifferentiable(unsigned) { return false; }
  }];
}
def Train_FloorOp : Train_UnaryOp<"floor", "::mlir::math::FloorOp::create(b, loc, x[0])", "std::floor(x[0])", ""> {
  let summary = "largest integer not above x; gradient 0";
}
def Train_CeilOp : Train_UnaryOp<"ceil", "::mlir::math::CeilOp::create(b, loc, x[0])", "std::ceil(x[0])", ""> {
  let summary = "smallest integer not below x; gradient 0";
}
def Train_RoundOp : Train_UnaryOp<"round", "::mlir::math::RoundEvenOp::create(b, loc, x[0])", "std::nearbyint(x[0])", ""> {
  let summary = "nearest integer, ties to even; gradient 0";
}
def Train_SinOp : Train_UnaryOp<"sin", "::mlir::math::SinOp::create(b, loc, x[0])", "std::sin(x[0])",
    "dx[0] = tb.mul(g, tb.cos(x[0]));", 25> {
  let summary = "sine";
}
def Train_CosOp : Train_UnaryOp<"cos", "::mlir::math::CosOp::create(b, loc, x[0])", "std::cos(x[0])",
    "dx[0] = tb.neg(tb.mul(g, tb.sin(x[0])));", 25> {
  let summary = "cosine";
}

def Train_TanOp : Train_UnaryOp<"tan", "::mlir::math::TanOp::create(b, loc, x[0])", "std::tan(x[0])",
    "dx[0] = tb.mul(g, tb.add(tb.scalarLike(y, 1.0), tb.mul(y, y)));", 40> {
  let summary = "tangent";
}
def Train_AsinOp : Train_UnaryOp<"asin", "::mlir::math::AsinOp::create(b, loc, x[0])", "std::asin(x[0])",
    "dx[0] = tb.div(g, detail::unitCosine(tb, x[0]));", 40> {
  let summary = "inverse sine";
}
def Train_AcosOp : Train_UnaryOp<"acos", "::mlir::math::AcosOp::create(b, loc, x[0])", "std::acos(x[0])",
    "dx[0] = tb.neg(tb.div(g, detail::unitCosine(tb, x[0])));", 40> {
  let summary = "inverse cosine";
}
def Train_AtanOp : Train_UnaryOp<"atan", "::mlir::math::AtanOp::create(b, loc, x[0])", "std::atan(x[0])",
    "dx[0] = tb.div(g, tb.add(tb.scalarLike(g, 1.0), tb.mul(x[0], x[0])));", 40> {
  let summary = "inverse tangent";
}
def Train_SinhOp : Train_UnaryOp<"sinh", "::mlir::math::SinhOp::create(b, loc, x[0])", "std::sinh(x[0])",
    "dx[0] = tb.mul(g, CoshOp::create(tb.b(), tb.loc(), g.getType(), x[0]));", 40> {
  let summary = "hyperbolic sine";
}
def Train_CoshOp : Train_UnaryOp<"cosh", "::mlir::math::CoshOp::create(b, loc, x[0])", "std::cosh(x[0])",
    "dx[0] = tb.mul(g, SinhOp::create(tb.b(), tb.loc(), g.getType(), x[0]));", 40> {
  let summary = "hyperbolic cosine";
}
def Train_AsinhOp : Train_UnaryOp<"asinh", "::mlir::math::AsinhOp::create(b, loc, x[0])", "std::asinh(x[0])",
    "dx[0] = tb.div(g, tb.sqrt(tb.add(tb.scalarLike(g, 1.0), tb.mul(x[0], x[0]))));", 40> {
  let summary = "inverse hyperbolic sine";
}
def Train_AcoshOp : Train_UnaryOp<"acosh", "::mlir::math::AcoshOp::create(b, loc, x[0])", "std::acosh(x[0])",
    [{::mlir::Value one = tb.scalarLike(g, 1.0);
      dx[0] = tb.div(g, tb.mul(tb.sqrt(tb.sub(x[0], one)), tb.sqrt(tb.add(x[0], one))));}], 40> {
  let summary = "inverse hyperbolic cosine";
}
def Train_AtanhOp : Train_UnaryOp<"atanh", "::mlir::math::AtanhOp::create(b, loc, x[0])", "std::atanh(x[0])",
    [{::mlir::Value one = tb.scalarLike(g, 1.0);
      dx[0] = tb.div(g, tb.mul(tb.sub(one, x[0]), tb.add(one, x[0])));}], 40> {
  let summary = "inverse hyperbolic tangent";
}

def Train_GeluOp : Train_PointwiseOp<"gelu", "scalar::gelu(b, loc, x[0], getTanh())",
    [{getTanh() ? 0.5 * x[0] * (1 + std::tanh(0.7978845608028654 * (x[0] + 0.044715 * x[0] * x[0] * x[0])))
               : 0.5 * x[0] * (1 + std::erf(x[0] * 0.7071067811865476))}],
    [{dx[0] = tb.mul(g, tb.geluGrad(x[0], getTanh()));}], 30, [SameOperandsAndResultType]> {
  let summary = "Gaussian error linear unit (Hendrycks and Gimpel 2016; ONNX Gelu-20)";
  let description = [{
    `x/2 * (1 + erf(x / sqrt(2)))`, or with `tanh` its approximation
    `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
  }];
  let arguments = (ins Train_FloatTensor:$operand, UnitAttr:$tanh);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand (`tanh` $tanh^)? attr-dict `:` type($result)";
}

def Train_GeluGradOp : Train_PointwiseOp<"gelu_grad", "scalar::geluGrad(b, loc, x[0], getTanh())",
    "detail::geluGrad(x[0], getTanh())", "dx[0] = tb.mul(g, detail::geluSecondDerivative(tb, x[0], getTanh()));", 45, [SameOperandsAndResultType]> {
  let summary = "derivative of gelu at x";
  let arguments = (ins Train_FloatTensor:$operand, UnitAttr:$tanh);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand (`tanh` $tanh^)? attr-dict `:` type($result)";
  let extraClassDefinition = commonDefinition;
}

def Train_AddOp : Train_BinaryOp<"add", "scalar::add(b, loc, x[0], x[1])", "x[0] + x[1]",
    "dx[0] = g; dx[1] = g;"> {
  let summary = "x + y";
  let hasFolder = 1;
}
def Train_SubOp : Train_BinaryOp<"sub", "scalar::sub(b, loc, x[0], x[1])", "x[0] - x[1]",
    "dx[0] = g; if (needed[1]) dx[1] = tb.neg(g);"> {
  let summary = "x - y";
  let hasFolder = 1;
}
def Train_MulOp : Train_BinaryOp<"mul", "scalar::mul(b, loc, x[0], x[1])", "x[0] * x[1]",
    "if (needed[0]) dx[0] = tb.mul(g, x[1]); if (needed[1]) dx[1] = tb.mul(g, x[0]);"> {
  let summary = "x * y";
  let hasFolder = 1;
}
def Train_DivOp : Train_BinaryOp<"div", "scalar::div(b, loc, x[0], x[1])", "detail::divide(x[0], x[1], getResult().getType())",
    [{if (needed[0]) dx[0] = tb.div(g, x[1]);
      if (needed[1]) dx[1] = tb.neg(tb.div(tb.mul(g, y), x[1]));}], 4> {
  let summary = "x / y; integers truncate";
  let hasFolder = 1;
}
def Train_MaxOp : Train_BinaryOp<"max", "scalar::max(b, loc, x[0], x[1])", "detail::maximum(x[0], x[1])",
    "detail::extremumVJP(tb, \"gt\", g, x[0], x[1], needed, dx);"> {
  let summary = "larger of x and y; NaN if one is; equal operands share the gradient";
}
def Train_MinOp : Train_BinaryOp<"min", "scalar::min(b, loc, x[0], x[1])", "-detail::maximum(-x[0], -x[1])",
    "detail::extremumVJP(tb, \"lt\", g, x[0], x[1], needed, dx);"> {
  let summary = "smaller of x and y; NaN if one is; equal operands share the gradient";
}
def Train_PowOp : Train_BinaryOp<"pow", "scalar::pow(b, loc, x[0], x[1])", "std::pow(x[0], x[1])",
    "detail::powVJP(tb, g, x[0], x[1], y, needed, dx);", 60> {
  let summary = "x ^ y";
}
def Train_ModOp : Train_BinaryOp<"mod", "scalar::mod(b, loc, x[0], x[1])", "detail::floorMod(x[0], x[1])",
    "dx[0] = g; if (needed[1]) dx[1] = tb.neg(tb.mul(g, tb.floor(tb.div(x[0], x[1]))));", 6> {
  let summary = "x - floor(x / y) * y (sign of y, ONNX Mod with fmod = 0)";
}

def Train_AndOp : Train_LogicalOp<"and", "::mlir::arith::AndIOp::create(b, loc, x[0], x[1])", "double(int64_t(x[0]) & int64_t(x[1]))"> {
  let summary = "logical and; of integers bit by bit";
}
def Train_OrOp : Train_LogicalOp<"or", "::mlir::arith::OrIOp::create(b, loc, x[0], x[1])", "double(int64_t(x[0]) | int64_t(x[1]))"> {
  let summary = "logical or; of integers bit by bit";
}
def Train_XorOp : Train_LogicalOp<"xor", "::mlir::arith::XOrIOp::create(b, loc, x[0], x[1])", "double(int64_t(x[0]) ^ int64_t(x[1]))"> {
  let summary = "exclusive or; of integers bit by bit";
}
def Train_NotOp : Train_PointwiseOp<"not", "scalar::logicalNot(b, loc, x[0])", "double(x[0] == 0)", "", 1, [SameOperandsAndResultType]> {
  let summary = "logical not";
  let arguments = (ins Train_BoolTensor:$operand);
  let results = (outs Train_BoolTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}
def Train_IsNanOp : Train_TestOp<"is_nan", "scalar::isNan(b, loc, x[0])", "double(std::isnan(x[0]))"> {
  let summary = "whether x is not a number";
}
def Train_IsInfOp : Train_TestOp<"is_inf", "scalar::isInf(b, loc, x[0])", "double(std::isinf(x[0]))"> {
  let summary = "whether x is infinite, of either sign";
}

def Train_ComparePredicate : I32EnumAttr<"ComparePredicate", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::trainc::train";
  let genSpecializedAttr = 0;
}
def Train_ComparePredicateAttr : EnumAttr<Train_Dialect, Train_ComparePredicate, "predicate"> {
  let assemblyFormat = "$value";
}
def Train_CompareOp : Train_PointwiseOp<"compare", "scalar::compare(b, loc, getPredicate(), x[0], x[1])",
    "detail::compare(getPredicate(), x[0], x[1])", "", 1, [SameTypeOperands]> {
  let summary = "comparison; with NaN only `ne` is true";
  let arguments = (ins Train_ComparePredicateAttr:$predicate, Train_NumberTensor:$lhs, Train_NumberTensor:$rhs);
  let results = (outs Train_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}
def Train_SelectOp : Train_PointwiseOp<"select", "::mlir::arith::SelectOp::create(b, loc, x[0], x[1], x[2])",
    "x[0] != 0 ? x[1] : x[2]",
    [{if (needed[1]) dx[1] = tb.select(x[0], g, tb.scalarLike(g, 0.0));
      if (needed[2]) dx[2] = tb.select(x[0], tb.scalarLike(g, 0.0), g);}], 1,
    [AllTypesMatch<["onTrue", "onFalse", "result"]>, ChoiceOpInterface]> {
  let summary = "condition ? x : y; the branch not taken gets gradient 0, even where it is NaN";
  let arguments = (ins Train_BoolTensor:$condition, Train_NumberTensor:$onTrue, Train_NumberTensor:$onFalse);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$condition `,` $onTrue `,` $onFalse attr-dict `:` type($condition) `,` type($result)";
}
def Train_CastOp : Train_PointwiseOp<"cast", "scalar::cast(b, loc, x[0], getResult().getType())",
    "detail::castValue(x[0], getResult().getType())",
    "dx[0] = tb.cast(g, x[0].getType());", 1, [DeclareOpInterfaceMethods<CastOpInterface>]> {
  let summary = "element type conversion (ONNX Cast): to integer truncates, to boolean is x != 0";
  let arguments = (ins Train_AnyTensor:$operand);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Train_BitcastOp : Train_PointwiseOp<"bitcast", "scalar::bitcast(b, loc, x[0], getResult().getType())",
    "detail::bitcast(x[0], getOperand().getType(), getResult().getType())", "", 1> {
  let summary = "the same bits as the other type of 32 bits (ONNX BitCast)";
  let arguments = (ins Train_NumberTensor:$operand);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ bool isDifferentiable(unsigned) { return false; } }];
}

def Train_FullOp : Train_PointwiseOp<"full", "scalar::constant(b, loc, getValue(), i)", "detail::attrValue(getValue())", "", 0> {
  let summary = "tensor filled with one value";
  let description = [{`value` has the element type of the result. Example: `train.full 0.5 : f32 : tensor<8xf32>`.}];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Train_AnyTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Train_DimOp : Train_Op<"dim", [DeclareOpInterfaceMethods<ElementAccessOpInterface>,
    DeclareOpInterfaceMethods<FusionOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "value of a size expression, as an i64 or float scalar";
  let arguments = (ins Train_DimAttr:$value);
  let results = (outs Train_NumberTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

// Randomness: the key is data, so every op is pure.
def Train_RngKeyOp : Train_PointwiseOp<"rng_key", "scalar::rngKey(b, loc, x, getNode())",
    "detail::rngKey(x, getNode())", "", 40, [SameOperandsAndResultType]> {
  let summary = "Philox key from seed, step, micro-batch, rank and the node's hash";
  let description = [{
    All operands are i64 scalars. With Philox4x32-10 (Salmon et al. 2011), the key is the first two words
    of philox(counter = [step, micro_batch, rank, low(node)], key = [low(seed) ^ high(node), high(seed)]),
    the first word in the low half, the second cut to 21 bits (53 bits are exact in a double, which the
    reference evaluator needs). `node` is the FNV-1a 64 hash of the ONNX node's name.
  }];
  let arguments = (ins Train_IntTensor:$seed, Train_IntTensor:$step, Train_IntTensor:$microBatch,
                       Train_IntTensor:$rank, I64Attr:$node);
  let results = (outs Train_IntTensor:$result);
  let assemblyFormat = "$seed `,` $step `,` $microBatch `,` $rank attr-dict `:` type($result)";
}
def Train_RandomBitsOp : Train_PointwiseOp<"random_bits", "scalar::randomBits(b, loc, x[0], i)",
    "detail::randomBits(x[0], i)", "", 30> {
  let summary = "32 random bits for each element";
  let description = [{
    The word that `train.dropout` compares at the same coordinates.
    Example: `train.random_bits %key : tensor<i64> -> tensor<4x8xi32>`.
  }];
  let arguments = (ins Train_IntTensor:$key);
  let results = (outs Train_IntTensor:$result);
  let assemblyFormat = "$key attr-dict `:` type($key) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ bool dependsOnIndex(int64_t) { return true; } }];
}
def Train_DropoutOp : Train_PointwiseOp<"dropout", [{scalar::dropout(
          b, loc, x[0], x[1], scalar::replaceCoordinates(b, loc, i, getCoordinateAxes(), x.drop_front(2)),
          getRatio().convertToDouble())}],
    [{detail::dropout(x[0], x[1], detail::replaceCoordinates(i, getCoordinateAxes(), x.drop_front(2)),
                      getRatio().convertToDouble())}],
    [{dx[0] = ::trainc::train::DropoutOp::create(tb.b(), tb.loc(), g.getType(), g, x[1],
                                                 getCoordinates(), getRatioAttr(), getCoordinateAxesAttr());}], 100,
    [AllTypesMatch<["operand", "result"]>, DeclareOpInterfaceMethods<EvalModeOpInterface>]> {
  let summary = "zeroes elements with probability `ratio`, scales the others by 1 / (1 - ratio)";
  let description = [{
    The element at (..., i2, i1, i0) is kept where word i0 mod 4 of philox(counter = [i0 / 4, i1, i2, h],
    key) is at least ratio * 2^32 (as an unsigned 32-bit word); h is the sum of the outer coordinates i3,
    i4, i5, ... times 1, 0x9E3779B1, 0x9E3779B1 * 0x85EBCA77, ... (wrapping). Counter words are coordinates,
    not positions in memory: packing and cloning keep the mask. The gradient is the same op on the cotangent: nothing is stored.

    `coordinates` are those along the axes `coordinate_axes` where they are not the element's own: of elements that
    were selected from a larger tensor. They have the operand's shape.
  }];
  let arguments = (ins Train_FloatTensor:$operand, Train_IntTensor:$key, Variadic<Train_IntTensor>:$coordinates,
                       F64Attr:$ratio, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$coordinate_axes);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = [{
    $operand `,` $key (`at` $coordinates^ `axes` `=` $coordinate_axes)? attr-dict `:` type($result) `,` type($key)
    (`,` type($coordinates)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool dependsOnIndex(int64_t axis) { return !::llvm::is_contained(getCoordinateAxes(), axis); }
    bool takesCoordinates() { return true; }
    ::mlir::Operation *atCoordinate(::mlir::OpBuilder &builder, unsigned loop, ::mlir::Value coordinate);
  }];
}

#endif // TRAINC_TRAIN_POINTWISE_TD
