// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Casts that move over ops which only move elements.

#include "lib/Transforms/Support/LowPrecisionCasts.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether the op only moves elements, each to at most one place: rounding before it or behind it
/// is the same, and so it is for the gradient.
/// Slices leave elements out, which have no gradient then.
static bool onlyMoves(Operation *op) {
  if (!op || !isa<StridedViewOpInterface, ElementAccessOpInterface>(op) ||
      op->getNumOperands() != 1)
    return false;
  if (isa<SliceOpInterface>(op))
    return true;
  // As many elements out as in, so that none is there twice.
  DimAttr total = DimAttr::constant(op->getContext(), 0);
  for (Type type : op->getResultTypes())
    total = total + getNumElements(type);
  return total == getNumElements(op->getOperand(0).getType());
}

/// Whether `user` takes elements of `value` by their indices. Its gradient adds up rounded numbers,
/// in f32, and rounds the sums: what stores them needs half the memory.
static bool takesElements(Operation *user, Value value) {
  return isa_and_nonnull<ElementAccessOpInterface>(user) && isa<IndexOperandOpInterface>(user) &&
         user->getOperand(0) == value && llvm::count(user->getOperands(), value) == 1;
}

/// Whether no element is in both ranges of one value.
static bool areApart(SubrangeOpInterface one, SubrangeOpInterface other) {
  const Subrange first = one.getSubrange(0, 0), second = other.getSubrange(0, 0);
  const SmallVector<DimAttr> firstDims = getDims(one->getResult(0)),
                             secondDims = getDims(other->getResult(0));
  auto endsBefore = [](DimAttr start, DimAttr size, DimAttr next) {
    std::optional<int64_t> gap = (next - (start + size)).getConstant();
    return gap && *gap >= 0;
  };
  for (size_t axis = 0; axis < firstDims.size(); ++axis) {
    if (first.steps[axis] != 1 || second.steps[axis] != 1)
      continue;
    if (endsBefore(first.starts[axis], firstDims[axis], second.starts[axis]) ||
        endsBefore(second.starts[axis], secondDims[axis], first.starts[axis]))
      return true;
  }
  return false;
}

/// The ops that read `value`, where each takes other elements of it, as a split does; else none.
/// Their gradients are never added to each other. Readers without a reader do not count.
static SmallVector<Operation *> getParts(Value value) {
  SmallVector<Operation *> parts;
  for (Operation *user : value.getUsers()) {
    if (user->use_empty())
      continue;
    auto part = dyn_cast<SubrangeOpInterface>(user);
    if (!part || !onlyMoves(user) || user->getNumResults() != 1 ||
        !llvm::all_of(parts, [&](Operation *other) {
          return areApart(part, cast<SubrangeOpInterface>(other));
        }))
      return {};
    parts.push_back(user);
  }
  return parts;
}

/// The op on an operand of the low type, behind both.
/// Behind both, so that the clone is dominated by its operand.
Operation *LowPrecisionCasts::cloneLow(Operation *op, Value operand) {
  Operation *def = operand.getDefiningOp();
  builder.setInsertionPointAfter(def && op->isBeforeInBlock(def) ? def : op);
  IRMapping mapping;
  mapping.map(op->getOperand(0), operand);
  Operation *clone = builder.clone(*op, mapping);
  for (Value result : clone->getResults())
    result.setType(withElementType(result.getType(), low));
  return clone;
}

/// A cast as far up as elements are only moved, so that what is moved is half as large. `user`:
/// before which a cast of an argument is placed.
Value LowPrecisionCasts::toLow(Value value, Operation *user) {
  Operation *def = value.getDefiningOp();
  if (!onlyMoves(def)) {
    // A parameter's cast belongs where it is needed first; any other, where the value is made.
    if (def)
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPoint(user);
    Location loc = def ? def->getLoc() : user->getLoc();
    return TrainBuilder(builder, loc).cast(value, low);
  }
  // The parts of a split stay parts of one.
  // Clones of a split are made once for all of its results.
  if (def->getNumResults() > 1) {
    Operation *&clone = lowParts[def];
    if (!clone)
      clone = cloneLow(def, toLow(def->getOperand(0), def));
    return clone->getResult(cast<OpResult>(value).getResultNumber());
  }
  return cloneLow(def, toLow(def->getOperand(0), user))->getResult(0);
}

/// The cast back moves down over moves, as long as there is one reader or each takes a part. Those
/// that round take the low value itself: else its moves would be there in both types.
void LowPrecisionCasts::fromLow(Value value, Value lowered) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
    if (isa<CastOpInterface>(user) && user->getResult(0).getType() == lowered.getType()) {
      user->getResult(0).replaceAllUsesWith(lowered);
      user->erase();
    }
  SmallVector<Operation *> movers = getParts(value);
  Operation *user = value.hasOneUse() ? *value.getUsers().begin() : nullptr;
  if (movers.empty() && (onlyMoves(user) || takesElements(user, value)))
    movers.push_back(user);
  for (Operation *mover : movers) {
    Operation *clone = cloneLow(mover, lowered);
    for (auto [from, to] : llvm::zip_equal(mover->getResults(), clone->getResults()))
      fromLow(from, to);
  }
  if (!movers.empty())
    return;
  builder.setInsertionPointAfterValue(lowered);
  value.replaceAllUsesWith(
      TrainBuilder(builder, value.getLoc()).cast(lowered, builder.getF32Type()));
}
