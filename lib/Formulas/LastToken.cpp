// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two ways are in use: argmax(position * mark), and sum(mark) - 1.

#include "trainc/Formulas/LastToken.h"

#include "dialects/Train/Splats.h"
#include "trainc/Analysis/AffineIntegers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Through what leaves integers as they are.
static Value skipCasts(Value value) {
  while (isa_and_nonnull<CastOp, ReshapeOp>(value.getDefiningOp()) &&
         isa<IntegerType>(getElementType(value.getDefiningOp()->getOperand(0))))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// argmax: the smallest position at which the product is its largest.
/// As the exporter writes argmax: the smallest of the positions at which the product equals its
/// maximum.
static std::optional<LastToken> findByPosition(Value position, DimAttr length) {
  AffineIntegers affine;
  auto least = position.getDefiningOp<ReduceOp>();
  auto select = least ? least.getOperand().getDefiningOp<SelectOp>() : SelectOp();
  auto equal = select ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  if (!equal || least.getKind() != ReduceKind::min || least.getAxes() != ArrayRef<int64_t>{1} ||
      equal.getPredicate() != ComparePredicate::eq)
    return std::nullopt;
  // Positions that are not the largest count as length - 1, which is no smaller than any.
  std::optional<AffineInteger> found = affine.get(select.getOnTrue()),
                               none = affine.get(select.getOnFalse());
  if (!found || !found->isCoordinate(1) || !none || !none->isUniform() ||
      none->constant + DimAttr::constant(position.getContext(), 1) != length)
    return std::nullopt;
  // Either side of the comparison, either factor of the product.
  for (unsigned side = 0; side < 2; ++side) {
    auto product = equal->getOperand(side).getDefiningOp<MulOp>();
    auto repeated = equal->getOperand(1 - side).getDefiningOp<BroadcastOp>();
    auto largest =
        repeated ? skipCasts(repeated.getOperand()).getDefiningOp<ReduceOp>() : ReduceOp();
    if (!product || !largest || largest.getKind() != ReduceKind::max ||
        largest.getAxes() != ArrayRef<int64_t>{1} || largest.getOperand() != product.getResult())
      continue;
    for (unsigned factor = 0; factor < 2; ++factor)
      if (std::optional<AffineInteger> count = affine.get(product->getOperand(factor));
          count && count->isCoordinate(1))
        return LastToken{product->getOperand(1 - factor), /*byCount=*/false};
  }
  return std::nullopt;
}

static std::optional<LastToken> findByCount(Value position) {
  Operation *less = position.getDefiningOp();
  if (!isa_and_nonnull<SubOp, AddOp>(less) ||
      getSplatValue(less->getOperand(1)) != (isa<SubOp>(less) ? 1.0 : -1.0))
    return std::nullopt;
  auto count = skipCasts(less->getOperand(0)).getDefiningOp<ReduceOp>();
  if (!count || count.getKind() != ReduceKind::sum || count.getAxes() != ArrayRef<int64_t>{1})
    return std::nullopt;
  return LastToken{count.getOperand(), /*byCount=*/true};
}

/// The positions of rows that are one of each sample, `length` apart: row - sample * length. Null
/// where they are not known to be that.
/// The row is sample * length + position.
static Value findPositions(Value rows, DimAttr length) {
  // Positions out of range end the run.
  rows = skipCasts(rows);
  if (auto checked = rows.getDefiningOp<SelectOp>())
    rows = skipCasts(checked.getOnTrue());
  auto sum = rows.getDefiningOp<AddOp>();
  for (unsigned side = 0; sum && side < 2; ++side) {
    std::optional<AffineInteger> first = AffineIntegers().get(sum->getOperand(side));
    if (first && first->factors.size() == 1 && first->factors[0] == length &&
        first->constant.isConstant(0))
      return sum->getOperand(1 - side);
  }
  return {};
}

bool trainc::areRowsOfSamples(Value rows, DimAttr length) {
  return findPositions(rows, length) != nullptr;
}

/// Of the last row that a mark holds in each sample, by either form.
std::optional<LastToken> trainc::findLastToken(Value rows, DimAttr length) {
  Value position = findPositions(rows, length);
  if (!position)
    return std::nullopt;
  position = skipCasts(position);
  // One below 0 counts from the end; there is none in batches that meet the conditions.
  if (auto wrapped = position.getDefiningOp<SelectOp>())
    position = skipCasts(wrapped.getOnFalse());
  std::optional<LastToken> found = findByPosition(position, length);
  if (!found)
    found = findByCount(position);
  return found && getRank(found->marks) == 2 ? found : std::nullopt;
}

/// Marks are an input of 0 and 1, or a comparison of one with a number; each negation turns the
/// comparison around.
std::optional<MarkOrigin> trainc::findMarkOrigin(Value marks) {
  bool negated = false;
  Value value = skipCasts(marks);
  for (auto inverse = value.getDefiningOp<NotOp>(); inverse;
       inverse = value.getDefiningOp<NotOp>()) {
    negated = !negated;
    value = skipCasts(inverse.getOperand());
  }
  if (auto input = dyn_cast<BlockArgument>(value); input && !negated)
    return MarkOrigin{input, 0, /*isCompared=*/false};
  auto compare = value.getDefiningOp<CompareOp>();
  if (!compare || compare.getPredicate() != (negated ? ComparePredicate::eq : ComparePredicate::ne))
    return std::nullopt;
  auto input = dyn_cast<BlockArgument>(skipCasts(compare.getLhs()));
  std::optional<double> number = getSplatValue(compare.getRhs());
  if (!input || !number)
    return std::nullopt;
  return MarkOrigin{input, int64_t(*number), /*isCompared=*/true};
}
