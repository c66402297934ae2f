// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows choices, extremes and moves back to positions and numbers. Both ends are asked for by
// themselves: that of a clamp is in one of its two operands.

#include "lib/Conversion/ONNXToTrain/Indexing/IndexBounds.h"

#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainDialect.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::legalize {

namespace {
/// One end of what integers may be: all are at least, or at most, `limit`.
struct End {
  const Bounds &bounds;
  bool isUpper;
  DimAttr limit;

  bool holds(DimAttr value) const {
    return isUpper ? bounds.atMost(value, limit) : bounds.atMost(limit, value);
  }
  bool holds(Value x, unsigned depth = 8) const;
  /// Whether the choice is an extreme of two values, of which one has the end.
  bool isClamped(ChoiceOpInterface choice) const {
    auto compare = choice.getCondition().getDefiningOp<CompareOp>();
    if (!compare || compare.getLhs() != choice.getOnFalse() ||
        compare.getRhs() != choice.getOnTrue())
      return false;
    ComparePredicate predicate = compare.getPredicate();
    return isUpper ? predicate == ComparePredicate::gt || predicate == ComparePredicate::ge
                   : predicate == ComparePredicate::lt || predicate == ComparePredicate::le;
  }
};
} // namespace

bool End::holds(Value x, unsigned depth) const {
  Operation *op = x.getDefiningOp();
  if (!op || depth == 0)
    return false;
  auto number = [&](int64_t value) { return DimAttr::constant(op->getContext(), value); };
  auto of = [&](Value operand) { return holds(operand, depth - 1); };
  if (std::optional<double> splat = getSplatValue(x))
    return holds(number(int64_t(*splat)));
  if (auto iota = dyn_cast<IotaOp>(op))
    return holds(isUpper ? getDim(x, iota.getAxis()) - number(1) : number(0));
  if (auto dim = dyn_cast<DimOp>(op))
    return holds(dim.getValue());
  if (auto choice = dyn_cast<ChoiceOpInterface>(op)) {
    Value onTrue = choice.getOnTrue(), onFalse = choice.getOnFalse();
    return of(onTrue) ? of(onFalse) || isClamped(choice) : of(onFalse) && isClamped(choice);
  }
  if (auto max = dyn_cast<MaxOp>(op))
    return isUpper ? of(max.getLhs()) && of(max.getRhs()) : of(max.getLhs()) || of(max.getRhs());
  if (auto min = dyn_cast<MinOp>(op))
    return isUpper ? of(min.getLhs()) || of(min.getRhs()) : of(min.getLhs()) && of(min.getRhs());
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return (reduce.getKind() == ReduceKind::max || reduce.getKind() == ReduceKind::min) &&
           of(reduce.getOperand());
  if (auto cast = dyn_cast<CastOp>(op)) {
    // To a type that may not hold them they would become others.
    auto from = dyn_cast<IntegerType>(getElementType(cast.getOperand()));
    return from && from.getWidth() <= getElementType(x).getIntOrFloatBitWidth() &&
           of(cast.getOperand());
  }
  auto access = dyn_cast<ElementAccessOpInterface>(op);
  return access && access.onlyMoves() && op->getNumOperands() == 1 && of(op->getOperand(0));
}

bool isIndexOf(const Bounds &bounds, Value x, DimAttr size) {
  DimAttr zero = DimAttr::constant(x.getContext(), 0), one = DimAttr::constant(x.getContext(), 1);
  return End{bounds, false, zero - size}.holds(x) && End{bounds, true, size - one}.holds(x);
}

} // namespace trainc::legalize
