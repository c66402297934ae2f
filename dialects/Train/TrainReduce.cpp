// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and matmuls: verifiers, folders, axis maps, gradients and cost.

#include "dialects/Train/Convolution/StridedSums.h"
#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainScalar.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  SmallVector<DimAttr> dims = getDims(getOperand()), kept;
  int64_t previous = -1, rank = dims.size();
  for (int64_t axis : getAxes()) {
    if (axis < 0 || axis >= rank)
      return attachNotes(emitOpError("expected axes below the rank ") << rank << ", got " << axis,
                         {{"the operand", getOperand()}});
    if (axis <= previous)
      return emitOpError("expected the axes in ascending order, each once");
    previous = axis;
  }
  for (auto [axis, dim] : llvm::enumerate(dims))
    if (!llvm::is_contained(getAxes(), int64_t(axis)))
      kept.push_back(dim);
  Type element = getElementType(getOperand());
  if (element.isInteger(1) && (getKind() == ReduceKind::sum || getKind() == ReduceKind::prod))
    return attachNotes(emitOpError("expected numbers for ")
                           << stringifyReduceKind(getKind())
                           << "; booleans have max (any) and min (all)",
                       {{"the operand", getOperand()}});
  Type expected = getTensorType(kept, element);
  if (getResult().getType() != expected)
    return attachNotes(emitOpError("expected a result of type ")
                           << expected << ", got " << getResult().getType(),
                       {{"the operand", getOperand()}});
  return success();
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  if (getAxes().empty())
    return getOperand();
  // Extremes of repeated values are the values.
  bool idempotent = getKind() == ReduceKind::max || getKind() == ReduceKind::min;
  auto broadcast = getOperand().getDefiningOp<BroadcastOp>();
  if (idempotent && broadcast && broadcast.getOperand().getType() == getResult().getType() &&
      llvm::none_of(getAxes(),
                    [&](int64_t axis) { return llvm::is_contained(broadcast.getAxes(), axis); }))
    return broadcast.getOperand();
  return {};
}

/// Over a reshape that only joins or cuts reduced axes: over those of its operand, so that the
/// reduction runs where the value is made. Over taps that windows spread by a stride: phase by
/// phase.
LogicalResult ReduceOp::canonicalize(ReduceOp op, PatternRewriter &rewriter) {
  if (succeeded(sumPhases(op, rewriter)))
    return success();
  auto reshape = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!reshape || getRank(op.getResult()) == 0)
    return failure();
  AxisMap map = reshape.getAxisMap();
  SmallVector<int> kept;
  for (auto [axis, loop] : llvm::enumerate(map.results[0]))
    if (!llvm::is_contained(op.getAxes(), int64_t(axis)))
      kept.push_back(loop);
  SmallVector<int64_t> axes;
  size_t next = 0;
  for (auto [axis, loop] : llvm::enumerate(map.operands[0])) {
    if (next < kept.size() && loop == kept[next] && loop >= 0 &&
        map.loops[loop] == LoopKind::Parallel)
      ++next;
    else
      axes.push_back(axis);
  }
  if (next != kept.size())
    return failure();
  rewriter.replaceOpWithNewOp<ReduceOp>(op, op.getResult().getType(), op.getKind(),
                                        reshape.getOperand(), axes);
  return success();
}

AxisMap ReduceOp::getAxisMap() {
  AxisMap map;
  SmallVector<int> operand, result;
  for (int64_t axis = 0, rank = getRank(getOperand()); axis < rank; ++axis) {
    bool reduced = llvm::is_contained(getAxes(), axis);
    map.loops.push_back(reduced ? LoopKind::Reduction : LoopKind::Parallel);
    operand.push_back(axis);
    if (!reduced)
      result.push_back(axis);
  }
  map.operands.push_back(operand);
  map.results.push_back(result);
  return map;
}

SmallVector<int64_t> ReduceOp::getReducedAxes() { return SmallVector<int64_t>(getAxes()); }

TypedAttr ReduceOp::getIdentity(Type elementType) {
  Builder b(getContext());
  if (isa<FloatType>(elementType))
    return b.getFloatAttr(elementType, evaluateIdentity());
  unsigned width = elementType.getIntOrFloatBitWidth();
  // Booleans are unsigned: max is "any", min is "all".
  if (width == 1)
    return b.getBoolAttr(getKind() == ReduceKind::min);
  switch (getKind()) {
  case ReduceKind::sum:
    return b.getIntegerAttr(elementType, 0);
  case ReduceKind::prod:
    return b.getIntegerAttr(elementType, 1);
  case ReduceKind::max:
    return b.getIntegerAttr(elementType, APInt::getSignedMinValue(width));
  case ReduceKind::min:
    return b.getIntegerAttr(elementType, APInt::getSignedMaxValue(width));
  }
  llvm_unreachable("unknown reduction");
}

Value ReduceOp::buildCombine(OpBuilder &b, Location loc, Value lhs, Value rhs) {
  switch (getKind()) {
  case ReduceKind::sum:
    return scalar::add(b, loc, lhs, rhs);
  case ReduceKind::prod:
    return scalar::mul(b, loc, lhs, rhs);
  case ReduceKind::max:
    return scalar::max(b, loc, lhs, rhs);
  case ReduceKind::min:
    return scalar::min(b, loc, lhs, rhs);
  }
  llvm_unreachable("unknown reduction");
}

double ReduceOp::evaluateCombine(double lhs, double rhs) {
  // NaN wins an extreme, as in the generated code.
  switch (getKind()) {
  case ReduceKind::sum:
    return lhs + rhs;
  case ReduceKind::prod:
    return lhs * rhs;
  case ReduceKind::max:
    return std::isnan(lhs) || lhs > rhs ? lhs : rhs;
  case ReduceKind::min:
    return std::isnan(lhs) || lhs < rhs ? lhs : rhs;
  }
  llvm_unreachable("unknown reduction");
}

double ReduceOp::evaluateIdentity() {
  switch (getKind()) {
  case ReduceKind::sum:
    return 0;
  case ReduceKind::prod:
    return 1;
  case ReduceKind::max:
    return -std::numeric_limits<double>::infinity();
  case ReduceKind::min:
    return std::numeric_limits<double>::infinity();
  }
  llvm_unreachable("unknown reduction");
}

void ReduceOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                        MutableArrayRef<Value> gradients) {
  if (!needed[0] || !cotangents[0])
    return;
  Value x = getOperand(), y = getResult(), g = cotangents[0];
  SmallVector<DimAttr> dims = getDims(x);
  auto along = [&](Value value) { return tb.broadcastAlong(value, dims, getAxes()); };
  switch (getKind()) {
  case ReduceKind::sum:
    gradients[0] = along(g);
    return;
  case ReduceKind::max:
  case ReduceKind::min: {
    // The extremes of a row share its gradient. A row whose extreme is NaN has none and divides by
    // 0, which no element then selects.
    Value extreme = tb.compare("eq", x, along(y));
    Value count = tb.sum(tb.select(extreme, tb.scalarLike(x, 1), tb.scalarLike(x, 0)), getAxes());
    gradients[0] = tb.select(extreme, along(tb.div(g, count)), tb.scalarLike(x, 0));
    return;
  }
  case ReduceKind::prod: {
    // The product of the other elements: y / x, except in rows with zeros, where only a single zero
    // gets a gradient, the product of the rest.
    Value zero = tb.scalarLike(x, 0), one = tb.scalarLike(x, 1);
    Value isZero = tb.compare("eq", x, zero);
    Value safe = tb.select(isZero, one, x);
    Value zeros = tb.sum(tb.select(isZero, one, zero), getAxes());
    Value rest = tb.mul(g, tb.reduce(ReduceKind::prod, safe, getAxes()));
    Value noZero = tb.compare("eq", zeros, tb.scalarLike(zeros, 0));
    Value oneZero = tb.compare("eq", zeros, tb.scalarLike(zeros, 1));
    Value none = tb.scalarLike(rest, 0);
    Value ofOthers = tb.div(along(tb.select(noZero, rest, none)), safe);
    gradients[0] = tb.select(isZero, along(tb.select(oneZero, rest, none)), ofOthers);
    return;
  }
  }
}

FusionRole ReduceOp::getFusionRole() { return FusionRole::Reduction; }
DimAttr ReduceOp::getFlops() { return getNumElements(getOperand().getType()); }
