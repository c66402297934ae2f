// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many blocks share the rows, and the stage that adds up what they leave.

#include "ColumnSums.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// All blocks are at work at once, since each does as much as the others: those of 132
/// multiprocessors, with threads of up to 102 registers.
static constexpr int64_t kProcessors = 132, kProcessorThreads = 640;
/// Rounds of a block, where that leaves this many blocks: a block's sums are worth as many rows.
static constexpr int64_t kRounds = 4, kFewBlocks = 264;
/// Columns of a tile in the second stage, in vectors: little data in many blocks.
static constexpr int64_t kTotalColumns = 2;
/// Sums whose values threads exchange at a time, each through shared memory of its own.
static constexpr size_t kTogether = 3;

Type ColumnSums::stepType(Operation *reduction) {
  return computeType(getElementType(reduction->getResult(0)));
}

ColumnSums::ColumnSums(FusionOp fusion, const Structure &s, const GpuPlan &plan)
    : length(productOf(fusion.getContext(), s.space, s.reduced)) {
  auto constant = [&](int64_t value) { return DimAttr::constant(fusion.getContext(), value); };
  assert(length.getConstant() && "the structure has no sums down columns of unknown number");
  assert(*length.getConstant() % plan.lanes == 0 && "vectors divide the row");
  vectors = *length.getConstant() / plan.lanes;
  total = Tile::forColumns(constant(vectors), kTotalColumns);
  rounds = ceilDim(productOf(fusion.getContext(), s.space, s.kept), plan.blockRows);
  int64_t beside = std::max<int64_t>(1, kProcessorThreads / (plan.rowThreads * plan.blockRows));
  DimAttr most = constant(kProcessors * beside);
  // Few rows are spread over many blocks: each of these is quick, and their sums stay in the cache.
  DimAttr few = minDim(rounds, constant(kFewBlocks));
  parts = atLeastOne(minDim(maxDim(ceilDim(rounds, kRounds), few), most));
  for (Operation *op : s.columnSums)
    partials[op] = temporary.add(parts * length, stepType(op));
}

ElementIndex ColumnSums::partialOffset(GpuEmitter &e, Value part, Value vector) const {
  ElementIndex column = vectorAt(e, vector, e.getLanes());
  return e.add({e.mulIndex(part, e.dim(length)), 0, {}}, column);
}

void planColumnSums(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  ColumnSums sums(fusion, s, plan);
  DimAttr blocks = DimAttr::constant(fusion.getContext(),
                                     (sums.vectors + sums.total.columns - 1) / sums.total.columns);
  plan.stages = {{"", sums.parts, plan.rowThreads * plan.blockRows},
                 {"_columns", blocks, kTileThreads}};
  plan.temporaryBytes = sums.temporary.bytes;
}

/// The thread's share of the blocks' sums, in ascending order, several loads ahead.
static Values combineParts(GpuEmitter &e, const ColumnSums &sums, ArrayRef<Operation *> ops,
                           Value row, Value vector) {
  Values none;
  for (Operation *op : ops)
    none.push_back(e.identity(op, e.getLanes()));
  auto body = [&](ArrayRef<Value> at, ValueRange carried) {
    SmallVector<Values> loaded(at.size());
    for (auto [part, list] : llvm::zip_equal(at, loaded))
      for (Operation *op : ops)
        list.push_back(e.loadFrom(temporaryAt(e, sums.partials.lookup(op)),
                                  ColumnSums::stepType(op), sums.partialOffset(e, part, vector)));
    Values result(carried);
    for (const Values &list : loaded)
      for (auto [op, total, value] : llvm::zip_equal(ops, result, list))
        total = e.combine(op, total, value);
    return result;
  };
  return stridedLoop(e, row, e.dim(sums.parts), sums.total.rows, 4, none, body);
}

void mapColumnTotals(GpuKernel &kernel) {
  const Structure &s = kernel.structure;
  ColumnSums sums(kernel.fusion, s, kernel.plan);
  const Tile &tile = sums.total;
  GpuEmitter &e = kernel.nextStage();
  const unsigned lanes = kernel.plan.lanes;
  e.setLanes(lanes);
  // Behind all passes over rows.
  e.pass = s.passes.size() + 1;
  Value columns = e.constantIndex(tile.columns);
  Value row = e.divIndex(e.thread(), columns);
  Value vector = e.addIndex(e.mulIndex(e.block(), columns), e.remIndex(e.thread(), columns));
  Value stores = e.lessIndex(row, e.constantIndex(1));
  // Threads beyond the last column do it once more, and store nothing: all meet in combineRows.
  if (sums.vectors % tile.columns != 0) {
    Value active = e.lessIndex(vector, e.constantIndex(sums.vectors));
    vector = e.minIndex(vector, e.constantIndex(sums.vectors - 1));
    e.setActive(active);
    stores = e.selectIndex(stores, active, stores);
  }
  e.columnIndex = {vectorAt(e, vector, lanes)};

  ArrayRef<Operation *> all = s.columnSums;
  Values values = combineParts(e, sums, all, row, vector);
  llvm::DenseMap<std::pair<Type, size_t>, Value> arrays;
  llvm::DenseMap<Value, Value> totals;
  for (size_t first = 0; first < all.size(); first += kTogether) {
    SmallVector<TileValue> list;
    ArrayRef<Operation *> ops = all.slice(first, std::min(kTogether, all.size() - first));
    for (auto [i, op] : llvm::enumerate(ops)) {
      Type type = ColumnSums::stepType(op);
      Value &array = arrays[{type, i}];
      if (!array)
        array = e.shared(type, kTileThreads * lanes);
      list.push_back({array, type, values[first + i],
                      [&e, op = op](Value x, Value y) { return e.combine(op, x, y); }});
    }
    for (auto [op, total] : llvm::zip_equal(ops, combineRows(e, tile, list)))
      totals[op->getResult(0)] = e.finishReduction(op, total);
  }
  e.resident = [&](Value value, ArrayRef<ElementIndex> index) {
    return KernelEmitter::same(index, e.columnIndex) ? totals.lookup(value) : Value();
  };
  // Made of the totals, and of what else has an element a column: a parameter that is updated, or
  // the gradient so far.
  e.openIf(stores);
  Values results;
  Operation *yield = kernel.fusion.getBody().front().getTerminator();
  for (unsigned number : s.columnResults)
    results.push_back(e.evaluateLanes(yield->getOperand(number), e.columnIndex));
  for (auto [number, value] : llvm::zip_equal(s.columnResults, results))
    e.store(number, e.columnIndex, value);
  e.closeIf();
  e.finish();
  e.resident = nullptr;
}

} // namespace trainc::codegen
