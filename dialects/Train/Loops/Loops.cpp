// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a loop is, and how one is made; its derivative is in LoopVJP.cpp.

#include "dialects/Train/Loops/Loops.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
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

/// Whether the op is made once in front of a loop, where its operands are the same in each step.
/// What repeats elements stays: it is index arithmetic in the body, and its gradient a sum of rows.
static bool isHoisted(Operation &op) {
  if (op.getNumOperands() == 0 || !isMemoryEffectFree(&op) || op.getNumResults() != 1)
    return false;
  return !isa<ElementAccessOpInterface>(op) ||
         getRank(op.getResult(0)) <= getRank(op.getOperand(0));
}

/// Moves what is the same in each step in front of the loop, to the builder.
static void hoistInvariants(OpBuilder &builder, Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body))
    if (isHoisted(op) && llvm::none_of(op.getOperands(), [&](Value value) {
          return value.getParentBlock() == &body;
        })) {
      op.remove();
      builder.insert(&op);
    }
}

/// What passes have put into the body that is the same in each step, as casts of weights, goes in
/// front of the loop; what no step reads is no operand.
LogicalResult LoopOp::canonicalize(LoopOp loop, PatternRewriter &rewriter) {
  Block &body = *loop.getBlock();
  const unsigned first = loop.numCarried() + loop.getScanned().size();
  auto isInvariant = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &body && argument.getArgNumber() >= first;
  };
  SmallVector<Operation *> hoisted;
  for (Operation &op : body.without_terminator())
    if (isHoisted(op) && llvm::all_of(op.getOperands(), isInvariant))
      hoisted.push_back(&op);
  auto isUnused = [&](size_t i) { return body.getArgument(first + i).use_empty(); };
  if (hoisted.empty() && llvm::none_of(llvm::seq(loop.getInvariants().size()), isUnused))
    return failure();
  IRMapping outside;
  for (auto [i, value] : llvm::enumerate(loop.getInvariants()))
    outside.map(body.getArgument(first + i), value);
  SmallVector<Value> invariants(loop.getInvariants());
  for (Operation *op : hoisted) {
    invariants.push_back(rewriter.clone(*op, outside)->getResult(0));
    rewriter.replaceOp(op, body.addArgument(invariants.back().getType(), op->getLoc()));
  }
  for (size_t i = invariants.size(); i-- > 0;)
    if (isUnused(i)) {
      body.eraseArgument(first + i);
      invariants.erase(invariants.begin() + i);
    }
  auto made = LoopOp::create(rewriter, loop.getLoc(), loop.getResultTypes(), loop.getInitial(),
                             loop.getScanned(), invariants, loop.getSteps(), loop.getReverse());
  made->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  made.getBody().takeBody(loop.getBody());
  rewriter.replaceOp(loop, made);
  return success();
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
