// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of a loop hold in every step: the body is followed with what is carried on united with
// what it began with, until nothing is added.

#include "dialects/Train/Ranges/LoopRanges.h"

#include "dialects/Train/Loops/Loops.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainDialect.h"

using namespace mlir;
using namespace trainc::train;

namespace {
class BodyRanges {
public:
  /// `operands` and `changed` as `RangeOpInterface` has them.
  BodyRanges(LoopOp loop, ArrayRef<Range> operands, ArrayRef<bool> changed) : loop(loop) {
    assert(operands.size() == loop->getNumOperands() && operands.size() == changed.size() &&
           "the body has an argument for each operand");
    for (auto [argument, range, isChanged] :
         llvm::zip_equal(loop.getBlock()->getArguments(), operands, changed))
      held[argument] = {range, isChanged};
    // A bound that still moves then is given up: that of a counter, or of a sum.
    constexpr unsigned kRounds = 3;
    unsigned round = 0;
    do
      follow();
    while (carryOn(/*givesUp=*/++round > kRounds));
  }

  Range getRange(unsigned result) {
    // Without a step the initial values are the results, so these are among what is carried.
    if (result < loop.numCarried())
      return held.lookup(loop.getBlock()->getArgument(result)).range;
    return held.lookup(loop.getBlock()->getTerminator()->getOperand(result)).range;
  }
  bool keepsFinite() const { return finite; }

private:
  struct Held {
    Range range;
    bool changed = false;
    bool operator==(const Held &) const = default;
  };

  /// All ops of the body, once.
  void follow() {
    finite = true;
    for (Operation &op : loop.getBlock()->without_terminator()) {
      SmallVector<Range> ranges;
      SmallVector<bool> changed;
      for (Value operand : op.getOperands()) {
        ranges.push_back(held.lookup(operand).range);
        changed.push_back(held.lookup(operand).changed);
      }
      bool anyChanged = llvm::is_contained(changed, true);
      bool ofFloats = llvm::any_of(op.getOperandTypes(), isFloat);
      for (OpResult result : op.getResults()) {
        // A comparison with NaN is false, whatever the ranges of numbers say.
        Range range = ofFloats && !isFloat(result.getType())
                          ? rangeOfType(getElementType(result))
                          : inferRange(&op, result.getResultNumber(), ranges);
        held[result] = {range, anyChanged};
      }
      if (!anyChanged || llvm::none_of(op.getResultTypes(), isFloat))
        continue;
      auto known = dyn_cast<RangeOpInterface>(op);
      finite &= known && known.keepsFinite(ranges, changed);
    }
  }

  /// Whether what is carried to the next step may be something else than before.
  bool carryOn(bool givesUp) {
    bool more = false;
    for (auto [argument, next] :
         llvm::zip(loop.getBlock()->getArguments().take_front(loop.numCarried()),
                   loop.getBlock()->getTerminator()->getOperands())) {
      const Held before = held.lookup(argument), made = held.lookup(next);
      Held now{before.range.unite(made.range), before.changed || made.changed};
      if (now == before)
        continue;
      more = true;
      if (givesUp)
        now.range = isFloat(argument.getType()) && now.range.isFinite()
                        ? Range::finite()
                        : rangeOfType(getElementType(argument));
      held[argument] = now;
    }
    return more;
  }

  static bool isFloat(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

  LoopOp loop;
  DenseMap<Value, Held> held;
  bool finite = true;
};

struct LoopRangeModel : RangeOpInterface::ExternalModel<LoopRangeModel, LoopOp> {
  Range getRange(Operation *op, unsigned result, ArrayRef<Range> operands) const {
    SmallVector<bool> none(operands.size(), false);
    return BodyRanges(cast<LoopOp>(op), operands, none).getRange(result);
  }
  bool keepsFinite(Operation *op, ArrayRef<Range> operands, ArrayRef<bool> changed) const {
    return BodyRanges(cast<LoopOp>(op), operands, changed).keepsFinite();
  }
};
} // namespace

void trainc::train::detail::attachLoopRanges(MLIRContext *context) {
  LoopOp::attachInterface<LoopRangeModel>(*context);
}
