// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ops of the test dialect: what somebody writes who adds ops outside of the compiler.
#include "test/lib/TestDialect/TestDialect.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace trainc::train;
using namespace trainc::testdialect;

#include "test/lib/TestDialect/TestDialect.cpp.inc"
#define GET_OP_CLASSES
#include "test/lib/TestDialect/TestOps.cpp.inc"

void TestDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "test/lib/TestDialect/TestOps.cpp.inc"
      >();
}

/// A constant of the type of `like`, a float or a vector of floats.
static Value constantLike(OpBuilder &b, Location loc, Value like, double value) {
  TypedAttr attribute = b.getFloatAttr(getElementTypeOrSelf(like.getType()), value);
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    attribute = SplatElementsAttr::get(vector, attribute);
  return arith::ConstantOp::create(b, loc, attribute);
}

//===----------------------------------------------------------------------===//
// squareplus
//===----------------------------------------------------------------------===//

/// One operand and one result, each axis of both a parallel loop.
static AxisMap getIdentityMap(Value result) {
  AxisMap map;
  SmallVector<int> identity;
  for (int64_t axis = 0; axis < getRank(result); ++axis)
    identity.push_back(int(axis));
  map.loops.assign(identity.size(), LoopKind::Parallel);
  map.operands.push_back(identity);
  map.results.push_back(identity);
  return map;
}

AxisMap SquareplusOp::getAxisMap() { return getIdentityMap(getResult()); }

FusionRole SquareplusOp::getFusionRole() { return FusionRole::Pointwise; }
FusionRole CallOp::getFusionRole() { return FusionRole::Library; }
FusionRole SilentOp::getFusionRole() { return FusionRole::Library; }

Value SquareplusOp::buildScalar(OpBuilder &b, Location loc, ValueRange x, ValueRange) {
  Value square = arith::MulFOp::create(b, loc, x[0], x[0]);
  Value shifted =
      arith::AddFOp::create(b, loc, square, constantLike(b, loc, x[0], getB().convertToDouble()));
  Value sum = arith::AddFOp::create(b, loc, x[0], math::SqrtOp::create(b, loc, shifted));
  return arith::MulFOp::create(b, loc, sum, constantLike(b, loc, x[0], 0.5));
}

double SquareplusOp::evaluateScalar(ArrayRef<double> x, ArrayRef<int64_t>) {
  return (x[0] + std::sqrt(x[0] * x[0] + getB().convertToDouble())) / 2;
}

void SquareplusOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                            MutableArrayRef<Value> gradients) {
  // y = (x + r) / 2 with r = sqrt(x^2 + b), so dy/dx = (1 + x / r) / 2.
  Value x = getOperand();
  Value root = tb.sqrt(tb.add(tb.mul(x, x), tb.scalarLike(x, getB().convertToDouble())));
  Value slope = tb.add(tb.scalarLike(x, 1), tb.div(x, root));
  gradients[0] = tb.mul(cotangents[0], tb.mul(slope, tb.scalarLike(x, 0.5)));
}

//===----------------------------------------------------------------------===//
// sum_squares
//===----------------------------------------------------------------------===//

AxisMap SumSquaresOp::getAxisMap() {
  AxisMap map;
  int last = int(getRank(getOperand())) - 1;
  SmallVector<int> rows;
  for (int axis = 0; axis < last; ++axis)
    rows.push_back(axis);
  map.loops.assign(last, LoopKind::Parallel);
  map.loops.push_back(LoopKind::Reduction);
  map.results.push_back(rows);
  rows.push_back(last);
  map.operands.push_back(rows);
  return map;
}

FusionRole SumSquaresOp::getFusionRole() { return FusionRole::Reduction; }

SmallVector<int64_t> SumSquaresOp::getReducedAxes() { return {getRank(getOperand()) - 1}; }

TypedAttr SumSquaresOp::getIdentity(Type elementType) {
  return Builder(getContext()).getFloatAttr(elementType, 0);
}

Value SumSquaresOp::buildMap(OpBuilder &b, Location loc, Value element) {
  return arith::MulFOp::create(b, loc, element, element);
}

Value SumSquaresOp::buildCombine(OpBuilder &b, Location loc, Value lhs, Value rhs) {
  return arith::AddFOp::create(b, loc, lhs, rhs);
}

double SumSquaresOp::evaluateMap(double element) { return element * element; }
double SumSquaresOp::evaluateCombine(double lhs, double rhs) { return lhs + rhs; }
double SumSquaresOp::evaluateIdentity() { return 0; }

void SumSquaresOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                            MutableArrayRef<Value> gradients) {
  Value x = getOperand();
  Value rows = tb.broadcastAlong(cotangents[0], getDims(x), getReducedAxes());
  gradients[0] = tb.mul(tb.mul(x, tb.scalarLike(x, 2)), rows);
}

//===----------------------------------------------------------------------===//
// mistyped
//===----------------------------------------------------------------------===//

AxisMap MistypedOp::getAxisMap() { return getIdentityMap(getResult()); }

Operation *MistypedOp::cloneRestricted(OpBuilder &b, ValueRange operands, ArrayRef<LoopExtent>) {
  return TrainBuilder(b, getLoc()).cast(operands[0], b.getF64Type()).getDefiningOp();
}

void MistypedOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  results.push_back(tb.cast(getOperand(), Float64Type::get(getContext())));
}

void MistypedOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                          MutableArrayRef<Value> gradients) {
  gradients[0] = tb.cast(cotangents[0], Float64Type::get(getContext()));
}

//===----------------------------------------------------------------------===//
// silent
//===----------------------------------------------------------------------===//

AxisMap SilentOp::getAxisMap() {
  SmallVector<int> none(getRank(getResult()), -1);
  return {{}, {none}, {none}};
}

LogicalResult SilentOp::emitCall(trainc::plan::CallEmitter &) { return success(); }

//===----------------------------------------------------------------------===//
// project
//===----------------------------------------------------------------------===//

AxisMap ProjectOp::getAxisMap() {
  // The axes of the rows, then the sum, then the result's own.
  int sum = int(getRank(getRows())) - 1, own = sum + 1;
  AxisMap map;
  map.loops.assign(own + 1, LoopKind::Parallel);
  map.loops[sum] = LoopKind::Reduction;
  SmallVector<int> rows, result;
  for (int axis = 0; axis < sum; ++axis)
    rows.push_back(axis);
  result = rows;
  rows.push_back(sum);
  result.push_back(own);
  map.operands = {rows, {own, sum}};
  map.results = {result};
  return map;
}
