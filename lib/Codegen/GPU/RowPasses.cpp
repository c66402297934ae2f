// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that need no pass of their own, and the order of the others.

#include "RowPasses.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

static bool isSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getKind() == ReduceKind::sum;
}
static bool isF32(Value value) { return getElementType(value).isF32(); }

/// The value of the kept axes that `value` repeats along the reduced ones, or null.
static Value keptSource(Value value, const Structure &s) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getAxes() == ArrayRef<int64_t>(s.kept) ? broadcast.getOperand()
                                                                       : Value();
}

/// The reduction whose result is subtracted in sum(exp(x - max x)), or null.
static Operation *maximumOf(Operation *sum, const Structure &s) {
  if (!isSum(sum) || !isF32(sum->getOperand(0)))
    return nullptr;
  auto exp = sum->getOperand(0).getDefiningOp<ExpOp>();
  auto difference = exp ? exp->getOperand(0).getDefiningOp<SubOp>() : SubOp();
  Value top = difference ? keptSource(difference->getOperand(1), s) : Value();
  auto maximum = top ? top.getDefiningOp<ReduceOp>() : ReduceOp();
  return maximum && maximum.getKind() == ReduceKind::max &&
                 maximum.getOperand() == difference->getOperand(0)
             ? maximum.getOperation()
             : nullptr;
}

static std::optional<Pick> pickOf(Operation *sum, const Structure &s) {
  if (!isSum(sum) || !isF32(sum->getOperand(0)) || s.reduced != ArrayRef<int64_t>(s.vectorAxis))
    return std::nullopt;
  auto select = sum->getOperand(0).getDefiningOp<SelectOp>();
  auto none = select ? select.getOnFalse().getDefiningOp<FullOp>() : FullOp();
  auto compare = none ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  auto value = none ? dyn_cast<FloatAttr>(none.getValue()) : FloatAttr();
  if (!compare || !value || !value.getValue().isZero() ||
      compare.getPredicate() != ComparePredicate::eq)
    return std::nullopt;
  for (unsigned side : {0, 1}) {
    auto iota = compare->getOperand(side).getDefiningOp<IotaOp>();
    OpOperand &index = compare->getOpOperand(1 - side);
    if (iota && int64_t(iota.getAxis()) == s.vectorAxis && keptSource(index.get(), s) &&
        isa<IntegerType>(getElementType(index.get())))
      return Pick{&select.getOnTrueMutable(), &index};
  }
  return std::nullopt;
}

RowPasses::RowPasses(FusionOp fusion, const Structure &s, bool rescale) {
  Block &body = fusion.getBody().front();
  llvm::DenseMap<Value, unsigned> level;
  auto passAt = [&](unsigned index) -> RowPass & {
    if (passes.size() <= index)
      passes.resize(index + 1);
    return passes[index];
  };
  for (Operation &op : body.without_terminator()) {
    unsigned deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, level.lookup(operand));
    if (isa<ReductionOpInterface>(op)) {
      Value result = op.getResult(0);
      if (auto pick = pickOf(&op, s)) {
        picks[result] = *pick;
      } else {
        Operation *maximum = rescale ? maximumOf(&op, s) : nullptr;
        RowPass &pass = passAt(maximum ? level.lookup(maximum->getResult(0)) - 1 : deepest);
        auto found = llvm::find(pass.reductions, maximum);
        if (found != pass.reductions.end()) {
          pass.reductions.erase(found);
          pass.rescaled.push_back({maximum, &op});
          deepest = level.lookup(maximum->getResult(0));
        } else {
          // Also where another sum has the maximum already.
          passAt(deepest).reductions.push_back(&op);
          ++deepest;
        }
      }
    }
    for (Value value : op.getResults())
      level[value] = deepest;
  }
  for (auto [number, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (getDims(value) == s.space && !llvm::is_contained(s.keptResults, number))
      passAt(level.lookup(value)).results.push_back(number);
}

} // namespace trainc::codegen
