// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointwise operations: verifiers, folders, and the gradients that are more than a line.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainVJP.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace trainc::train;

AxisMap trainc::train::detail::pointwiseAxisMap(Operation *op) {
  AxisMap map;
  int64_t rank = getRank(op->getResult(0));
  SmallVector<int> identity;
  for (int64_t axis = 0; axis < rank; ++axis)
    identity.push_back(axis);
  auto pointwise = cast<PointwiseOpInterface>(op);
  for (int64_t axis = 0; axis < rank; ++axis)
    map.loops.push_back(pointwise.dependsOnIndex(axis) ? LoopKind::Positional : LoopKind::Parallel);
  for (Value operand : op->getOperands())
    map.operands.push_back(getRank(operand) == rank ? identity : SmallVector<int>());
  map.results.push_back(identity);
  return map;
}

void trainc::train::detail::extremumVJP(TrainBuilder &tb, StringRef wins, Value g, Value x, Value y,
                                        ArrayRef<bool> needed, MutableArrayRef<Value> dx) {
  Value zero = tb.scalarLike(g, 0), half = tb.mul(g, tb.scalarLike(g, 0.5));
  Value equal = tb.compare("eq", x, y);
  auto share = [&](Value a, Value b) {
    return tb.select(equal, half, tb.select(tb.compare(wins, a, b), g, zero));
  };
  if (needed[0])
    dx[0] = share(x, y);
  if (needed[1])
    dx[1] = share(y, x);
}

Value trainc::train::detail::unitCosine(TrainBuilder &tb, Value x) {
  Value one = tb.scalarLike(x, 1);
  return tb.sqrt(tb.mul(tb.sub(one, x), tb.add(one, x)));
}

Value trainc::train::detail::geluSecondDerivative(TrainBuilder &tb, Value x, bool tanhForm) {
  auto scaled = [&](Value value, double factor) {
    return tb.mul(value, tb.scalarLike(value, factor));
  };
  auto plus = [&](Value value, double term) { return tb.add(value, tb.scalarLike(value, term)); };
  Value square = tb.mul(x, x);
  // Density of the normal distribution times (2 - x^2).
  if (!tanhForm)
    return tb.mul(scaled(tb.exp(scaled(square, -0.5)), 0.3989422804014327),
                  plus(tb.neg(square), 2));
  // With t = tanh u, u = k (x + c x^3): (1 - t^2) (u' - x t u'^2 + x u'' / 2).
  constexpr double k = 0.7978845608028654, c = 0.044715;
  Value t = tb.tanh(tb.mul(x, plus(scaled(square, k * c), k)));
  Value slope = plus(scaled(square, 3 * k * c), k);
  Value bend = tb.sub(scaled(square, 3 * k * c), tb.mul(tb.mul(x, t), tb.mul(slope, slope)));
  return tb.mul(plus(tb.neg(tb.mul(t, t)), 1), tb.add(slope, bend));
}

void trainc::train::detail::powVJP(TrainBuilder &tb, Value g, Value x, Value y, Value result,
                                   ArrayRef<bool> needed, MutableArrayRef<Value> dx) {
  if (needed[0]) {
    // A constant exponent keeps its small powers exact (x^2 -> 2x).
    SplatElementsAttr splat;
    FloatAttr value;
    Operation *def = y.getDefiningOp();
    if (def && matchPattern(y, m_Constant(&splat)))
      value = dyn_cast<FloatAttr>(splat.getSplatValue<Attribute>());
    else if (auto full = dyn_cast_or_null<FullOp>(def))
      value = dyn_cast<FloatAttr>(full.getValue());
    if (value && value.getValueAsDouble() == 0) {
      dx[0] = tb.scalarLike(g, 0);
    } else {
      Value less =
          value ? tb.scalarLike(y, value.getValueAsDouble() - 1) : tb.sub(y, tb.scalarLike(y, 1));
      Value power = value && value.getValueAsDouble() == 2 ? x : tb.pow(x, less);
      dx[0] = tb.mul(g, tb.mul(y, power));
    }
  }
  if (needed[1]) {
    Value positive = tb.compare("gt", x, tb.scalarLike(x, 0));
    Value safe = tb.select(positive, x, tb.scalarLike(x, 1));
    dx[1] = tb.mul(g, tb.mul(result, tb.log(safe)));
  }
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult FullOp::verify() {
  Type element = getElementTypeOrSelf(getResult().getType());
  if (getValue().getType() != element)
    return emitOpError("expected a value of the result's element type ")
           << element << ", got " << getValue().getType();
  return success();
}
LogicalResult IotaOp::verify() {
  if (int64_t(getAxis()) < 0 || int64_t(getAxis()) >= getRank(getResult()))
    return emitOpError("expected an axis below the rank ")
           << getRank(getResult()) << ", got " << int64_t(getAxis());
  return success();
}
LogicalResult BitcastOp::verify() {
  // 64 bits are no exact double, which the reference evaluator needs.
  if (getElementType(getOperand()).getIntOrFloatBitWidth() != 32 ||
      getElementType(getResult()).getIntOrFloatBitWidth() != 32)
    return attachNotes(emitOpError("expected types of 32 bits, got ")
                           << getElementType(getOperand()) << " and "
                           << getElementType(getResult()),
                       {{"the operand", getOperand()}});
  if (getDims(getOperand()) != getDims(getResult()))
    return attachNotes(emitOpError("expected the operand's shape ")
                           << dimsToString(getDims(getOperand())) << ", got "
                           << dimsToString(getDims(getResult())),
                       {{"the operand", getOperand()}});
  return success();
}

/// Of an op that draws random numbers.
static LogicalResult verifyKey(Operation *op, Value key) {
  if (getRank(key) != 0 || !getElementType(key).isInteger(64))
    return attachNotes(op->emitOpError("expected the key to be tensor<i64>, got ") << key.getType(),
                       {{"key", key}});
  return success();
}
LogicalResult RandomBitsOp::verify() {
  if (!getElementType(getResult()).isInteger(32))
    return emitOpError("expected a result of i32, got ") << getElementType(getResult());
  return verifyKey(*this, getKey());
}
LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1))
    return emitOpError("expected a ratio in [0, 1), got ") << ratio;
  if (failed(verifyKey(*this, getKey())))
    return failure();
  ArrayRef<int64_t> axes = getCoordinateAxes();
  if (axes.size() != getCoordinates().size())
    return emitOpError("expected an axis for each of ")
           << getCoordinates().size() << " coordinates, got " << axes.size();
  for (auto [axis, coordinate] : llvm::zip_equal(axes, getCoordinates()))
    if (axis < 0 || axis >= getRank(getOperand()) || llvm::count(axes, axis) != 1 ||
        getDims(coordinate) != getDims(getOperand()))
      return attachNotes(
          emitOpError("expected coordinates of the operand's shape along axes of its own"),
          {{"the coordinate", coordinate}, {"the operand", getOperand()}});
  return success();
}
Operation *DropoutOp::atCoordinate(OpBuilder &builder, unsigned loop, Value coordinate) {
  // Loops are axes.
  SmallVector<Value> coordinates(getCoordinates());
  SmallVector<int64_t> axes(getCoordinateAxes());
  coordinates.push_back(coordinate);
  axes.push_back(loop);
  return DropoutOp::create(builder, getLoc(), getType(), getOperand(), getKey(), coordinates,
                           getRatioAttr(), builder.getDenseI64ArrayAttr(axes));
}
void DropoutOp::buildEvalMode(TrainBuilder &, SmallVectorImpl<Value> &results) {
  results.push_back(getOperand());
}

//===----------------------------------------------------------------------===//
// Folders: identities that hold exactly in floating point (x + 0 only for negative zero's sake
// not).
//===----------------------------------------------------------------------===//

/// Value of a splat constant or train.full.
static std::optional<double> splatValue(Value value) {
  Operation *def = value.getDefiningOp();
  Attribute attr;
  if (auto full = dyn_cast_or_null<FullOp>(def))
    attr = full.getValue();
  else if (auto constant = dyn_cast_or_null<ConstantOp>(def)) {
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      attr = splat.getSplatValue<Attribute>();
  } else if (auto broadcast = dyn_cast_or_null<BroadcastOp>(def))
    return splatValue(broadcast.getOperand());
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(attr))
    return number.getType().isInteger(1) ? double(number.getValue().getBoolValue())
                                         : double(number.getValue().getSExtValue());
  return std::nullopt;
}

OpFoldResult AddOp::fold(FoldAdaptor) {
  // 0.0 + -0.0 is 0.0: the fold keeps the value, not the sign of zero.
  if (splatValue(getRhs()) == 0.0)
    return getLhs();
  if (splatValue(getLhs()) == 0.0)
    return getRhs();
  return {};
}
OpFoldResult SubOp::fold(FoldAdaptor) {
  if (splatValue(getRhs()) == 0.0)
    return getLhs();
  return {};
}
OpFoldResult MulOp::fold(FoldAdaptor) {
  if (splatValue(getRhs()) == 1.0)
    return getLhs();
  if (splatValue(getLhs()) == 1.0)
    return getRhs();
  return {};
}
OpFoldResult DivOp::fold(FoldAdaptor) {
  if (splatValue(getRhs()) == 1.0)
    return getLhs();
  return {};
}
/// Whether every value of type `from` is one of type `to`.
static bool holdsExactly(Type from, Type to) {
  auto bits = [](Type type) { return type.getIntOrFloatBitWidth(); };
  auto floatFrom = dyn_cast<FloatType>(from), floatTo = dyn_cast<FloatType>(to);
  if (floatFrom && floatTo) {
    const llvm::fltSemantics &a = floatFrom.getFloatSemantics(), &b = floatTo.getFloatSemantics();
    using llvm::APFloat;
    return APFloat::semanticsPrecision(a) <= APFloat::semanticsPrecision(b) &&
           APFloat::semanticsMaxExponent(a) <= APFloat::semanticsMaxExponent(b) &&
           APFloat::semanticsMinExponent(a) >= APFloat::semanticsMinExponent(b);
  }
  // A boolean is 0 or 1, other integers have a sign.
  if (floatTo)
    return bits(from) == 1 || bits(from) - 1 <= floatTo.getFPMantissaWidth();
  return !floatFrom && bits(from) <= bits(to);
}
/// Rounding to a smaller type happens before elements are moved: where the value is made, so that
/// its kernel stores the smaller one.
LogicalResult CastOp::canonicalize(CastOp op, PatternRewriter &rewriter) {
  Type from = getElementType(op.getOperand()), to = getElementType(op.getResult());
  Operation *move = op.getOperand().getDefiningOp();
  auto pad = dyn_cast_if_present<PadOp>(move);
  // What is cut off by it is little, as a rule: the borders of windows.
  const bool padsZeros = pad && matchPattern(pad.getValueAttr(), m_PosZeroFloat());
  if (!(padsZeros || isa_and_nonnull<ReshapeOp, TransposeOp>(move)) || !isa<FloatType>(from) ||
      !isa<FloatType>(to) || to.getIntOrFloatBitWidth() >= from.getIntOrFloatBitWidth())
    return failure();
  Value source = move->getOperand(0);
  Value cast = CastOp::create(rewriter, op.getLoc(), withElementType(source.getType(), to), source);
  IRMapping mapping;
  mapping.map(source, cast);
  Operation *moved = rewriter.clone(*move, mapping);
  if (auto pad = dyn_cast<PadOp>(moved))
    pad.setValueAttr(rewriter.getFloatAttr(to, 0));
  moved->getResult(0).setType(op.getResult().getType());
  rewriter.replaceOp(op, moved->getResults());
  return success();
}

bool CastOp::areCastCompatible(TypeRange from, TypeRange to) {
  return from.size() == 1 && to.size() == 1 && getDims(from[0]) == getDims(to[0]);
}
OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getResult().getType())
    return getOperand();
  // A cast on the way that loses nothing is left out.
  if (auto inner = getOperand().getDefiningOp<CastOp>())
    if (holdsExactly(getElementType(inner.getOperand()), getElementType(inner.getResult()))) {
      if (inner.getOperand().getType() == getResult().getType())
        return inner.getOperand();
      getOperandMutable().assign(inner.getOperand());
      return getResult();
    }
  return {};
}
