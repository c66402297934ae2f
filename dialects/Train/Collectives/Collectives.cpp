// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ops of several ranks have in common, and their verifiers.

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"

using namespace mlir;
using namespace trainc::train;

#define GET_OP_CLASSES
#include "dialects/Train/TrainCollectives.cpp.inc"

DimAttr trainc::train::getWorld(MLIRContext *context) {
  return DimAttr::symbol(context, kWorldSymbol);
}

DimAttr trainc::train::getAllRanks(MLIRContext *context) {
  return DimAttr::symbol(context, kAllRanksSymbol);
}

bool trainc::train::widensOverRanks(Operation *op) {
  return op->hasTrait<SumOverRanks>() &&
         getElementType(op->getOperand(0)) != getElementType(op->getResult(0));
}

Value trainc::train::getSumOverRanks(Value value) {
  if (!value.hasOneUse())
    return {};
  OpOperand &use = *value.use_begin();
  auto sum = dyn_cast<AllReduceOp>(use.getOwner());
  return sum && !widensOverRanks(sum) ? sum.getResults()[use.getOperandNumber()] : Value();
}

Value trainc::train::getSummedOverRanks(Value value) {
  auto sum = value.getDefiningOp<AllReduceOp>();
  return sum && !widensOverRanks(sum) ? sum.getTensors()[cast<OpResult>(value).getResultNumber()]
                                      : Value();
}

AxisMap trainc::train::detail::collectiveAxisMap(Operation *op) {
  AxisMap map;
  for (Value operand : op->getOperands())
    map.operands.emplace_back(getRank(operand), -1);
  for (Value result : op->getResults()) {
    SmallVector<int> &axes = map.results.emplace_back();
    for (int64_t axis = 0; axis < getRank(result); ++axis) {
      axes.push_back(int(map.loops.size()));
      map.loops.push_back(LoopKind::Opaque);
    }
  }
  return map;
}

LogicalResult trainc::train::detail::evaluateAlone(ArrayRef<HostTensor> operands,
                                                   const SymbolValues &,
                                                   MutableArrayRef<HostTensor> results) {
  for (auto [operand, result] : llvm::zip_equal(operands, results)) {
    const size_t size = size_t(result.size());
    result.data = operand.data;
    result.data.resize(size);
  }
  return success();
}

/// What every collective demands of its tensors.
static LogicalResult verifyTensors(Operation *op) {
  if (op->getNumOperands() == 0)
    return op->emitOpError("expected a tensor at least");
  if (op->getNumOperands() != op->getNumResults())
    return op->emitOpError("expected as many results as tensors, ")
           << op->getNumOperands() << ", got " << op->getNumResults();
  Type sent = getElementType(op->getOperand(0)), made = getElementType(op->getResult(0));
  if (!op->hasTrait<SumOverRanks>())
    made = sent;
  auto check = [&](auto values, Type element) -> LogicalResult {
    for (Value value : values)
      if (getElementType(value) != element)
        return op->emitOpError("expected tensors of one type, ")
               << element << ", got " << value.getType();
    return success();
  };
  if (failed(check(op->getOperands(), sent)) || failed(check(op->getResults(), made)))
    return failure();
  return success();
}

/// Of one that adds up: f32 or f64, or what is narrower, to f32.
static LogicalResult verifySums(Operation *op) {
  if (failed(verifyTensors(op)))
    return failure();
  Type sent = getElementType(op->getOperand(0)), made = getElementType(op->getResult(0));
  if (sent == made && !made.isF32() && !made.isF64())
    return op->emitOpError("expected tensors of f32 or f64, got ") << op->getOperand(0).getType();
  if (sent != made && (!made.isF32() || (!sent.isBF16() && !sent.isF16())))
    return op->emitOpError("expected sums of ")
           << sent << " in its own type, or of bf16 or f16 in f32, got " << made;
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifySums(*this)))
    return failure();
  for (auto [from, to] : llvm::zip_equal(getTensors(), getResults()))
    if (Type type = getTensorType(getDims(from), getElementType(to)); type != to.getType())
      return emitOpError("expected a result of type ") << type << ", got " << to.getType();
  return success();
}

/// Of an op that cuts or puts together, whether each tensor and its shard belong to each other.
static LogicalResult verifyShards(Operation *op, ArrayRef<int64_t> units, ValueRange wholes,
                                  ValueRange shards) {
  if (units.size() != wholes.size())
    return op->emitOpError("expected a unit for each of ")
           << wholes.size() << " tensors, got " << units.size();
  for (auto [unit, whole, part] : llvm::zip_equal(units, wholes, shards)) {
    if (unit < 1)
      return op->emitOpError("expected units of at least an element, got ") << unit;
    if (!getNumElements(whole.getType()).getConstant())
      return op->emitOpError("expected a tensor of a size that is known, got ") << whole.getType();
    const DimAttr elements = Shard{cast<RankedTensorType>(whole.getType()), unit}.elements();
    if (getNumElements(part.getType()) != elements)
      return op->emitOpError("expected a shard of ")
             << elements.str() << " elements of " << whole.getType() << ", got " << part.getType();
  }
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  if (failed(verifySums(*this)))
    return failure();
  return verifyShards(*this, getUnits(), getTensors(), getResults());
}

LogicalResult AllGatherOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  return verifyShards(*this, getUnits(), getResults(), getTensors());
}

SmallVector<Value> trainc::train::buildAllReduce(OpBuilder &builder, Location loc,
                                                 ValueRange values) {
  return AllReduceOp::create(builder, loc, values.getTypes(), values)->getResults();
}

Value trainc::train::buildHoldsOnAnyRank(TrainBuilder &tb, Value condition, bool isVerdict) {
  Value mine = tb.cast(condition, tb.b().getF32Type());
  auto sum = AllReduceOp::create(tb.b(), condition.getLoc(), mine.getType(), mine);
  if (isVerdict)
    sum->setAttr(kVerdictAttr, tb.b().getUnitAttr());
  Value ranks = sum.getResults().front();
  return tb.compare("gt", ranks, tb.scalarLike(ranks, 0));
}

Operation *trainc::train::buildSumOfSome(OpBuilder &builder, Operation *sum,
                                         ArrayRef<unsigned> which, ValueRange operands) {
  assert(sum->hasTrait<SumOverRanks>() && "others are no sums");
  OperationState state(
      sum->getLoc(), sum->getName(), operands,
      llvm::map_to_vector(which, [&](unsigned i) { return sum->getResult(i).getType(); }),
      sum->getAttrs());
  Operation *made = builder.create(state);
  if (auto scatter = dyn_cast<ReduceScatterOp>(sum))
    cast<ReduceScatterOp>(made).setUnits(
        llvm::map_to_vector(which, [&](unsigned i) { return scatter.getUnits()[i]; }));
  return made;
}

SmallVector<Value> trainc::train::buildReduceScatter(OpBuilder &builder, Location loc,
                                                     ValueRange values, TypeRange types,
                                                     ArrayRef<int64_t> units) {
  return ReduceScatterOp::create(builder, loc, types, values, units)->getResults();
}

SmallVector<Value> trainc::train::buildAllGather(OpBuilder &builder, Location loc,
                                                 ValueRange values, TypeRange types,
                                                 ArrayRef<int64_t> units) {
  return AllGatherOp::create(builder, loc, types, values, units)->getResults();
}
