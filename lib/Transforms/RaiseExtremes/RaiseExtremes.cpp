// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-extremes`: from a sum of what a position selects back to the maximum that the
// position was found by.

#include "lib/Transforms/RaiseExtremes/RaiseExtremes.h"

#include "dialects/Train/Splats.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/AffineIntegers.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RAISEEXTREMESPASS
#include "lib/Transforms/RaiseExtremes/RaiseExtremes.h.inc"
} // namespace trainc

/// What `value` repeats along `axes`, all others being its own; null for anything else.
static Value repeatedAlong(Value value, ArrayRef<int64_t> axes) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getAxes().size() + axes.size() != size_t(getRank(value)) ||
      llvm::any_of(axes,
                   [&](int64_t axis) { return llvm::is_contained(broadcast.getAxes(), axis); }))
    return {};
  return broadcast.getOperand();
}

/// The operand of a reduction of this kind over just these axes.
static Value reducedBy(Value value, ReduceKind kind, ArrayRef<int64_t> axes) {
  auto op = value ? value.getDefiningOp<ReduceOp>() : ReduceOp();
  return op && op.getKind() == kind && op.getAxes() == axes ? op.getOperand() : Value();
}

/// Whether `value` counts the elements along `axes`, the last of them fastest, and `none` is the
/// number behind them.
static bool countsAlong(AffineIntegers &integers, Value value, Value none, ArrayRef<int64_t> axes) {
  std::optional<AffineInteger> position = integers.get(value);
  std::optional<double> beyond = getSplatValue(none);
  if (!position || !beyond || !position->constant.isConstant(0))
    return false;
  // Factors of a row-major number: each axis counts what the ones behind it hold.
  int64_t count = 1;
  for (int64_t axis = getRank(value) - 1; axis >= 0; --axis) {
    const bool counted = llvm::is_contained(axes, axis);
    std::optional<int64_t> size = getDim(value, axis).getConstant();
    if (counted && !size)
      return false;
    if (!(counted && *size == 1) && !position->factors[axis].isConstant(counted ? count : 0))
      return false;
    if (counted)
      count *= *size;
  }
  // Numbers that wrap around would be no positions.
  return *beyond == double(count) &&
         llvm::isIntN(getElementType(value).getIntOrFloatBitWidth(), count);
}

/// Whether `wins` says where `x` is not below the maximum, NaNs among them; finds the maximum.
static bool holdsAtMaximum(Value wins, Value x, ArrayRef<int64_t> axes, Value &maximum) {
  auto either = wins.getDefiningOp<OrOp>();
  if (!either)
    return false;
  for (auto [one, other] : {std::pair(either.getOperand(0), either.getOperand(1)),
                            std::pair(either.getOperand(1), either.getOperand(0))}) {
    auto compare = one.getDefiningOp<CompareOp>();
    auto nan = other.getDefiningOp<IsNanOp>();
    if (!compare || !nan || compare.getPredicate() != ComparePredicate::ge ||
        compare->getOperand(0) != x || nan->getOperand(0) != x)
      continue;
    maximum = repeatedAlong(compare->getOperand(1), axes);
    return reducedBy(maximum, ReduceKind::max, axes) == x;
  }
  return false;
}

/// The maximum that `sum` is, or null.
static Value findMaximum(AffineIntegers &integers, ReduceOp sum) {
  ArrayRef<int64_t> axes = sum.getAxes();
  auto chosen = sum.getOperand().getDefiningOp<SelectOp>();
  if (sum.getKind() != ReduceKind::sum || !chosen || getSplatValue(chosen->getOperand(2)) != 0.0)
    return {};
  Value x = chosen->getOperand(1);
  auto here = chosen->getOperand(0).getDefiningOp<CompareOp>();
  if (!here || here.getPredicate() != ComparePredicate::eq)
    return {};
  // Either operand may be the position, the other the first one.
  for (unsigned side : {0, 1}) {
    Value position = here->getOperand(side);
    Value first = repeatedAlong(here->getOperand(1 - side), axes);
    Value candidates = reducedBy(first, ReduceKind::min, axes);
    auto candidate = candidates ? candidates.getDefiningOp<SelectOp>() : SelectOp();
    Value maximum;
    if (candidate && candidate->getOperand(1) == position &&
        countsAlong(integers, position, candidate->getOperand(2), axes) &&
        holdsAtMaximum(candidate->getOperand(0), x, axes, maximum))
      return maximum;
  }
  return {};
}

namespace {
struct RaiseExtremesPass : trainc::impl::RaiseExtremesPassBase<RaiseExtremesPass> {
  using RaiseExtremesPassBase::RaiseExtremesPassBase;

  void runOnOperation() override {
    // Found first: what is replaced would no longer match for others.
    AffineIntegers integers;
    SmallVector<std::pair<ReduceOp, Value>> raised;
    getOperation()->walk([&](ReduceOp sum) {
      if (Value maximum = findMaximum(integers, sum))
        raised.push_back({sum, maximum});
    });
    for (auto [sum, maximum] : raised) {
      assert(maximum.getType() == sum.getResult().getType() && "reduced from one value");
      remark::passed(sum->getLoc(), remark::RemarkOpts::name("Raised").category("raise-extremes"))
          << remark::add("{0} is the maximum that its position was found by", describeOp(sum));
      sum.getResult().replaceAllUsesWith(maximum);
    }
    // Positions that nothing else reads go as well.
    if (!raised.empty())
      for (Block &block : getOperation().getBody())
        eraseDeadOps(block);
  }
};
} // namespace
