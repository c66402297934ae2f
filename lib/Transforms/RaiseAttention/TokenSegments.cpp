// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the selections that unpack and pack around an attention, and what the mask is for tokens.

#include "lib/Transforms/RaiseAttention/TokenSegments.h"

#include "dialects/Train/Splats.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static bool rearranges(Operation *op) { return isa_and_nonnull<ReshapeOp, TransposeOp>(op); }

/// The selection that a value is a view of.
static SelectRowsOp selectionAbove(Value value) {
  while (rearranges(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<SelectRowsOp>();
}

/// The selection that alone reads a value, through views.
static SelectRowsOp selectionBelow(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto select = dyn_cast<SelectRowsOp>(user))
      return select;
    if (!rearranges(user))
      break;
    value = user->getResult(0);
  }
  return {};
}

/// Through ops that repeat and rearrange.
static Value originOf(Value value) {
  while (isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

std::optional<TokenSegments> TokenSegments::find(Value q, Value k, Value v, Value result) {
  SelectRowsOp back = selectionBelow(result);
  TokenSegments found;
  for (Value value : {q, k, v}) {
    SelectRowsOp select = selectionAbove(value);
    if (!back || !select || getRank(value) != 4 || select.getIndex() != back.getInverse() ||
        (found.slots && select.getIndex() != found.slots))
      return std::nullopt;
    found.slots = select.getIndex();
    found.rowsOrNone = select.getInverse();
  }
  found.rows = back.getIndex();
  found.samples = getDim(q, 0);
  found.positions = getDim(q, 2);
  if (getDim(k, 2) != found.positions || getDim(found.slots, 0) != found.samples * found.positions)
    return std::nullopt;

  auto slots = found.slots.getDefiningOp<SelectOp>();
  auto wanted = slots ? slots.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  std::optional<double> padding = wanted ? getSplatValue(wanted.getRhs()) : std::nullopt;
  if (!padding || wanted.getPredicate() != ComparePredicate::ne)
    return std::nullopt;
  found.mask = dyn_cast<BlockArgument>(originOf(wanted.getLhs()));
  found.padding = *padding;
  if (!found.mask)
    return std::nullopt;
  // What the runtime checks of a batch before it runs this.
  auto function = cast<func::FuncOp>(found.mask.getOwner()->getParentOp());
  StringRef name = getArgName(function, found.mask.getArgNumber());
  if (auto conditions = function->getParentOp()->getAttrOfType<ArrayAttr>(kConditionsAttr))
    for (auto condition : conditions.getAsRange<DictionaryAttr>())
      if (condition.getAs<StringAttr>("kind") == "binary" &&
          condition.getAs<StringAttr>("input") == name)
        found.binary = true;
  return found;
}

std::optional<double> TokenSegments::valueAtTokens(Value value) const {
  value = originOf(value);
  if (std::optional<double> splat = getSplatValue(value))
    return splat;
  if (value == mask)
    return binary ? std::optional(1.0) : std::nullopt;
  auto pointwise = value.getDefiningOp<PointwiseOpInterface>();
  if (!pointwise || pointwise->getNumOperands() == 0)
    return std::nullopt;
  for (int64_t axis = 0; axis < getRank(value); ++axis)
    if (pointwise.dependsOnIndex(axis))
      return std::nullopt;
  // A comparison with the number that marks padding.
  if (auto compare = dyn_cast<CompareOp>(pointwise.getOperation())) {
    bool ne = compare.getPredicate() == ComparePredicate::ne;
    if ((ne || compare.getPredicate() == ComparePredicate::eq) &&
        originOf(compare.getLhs()) == mask && getSplatValue(compare.getRhs()) == padding)
      return ne ? 1 : 0;
  }
  if (isa<CastOp>(pointwise.getOperation()) && getElementType(value).isInteger(1) && padding == 0 &&
      originOf(pointwise->getOperand(0)) == mask)
    return 1;
  SmallVector<double> operands;
  for (Value operand : pointwise->getOperands()) {
    std::optional<double> known = valueAtTokens(operand);
    if (!known)
      return std::nullopt;
    operands.push_back(*known);
  }
  SmallVector<int64_t> index(getRank(value), 0);
  return pointwise.evaluateScalar(operands, index);
}

Value TokenSegments::pack(TrainBuilder &tb, Value value) const {
  return selectAlong(tb, value, {0, 2}, [&](TrainBuilder &b, Value v, int64_t axis) {
    return b.selectRows(v, rows, slots, axis);
  });
}
Value TokenSegments::unpack(TrainBuilder &tb, Value value) const {
  auto select = [&](TrainBuilder &b, Value v, int64_t axis) {
    return b.selectRows(v, slots, rowsOrNone, axis);
  };
  return selectAlong(tb, value, {0, 2}, select, {samples, positions});
}

Value TokenSegments::buildOffsets(TrainBuilder &tb) const {
  Type i32 = tb.b().getI32Type();
  Value slot = tb.reshape(slots, {samples, positions});
  Value isToken = tb.cast(tb.compare("ge", slot, tb.scalarLike(slot, 0)), i32);
  Value lengths = tb.sum(isToken, {1});
  Value ends = CumsumOp::create(tb.b(), tb.loc(), lengths.getType(), lengths, /*axis=*/0,
                                /*exclusive=*/false, /*reverse=*/false);
  return tb.concat({tb.full({tb.dimAttr(1)}, i32, 0), ends}, 0);
}

Value TokenSegments::buildPositions(TrainBuilder &tb) const {
  Type i64 = tb.b().getI64Type();
  Value row = tb.cast(rows, i64), length = tb.splat(tb.dim(positions, i64), row);
  return tb.cast(tb.sub(row, tb.mul(tb.div(row, length), length)), tb.b().getI32Type());
}
