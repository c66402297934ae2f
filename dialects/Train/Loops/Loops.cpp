// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a loop is, and how one is made; its derivative is in LoopVJP.cpp.

#include "dialects/Train/Loops/Loops.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc::train;

#define GET_OP_CLASSES
#include "dialects/Train/TrainLoops.cpp.inc"

RankedTensorType trainc::train::getSliceType(Type type) {
  return getTensorType(ArrayRef<DimAttr>(getDims(type)).drop_front(), getElementTypeOrSelf(type));
}

static RankedTensorType getStackedType(Type slice, DimAttr steps) {
  SmallVector<DimAttr> dims = getDims(slice);
  dims.insert(dims.begin(), steps);
  return getTensorType(dims, getElementTypeOrSelf(slice));
}

LogicalResult LoopOp::verify() {
  for (auto [i, value] : llvm::enumerate(getScanned()))
    if (getRank(value) == 0 || getDim(value, 0) != getSteps())
      return emitOpError("expected scanned operand ")
             << i << " to have a first axis of " << getSteps().str() << ", got " << value.getType();
  if (getResults().size() < numCarried())
    return emitOpError("expected a result for each of ")
           << numCarried() << " carried values, got " << getResults().size();
  return success();
}

/// Behind the check of the body's ops: the terminator is one.
LogicalResult LoopOp::verifyRegions() {
  SmallVector<Type> arguments(getInitial().getTypes());
  for (Type type : getScanned().getTypes())
    arguments.push_back(getSliceType(type));
  llvm::append_range(arguments, getInvariants().getTypes());
  if (!llvm::equal(arguments, getBlock()->getArgumentTypes()))
    return emitOpError("expected a body of ")
           << arguments << ", got " << getBlock()->getArgumentTypes();
  SmallVector<Type> results;
  for (auto [i, type] : llvm::enumerate(getBlock()->getTerminator()->getOperandTypes()))
    results.push_back(i < numCarried() ? type : getStackedType(type, getSteps()));
  if (!llvm::equal(results, getResultTypes()))
    return emitOpError("expected results of ") << results << ", got " << getResultTypes();
  // A step begins with what the one before has carried on.
  for (auto [initial, result] : llvm::zip(getInitial(), getResults()))
    if (initial.getType() != result.getType())
      return emitOpError("expected to carry on ")
             << initial.getType() << ", got " << result.getType();
  return success();
}

FusionRole LoopOp::getFusionRole() { return FusionRole::Library; }

bool LoopOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  return detail::isRowMajor(getOperand(operand), layout);
}

bool LoopOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  return detail::isRowMajor(getResult(result), layout);
}

/// Beside those of the body's ops, which are told once for themselves.
DimAttr LoopOp::getFlops() {
  DimAttr step = DimAttr::constant(getContext(), 0);
  getBody().walk([&](CostOpInterface op) { step = step + op.getFlops(); });
  return (getSteps() - DimAttr::constant(getContext(), 1)) * step;
}

RecomputeClass LoopOp::getRecomputeClass() { return RecomputeClass::Never; }

/// Moves what is the same in each step in front of the loop, to the builder. What repeats elements
/// stays: it is index arithmetic in the body, and its gradient a sum of rows.
static void hoistInvariants(OpBuilder &builder, Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (op.getNumOperands() == 0 || !isMemoryEffectFree(&op) || op.getNumResults() != 1)
      continue;
    const bool repeats =
        isa<ElementAccessOpInterface>(op) && getRank(op.getResult(0)) > getRank(op.getOperand(0));
    if (!repeats && llvm::none_of(op.getOperands(),
                                  [&](Value value) { return value.getParentBlock() == &body; })) {
      op.remove();
      builder.insert(&op);
    }
  }
}

/// Gives the body arguments for what it reads from outside; constants are made in it.
static void captureOutside(Block &body, SmallVectorImpl<Value> &invariants) {
  llvm::SmallMapVector<Value, Value, 8> inside;
  OpBuilder builder(body.getTerminator()->getContext()); // the block is in no region yet
  builder.setInsertionPointToStart(&body);
  for (Operation &op : body)
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (value.getParentBlock() == &body)
        continue;
      Value &own = inside[value];
      if (!own && value.getDefiningOp() && value.getDefiningOp()->getNumOperands() == 0) {
        own = builder.clone(*value.getDefiningOp())->getResult(0);
      } else if (!own) {
        invariants.push_back(value);
        own = body.addArgument(value.getType(), value.getLoc());
      }
      operand.set(own);
    }
}

LoopOp trainc::train::buildLoop(TrainBuilder &tb, const LoopInputs &inputs,
                                llvm::function_ref<void(LoopStep &)> build) {
  OpBuilder &builder = tb.b();
  Location loc = tb.loc();
  auto body = std::make_unique<Block>();
  LoopStep step;
  auto add = [&](Type type, SmallVectorImpl<Value> &to) {
    to.push_back(body->addArgument(type, loc));
  };
  for (Value value : inputs.initial)
    add(value.getType(), step.carried);
  for (Value value : inputs.scanned)
    add(getSliceType(value.getType()), step.slices);
  for (Value value : inputs.invariants)
    add(value.getType(), step.invariants);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(body.get());
    build(step);
    LoopYieldOp::create(builder, loc,
                        llvm::to_vector(llvm::concat<Value>(step.next, step.stacked)));
  }
  assert(step.next.size() == inputs.initial.size() && "what is carried is carried on");
  SmallVector<Value> invariants(inputs.invariants);
  hoistInvariants(builder, *body);
  captureOutside(*body, invariants);
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(body->getTerminator()->getOperandTypes()))
    types.push_back(i < inputs.initial.size() ? type : getStackedType(type, inputs.steps));
  auto loop = LoopOp::create(builder, loc, types, inputs.initial, inputs.scanned, invariants,
                             inputs.steps, inputs.reverse);
  loop.getBody().push_back(body.release());
  return loop;
}
