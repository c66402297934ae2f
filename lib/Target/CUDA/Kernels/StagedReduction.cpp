// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stages, temporary results and roots of reductions that many blocks share.

#include "StagedReduction.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

void planStages(const ReductionStages &layout, DimAttr sweepBlocks, DimAttr totalBlocks,
                GpuPlan &plan) {
  for (const ReductionStages::Stage &stage : layout.stages)
    plan.stages.push_back(
        {StringAttr::get(sweepBlocks.getContext(), layout.suffix(stage)).getValue(),
         stage.sweeps ? sweepBlocks : totalBlocks, kTileThreads});
  plan.temporaryBytes = layout.temporary.bytes;
}

/// Cost of what is computed at each position. What is made of finished sums, an optimizer's step
/// maybe, is computed once for all of them.
static unsigned costOfPositions(FusionOp fusion, const Structure &s) {
  SmallVector<DimAttr> kept;
  for (int64_t axis : s.kept)
    kept.push_back(s.space[axis]);
  unsigned cost = 0;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (!isa<ReductionOpInterface>(op) && llvm::all_of(op.getResults(), [&](Value value) {
          return getRank(value) == 0 || getDims(value) == kept;
        }))
      continue;
    auto known = dyn_cast<CostOpInterface>(op);
    cost += known ? known.getElementCost() : 1;
  }
  return std::max(1u, cost);
}

unsigned chooseUnroll(FusionOp fusion, const Structure &s, unsigned lanes) {
  unsigned inputs = std::max(1u, countSpaceInputs(fusion, s)), cost = costOfPositions(fusion, s);
  unsigned unroll = 8;
  // Registers for what is in flight, and code that does not grow without bound.
  while (unroll > 1 &&
         (unroll * inputs > 8 || unroll * inputs * lanes > 32 || unroll * lanes * cost > 512))
    unroll /= 2;
  return unroll;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

StagedReduction::StagedReduction(GpuKernel &kernel, DimAttr parts, int64_t vectorAxis,
                                 ArrayRef<int64_t> reduced)
    : kernel(kernel), s(kernel.structure), layout(kernel.fusion, kernel.structure, parts),
      yield(kernel.fusion.getBody().front().getTerminator()), vectorAxis(vectorAxis) {
  for (int64_t axis : s.kept)
    keptSizes.push_back(s.space[axis]);
  for (int64_t axis : reduced)
    if (axis != vectorAxis) {
      outerReduced.push_back(axis);
      outerReducedSizes.push_back(s.space[axis]);
    }
  for (auto [number, pass] : llvm::enumerate(s.passes)) {
    for (Operation *op : pass.reductions)
      reducedIn[op->getResult(0)] = number;
    for (unsigned result : pass.results)
      storedIn.try_emplace(yield->getOperand(result), unsigned(number), result);
  }
}

/// A stage of its own: nothing in registers is left of the one before.
void StagedReduction::begin(unsigned pass) {
  e = &kernel.nextStage();
  e->pass = pass;
  e->resident = [this](Value value, ArrayRef<ElementIndex> index) { return lookUp(value, index); };
  current.clear();
}

Type StagedReduction::stepType(Operation *op) {
  return computeType(getElementType(op->getResult(0)));
}

void StagedReduction::setSpaceIndex(ArrayRef<ElementIndex> outer, const ElementIndex &vector) {
  e->spaceIndex.assign(s.space.size(), e->constant(0));
  for (auto [axis, index] : llvm::zip_equal(s.kept, e->keptIndex))
    e->spaceIndex[axis] = index;
  for (auto [axis, index] : llvm::zip_equal(outerReduced, outer))
    e->spaceIndex[axis] = index;
  e->spaceIndex[vectorAxis] = vector;
}

/// This stage's totals, those that earlier stages have stored, and stored results.
Value StagedReduction::lookUp(Value value, ArrayRef<ElementIndex> index) {
  if (auto reduced = reducedIn.find(value);
      reduced != reducedIn.end() && KernelEmitter::same(index, e->keptIndex)) {
    if (Value total = current.lookup(value))
      return total;
    if (reduced->second >= e->pass)
      return {};
    Operation *op = value.getDefiningOp();
    Value total = e->loadFrom(temporaryAt(*e, layout.totals.lookup(op)), stepType(op),
                              e->linearize(e->keptIndex, keptSizes));
    return e->finishReduction(op, total);
  }
  auto stored = storedIn.find(value);
  if (stored == storedIn.end() || stored->second.first >= e->pass || isa<BlockArgument>(value) ||
      !KernelEmitter::same(index, e->spaceIndex))
    return {};
  return e->load(e->fusion.getInputs().size() + stored->second.second, value.getType(), index);
}

Values StagedReduction::identities(const Pass &pass) {
  Values values;
  for (Operation *op : pass.reductions)
    values.push_back(e->identity(op, e->getLanes()));
  return values;
}

Values StagedReduction::combineAll(const Pass &pass, ValueRange a, ValueRange b) {
  Values values;
  for (auto [op, x, y] : llvm::zip_equal(pass.reductions, a, b))
    values.push_back(e->combine(op, x, y));
  return values;
}

/// Loads of a round's positions come before their sums, its stores last.
Values StagedReduction::sweep(const Pass &pass, Value lower, Value upper, int64_t step,
                              unsigned unroll, llvm::function_ref<void(Value)> moveTo) {
  auto body = [&](ArrayRef<Value> positions, ValueRange sums) {
    SmallVector<Values> mapped, results;
    for (Value position : positions) {
      moveTo(position);
      for (Operation *op : pass.reductions)
        e->evaluateLanes(op->getOperand(0), e->spaceIndex);
    }
    for (Value position : positions) {
      moveTo(position);
      Values &operands = mapped.emplace_back(), &stores = results.emplace_back();
      for (Operation *op : pass.reductions)
        operands.push_back(e->mappedOperand(op, e->spaceIndex));
      for (unsigned number : pass.results)
        stores.push_back(e->evaluateLanes(yield->getOperand(number), e->spaceIndex));
    }
    for (auto [position, values] : llvm::zip_equal(positions, results)) {
      moveTo(position);
      for (auto [number, value] : llvm::zip_equal(pass.results, values))
        e->store(number, e->spaceIndex, value);
    }
    // The round's values in a tree, then one step of the sum.
    while (mapped.size() > 1) {
      size_t half = (mapped.size() + 1) / 2;
      for (size_t i = half; i < mapped.size(); ++i)
        mapped[i - half] = combineAll(pass, mapped[i - half], mapped[i]);
      mapped.resize(half);
    }
    return combineAll(pass, sums, mapped.front());
  };
  return stridedLoop(*e, lower, upper, step, unroll, identities(pass), body);
}

void StagedReduction::setTotals(const Pass &pass, ValueRange values) {
  for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
    current[op->getResult(0)] = e->finishReduction(op, value);
}

Value StagedReduction::loadPartial(Operation *op, const ElementIndex &offset) {
  return e->loadFrom(temporaryAt(*e, layout.partials.lookup(op)), stepType(op), offset);
}

void StagedReduction::storePartial(Operation *op, const ElementIndex &offset, Value value) {
  e->storeTo(temporaryAt(*e, layout.partials.lookup(op)), stepType(op), offset, value);
}

void StagedReduction::storeTotals(unsigned pass, ValueRange values) {
  for (auto [op, value] : llvm::zip_equal(s.passes[pass].reductions, values))
    if (auto place = layout.totals.find(op); place != layout.totals.end())
      e->storeTo(temporaryAt(*e, place->second), stepType(op),
                 e->linearize(e->keptIndex, keptSizes), value);
}

/// Made of finished totals.
void StagedReduction::storeKept() {
  e->spaceIndex.clear();
  e->spaceOffset.reset();
  Values values;
  for (unsigned number : s.keptResults)
    values.push_back(e->evaluateLanes(yield->getOperand(number), e->keptIndex));
  for (auto [number, value] : llvm::zip_equal(s.keptResults, values))
    e->store(number, e->keptIndex, value);
}

} // namespace trainc::codegen
