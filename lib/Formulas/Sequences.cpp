// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// torch.diff of positions is a difference of two slices of the positions with an element in front.

#include "trainc/Formulas/Sequences.h"

#include "dialects/Train/Splats.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Where the slice begins along the columns, if it takes whole rows from there with step 1.
static std::optional<int64_t> startOfColumns(SliceOp slice) {
  ArrayRef<DimAttr> starts = slice.getStarts().getDims();
  if (getRank(slice.getOperand()) != 2 || slice.getSteps() != ArrayRef<int64_t>{1, 1} ||
      !starts[0].isConstant(0) || getDim(slice.getOperand(), 0) != getDim(slice.getResult(), 0))
    return std::nullopt;
  return starts[1].getConstant();
}

/// first - 1, of the first position of each row.
/// The element in front makes the first difference 1, so that a row begins no new sequence by
/// itself.
static bool isBeforeFirst(Value value, BlockArgument positions) {
  Value first;
  if (auto sub = value.getDefiningOp<SubOp>(); sub && getSplatValue(sub.getRhs()) == 1.0)
    first = sub.getLhs();
  else if (auto add = value.getDefiningOp<AddOp>(); add && getSplatValue(add.getRhs()) == -1.0)
    first = add.getLhs();
  auto slice = first ? first.getDefiningOp<SliceOp>() : SliceOp();
  return slice && slice.getOperand() == positions && startOfColumns(slice) == 0 &&
         getDim(first, 1).isConstant(1);
}

namespace {
/// The positions themselves, or those of the column before, one less than itself in front of the
/// first.
struct Shifted {
  BlockArgument positions;
  bool isBefore = false;
};
} // namespace

/// Both ways in which the two slices are left by passes.
static std::optional<Shifted> getShifted(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Shifted{argument};
  // As `hoist-slices` leaves it: the slice is of the positions alone.
  if (auto joined = value.getDefiningOp<ConcatOp>();
      joined && joined.getAxis() == 1 && joined.getOperands().size() == 2) {
    auto rest = joined.getOperands()[1].getDefiningOp<SliceOp>();
    auto positions = rest ? dyn_cast<BlockArgument>(rest.getOperand()) : BlockArgument();
    if (!positions || !isBeforeFirst(joined.getOperands()[0], positions) ||
        startOfColumns(rest) != 0 || getDims(value) != getDims(positions))
      return std::nullopt;
    return Shifted{positions, /*isBefore=*/true};
  }
  auto slice = value.getDefiningOp<SliceOp>();
  auto joined = slice ? slice.getOperand().getDefiningOp<ConcatOp>() : ConcatOp();
  std::optional<int64_t> start = slice ? startOfColumns(slice) : std::nullopt;
  if (!joined || joined.getAxis() != 1 || joined.getOperands().size() != 2 || !start)
    return std::nullopt;
  auto positions = dyn_cast<BlockArgument>(joined.getOperands()[1]);
  if (!positions || !isBeforeFirst(joined.getOperands()[0], positions) ||
      getDims(value) != getDims(positions) || (*start != 0 && *start != 1))
    return std::nullopt;
  return Shifted{positions, *start == 0};
}

/// cumsum(diff(positions) != 1): the number of the sequence. Only in integers, and not in booleans,
/// which would not count.
BlockArgument trainc::findSequences(Value numbers) {
  auto sum = numbers.getDefiningOp<CumsumOp>();
  if (!sum || sum.getAxis() != 1 || getRank(numbers) != 2 || sum.getExclusive() || sum.getReverse())
    return {};
  auto cast = sum.getOperand().getDefiningOp<CastOp>();
  // Nothing else counts in steps of one.
  if (!cast || !getElementType(cast.getOperand()).isInteger(1) ||
      getElementType(numbers).isInteger(1) || !isa<IntegerType>(getElementType(numbers)))
    return {};
  Value begins = cast.getOperand();
  auto inverted = begins.getDefiningOp<NotOp>();
  if (inverted)
    begins = inverted.getOperand();
  auto compare = begins.getDefiningOp<CompareOp>();
  if (!compare || getSplatValue(compare.getRhs()) != 1.0 ||
      compare.getPredicate() != (inverted ? ComparePredicate::eq : ComparePredicate::ne))
    return {};
  auto difference = compare.getLhs().getDefiningOp<SubOp>();
  if (!difference || !isa<IntegerType>(getElementType(difference.getResult())))
    return {};
  std::optional<Shifted> here = getShifted(difference.getLhs()),
                         before = getShifted(difference.getRhs());
  if (!here || !before || here->isBefore || !before->isBefore ||
      here->positions != before->positions)
    return {};
  return here->positions;
}
