// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of rows, and what combines their sums.

#include "ColumnStages.h"
#include "ReductionMap.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Rows of a part: two levels of the cascade.
constexpr int64_t kPartRows = kBlock * kBlock;
/// Rows from which on parts are worth a second launch; where their number is a symbol's multiple,
/// the factor.
constexpr int64_t kManyRows = 1024, kManyRowsOfSymbol = 32;
/// Columns of an item, at most, and of one that combines parts.
constexpr int64_t kSweepColumns = 256, kTotalColumns = 32;

DimAttr rowsOf(MLIRContext *context, const Structure &s) {
  return productOf(context, s.space, s.reduced);
}

} // namespace

/// Where one block of columns after the other leaves threads idle: no axis but that of the vectors
/// is kept, and there are many rows.
bool ColumnStages::areMade(const Structure &s) {
  if (s.kind != Template::Column)
    return false;
  for (int64_t axis : s.kept)
    if (axis != s.vectorAxis && !s.space[axis].isConstant(1))
      return false;
  int64_t rows = 1;
  bool known = true;
  for (int64_t axis : s.reduced) {
    std::optional<int64_t> size = s.space[axis].getConstant();
    known &= size.has_value();
    rows *= size.value_or(1);
  }
  return rows >= (known ? kManyRows : kManyRowsOfSymbol);
}

ColumnStages::ColumnStages(FusionOp fusion, const Structure &s)
    : ReductionStages(fusion, s, ceilDim(rowsOf(fusion.getContext(), s), kPartRows)),
      rows(rowsOf(fusion.getContext(), s)), sweepColumns(kSweepColumns) {
  DimAttr columns = s.space[s.vectorAxis];
  if (std::optional<int64_t> known = columns.getConstant())
    sweepColumns = std::min(kSweepColumns, int64_t(llvm::alignTo(*known, kLanes)));
  for (const Pass &pass : s.passes)
    for (Value value : pass.keptStashes)
      keptStashes[value] = temporary.add(columns, getElementType(value));
}

/// Sweeps have an item for each part and block of columns, what combines parts one for each block.
Launch ColumnStages::plan(const Stage &stage, const Structure &s) const {
  DimAttr columns = s.space[s.vectorAxis], parts = ceilDim(rows, kPartRows);
  MLIRContext *context = columns.getContext();
  Launch launch;
  if (!stage.sweeps) {
    launch.work = ceilDim(columns, kTotalColumns);
    launch.scratchBytes = DimAttr::constant(context, 0);
    launch.grain = chooseGrain(double(parts.getConstant().value_or(kPartRows)) * kTotalColumns, s);
    return launch;
  }
  launch.work = ceilDim(columns, sweepColumns) * parts;
  const size_t arrays = 2 * s.passes[stage.pass].reductions.size();
  launch.scratchBytes = DimAttr::constant(context, int64_t(arrays) * sweepColumns * 8);
  launch.grain = chooseGrain(double(kPartRows * sweepColumns), s);
  return launch;
}

namespace {

class ColumnStage final : ColumnSums {
public:
  ColumnStage(CpuEmitter &e, const ColumnStages &stages, const ReductionStages::Stage &stage)
      : ColumnSums(e, stage.sweeps ? stages.sweepColumns : kTotalColumns), stages(stages),
        pass(s.passes[stage.pass]), stage(stage) {
    for (auto [number, earlier] : llvm::enumerate(s.passes))
      for (Operation *op : earlier.reductions)
        reducedIn[op->getResult(0)] = number;
    for (auto [number, earlier] : llvm::enumerate(s.passes))
      for (Value value : earlier.keptStashes)
        reducedIn[value] = number;
  }

  void run() {
    e.setLanes(lanesFor(s.space[s.vectorAxis]));
    e.resident = [this](Value value, ArrayRef<ElementIndex> index) { return lookUp(value, index); };
    e.pass = stage.pass;
    Value item = e.openItems();
    stage.sweeps ? sweep(item) : combineParts(item);
    e.closeItems();
  }

private:
  void sweep(Value item);
  void combineParts(Value item);
  Value lookUp(Value value, ArrayRef<ElementIndex> index);
  /// Position among the columns; of a part's sums.
  ElementIndex column() const { return e.keptIndex[vectorPosition]; }
  ElementIndex ofPart(Value part) {
    return e.add(column(), {e.mulIndex(part, e.dim(s.space[s.vectorAxis])), 0, {}});
  }

  const ColumnStages &stages;
  const Pass &pass;
  const ReductionStages::Stage stage;
  /// Of totals and what is made of them, the pass that does.
  llvm::DenseMap<Value, unsigned> reducedIn;
  /// What the stage has made.
  llvm::DenseMap<Value, Value> made;
};

} // namespace

/// What this stage has made, or what an earlier one has left.
Value ColumnStage::lookUp(Value value, ArrayRef<ElementIndex> index) {
  auto reduced = reducedIn.find(value);
  if (reduced == reducedIn.end() || !KernelEmitter::same(index, e.keptIndex))
    return storedResult(value, index);
  if (Value here = made.lookup(value))
    return here;
  if (reduced->second >= stage.pass)
    return {};
  assert((stages.keptStashes.contains(value) || stages.totals.contains(value.getDefiningOp())) &&
         "an earlier stage has left it");
  auto stash = stages.keptStashes.find(value);
  DimAttr place = stash != stages.keptStashes.end() ? stash->second
                                                    : stages.totals.lookup(value.getDefiningOp());
  return e.loadFrom(e.temporary(place), getElementType(value), column());
}

/// Items are blocks of columns of one part, then those of the next one.
void ColumnStage::sweep(Value item) {
  Value columns = e.dim(s.space[s.vectorAxis]);
  Value blocks = e.divIndex(e.addIndex(columns, e.constantIndex(blockColumns - 1)),
                            e.constantIndex(blockColumns));
  // Neighbours in the same rows are items behind each other: they share lines of the cache.
  Value part = e.divIndex(item, blocks), size = e.constantIndex(kPartRows);
  levels = 2;
  movesUp.push_back({});
  for (Operation *op : pass.reductions)
    makeAccumulators(op);
  setBlock(e.remIndex(item, blocks));
  Value begin = e.mulIndex(part, size);
  Value end = e.minIndex(e.addIndex(begin, size), outerReducedCount);
  if (pass.reductions.empty()) {
    rows(pass, begin, end, 0);
    return;
  }
  for (unsigned level = 0; level < levels; ++level)
    fill(pass, level);
  rows(pass, begin, end, levels - 1);
  forEachColumn([&](const ElementIndex &) {
    for (Operation *op : pass.reductions)
      e.storeTo(e.temporary(stages.partials.lookup(op)), getElementType(op->getResult(0)),
                ofPart(part), loadArray(accumulators[op].back()));
  });
}

/// The upper levels of the cascade, in registers.
void ColumnStage::combineParts(Value item) {
  static_assert(kColumnLevels == 5 && kPartRows == kBlock * kBlock, "three levels are left");
  setBlock(item);
  Value parts = e.divIndex(e.addIndex(outerReducedCount, e.constantIndex(kPartRows - 1)),
                           e.constantIndex(kPartRows));
  forEachColumn([&](const ElementIndex &) {
    made.clear();
    e.spaceIndex.clear();
    Values sums =
        cascade(pass, e.constantIndex(0), parts, 1, std::nullopt, {kBlock, kBlock},
                identities(pass), [&](Value part, ValueRange accumulators) {
                  Values loaded;
                  for (Operation *op : pass.reductions)
                    loaded.push_back(e.loadFrom(e.temporary(stages.partials.lookup(op)),
                                                getElementType(op->getResult(0)), ofPart(part)));
                  return combineAll(pass, accumulators, loaded);
                });
    for (auto [op, sum] : llvm::zip_equal(pass.reductions, sums)) {
      made[op->getResult(0)] = sum;
      if (auto place = stages.totals.find(op); place != stages.totals.end())
        e.storeTo(e.temporary(place->second), getElementType(op->getResult(0)), column(), sum);
    }
    // What the next passes read of a column is made here once, not in each of their items.
    for (Value value : pass.keptStashes) {
      Value lanes = e.evaluateLanes(value, e.keptIndex);
      e.storeTo(e.temporary(stages.keptStashes.lookup(value)), getElementType(value), column(),
                lanes);
      made[value] = lanes;
    }
    // Results of a column may need the sums of all passes.
    if (stage.pass != stages.lastReducing)
      return;
    Values values;
    for (unsigned result : s.keptResults)
      values.push_back(e.evaluateLanes(yield->getOperand(result), e.keptIndex));
    for (auto [result, value] : llvm::zip_equal(s.keptResults, values))
      e.store(result, e.keptIndex, value);
  });
}

void mapColumnStage(CpuEmitter &emitter, const ColumnStages &stages,
                    const ReductionStages::Stage &stage) {
  ColumnStage(emitter, stages, stage).run();
}

} // namespace trainc::codegen
