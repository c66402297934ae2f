// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The column template on the GPU: the vector axis is kept.
//
// Few rows: a thread does a vector of columns from the first row to the last, in all passes, and
// that for all coordinates of short axes along which the same inputs are read (phases). Many rows:
// a block is a tile of columns and rows, and several blocks share the rows of a tile of columns
// (StagedReduction.h).
//
// The order of a reduction: a thread's rows, in rounds of a few; the rows of the tile in a tree;
// then the parts, in the same way.

#include "Accesses.h"
#include "StagedReduction.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Rows that a thread does alone, and those where there are many columns.
constexpr int64_t kFewRows = 64, kManyColumns = 32768, kSomeRows = 1024;
/// Rows that are written out, taps of a pool maybe, as long as the code is not longer than this:
/// what a pass has read is in registers for the next one, and coordinates are known.
constexpr int64_t kWrittenOutRows = 16, kWrittenOutCost = 4096;
/// Phases of a thread, at most, as many as two axes of pools have whose windows move by 2 or 3; and
/// threads that must be left, a block for each multiprocessor.
constexpr int64_t kPhases = 9, kPhaseThreads = kTileBlocks / 4 * kTileThreads;
/// Rows of a part, at least, and how many times those of a tile: where there are few columns, the
/// GPU is full only with short parts, each of which is a chain of loads.
constexpr int64_t kPartRows = 16, kPartRounds = 2;
/// One part in so many may be added to a part for whole rounds.
constexpr int64_t kLongerPart = 16;
/// Columns of a tile, in vectors: a warp reads 512 bytes of a row. Totals are made of little data
/// in many blocks, most of whose threads have one part.
constexpr int64_t kSweepColumns = 32, kTotalColumns = 2;
/// Reductions whose values threads exchange at a time, each through shared memory of its own.
constexpr size_t kTogether = 3;

/// Depends on structure and sizes only: plan and map make the same.
struct ColumnShape {
  ColumnShape(FusionOp fusion, const Structure &s);

  unsigned lanes;
  /// Rows; vectors of the vector axis; positions of the other kept axes that threads share.
  DimAttr rows, vectors, outer;
  /// Kept axes that each thread does all of, and how many positions these are.
  SmallVector<int64_t> phases;
  int64_t phaseCount = 1;
  /// Serial: few rows. Written out: very few, and nothing of their shape is stored.
  bool serial, writtenOut;
  Tile sweep, total;
  /// Blocks that share the rows, and how many rows each has.
  DimAttr parts, partRows;

  DimAttr blocks(const Tile &tile) const { return outer * ceilDim(vectors, tile.columns); }

private:
  void choosePhases(const Structure &s);
  void roundParts(int64_t round);
  int64_t writtenOutCost(const Structure &s) const {
    return *rows.getConstant() * phaseCount * lanes * int64_t(std::max(1u, s.cost));
  }
};

} // namespace

ColumnShape::ColumnShape(FusionOp fusion, const Structure &s) {
  MLIRContext *context = fusion.getContext();
  DimAttr columns = s.space[s.vectorAxis];
  // Columns of a symbolic number cannot be cut into vectors.
  lanes = columns.getConstant() ? chooseLanes(fusion, s, columns) : 1;
  vectors = ceilDim(columns, lanes);
  rows = productOf(context, s.space, s.reduced);
  SmallVector<int64_t> others;
  for (int64_t axis : s.kept)
    if (axis != s.vectorAxis)
      others.push_back(axis);
  outer = productOf(context, s.space, others);

  auto known = rows.getConstant(), threads = (outer * vectors).getConstant();
  serial =
      known && (*known <= kFewRows || (*known <= kSomeRows && threads && *threads >= kManyColumns));
  writtenOut = serial && *known > 0 && *known <= kWrittenOutRows &&
               writtenOutCost(s) <= kWrittenOutCost &&
               llvm::all_of(s.passes, [](const Pass &pass) { return pass.results.empty(); });
  if (writtenOut)
    choosePhases(s);
  sweep = Tile::forColumns(vectors, kSweepColumns);
  total = Tile::forColumns(vectors, kTotalColumns);
  // As many parts as fill the GPU, none shorter than a few rounds. Not one block more: it would
  // come when all others are done.
  DimAttr most = floorDiv(DimAttr::constant(context, kTileBlocks), atLeastOne(blocks(sweep)));
  parts = atLeastOne(minDim(ceilDim(rows, std::max(kPartRows, kPartRounds * sweep.rows)), most));
  partRows = ceilDim(rows, parts);
  roundParts(int64_t(sweep.rows) * chooseUnroll(fusion, s, lanes));
}

/// Parts of whole rounds of a tile where these are hardly longer: rows that are left over go one by
/// one, each of them a wait for memory.
void ColumnShape::roundParts(int64_t round) {
  assert(round > 0 && "a tile has rows");
  // A length that a batch decides is no number here.
  auto known = partRows.getConstant();
  if (!known)
    return;
  const int64_t left = *known % round, more = round - left;
  if (left <= sweep.rows || more > *known / kLongerPart)
    return;
  partRows = DimAttr::constant(rows.getContext(), *known + more);
  parts = ceilDim(rows, partRows);
}

/// From the innermost axis on, as long as the code is not too long and the GPU full.
void ColumnShape::choosePhases(const Structure &s) {
  assert(writtenOut && "coordinates of phases are numbers in the code");
  auto threads = (outer * vectors).getConstant();
  for (int64_t axis : llvm::reverse(s.kept)) {
    auto size = s.space[axis].getConstant();
    if (axis >= s.vectorAxis || !size || *size < 2 || phaseCount * *size > kPhases ||
        writtenOutCost(s) * *size > kWrittenOutCost ||
        (threads && *threads / (phaseCount * *size) < kPhaseThreads) || readsAlong(s, axis))
      continue;
    phases.push_back(axis);
    phaseCount *= *size;
  }
  if (phases.empty())
    return;
  // What is left for threads to share.
  SmallVector<int64_t> others;
  for (int64_t axis : s.kept)
    if (axis != s.vectorAxis && !llvm::is_contained(phases, axis))
      others.push_back(axis);
  outer = productOf(rows.getContext(), s.space, others);
}

/// Few rows: one stage without partial results.
void planColumn(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  ColumnShape shape(fusion, s);
  plan.lanes = shape.lanes;
  plan.unroll = chooseUnroll(fusion, s, shape.lanes);
  if (shape.writtenOut)
    plan.unroll = *shape.rows.getConstant();
  if (shape.serial) {
    plan.stages = {{"", ceilDim(shape.outer * shape.vectors, kTileThreads), kTileThreads}};
    return;
  }
  planStages(ReductionStages(fusion, s, shape.parts), shape.blocks(shape.sweep) * shape.parts,
             shape.blocks(shape.total), plan);
}

namespace {

class ColumnMap final : StagedReduction {
public:
  explicit ColumnMap(GpuKernel &kernel, const ColumnShape &shape)
      : StagedReduction(kernel, shape.parts), shape(shape) {
    for (int64_t axis : s.kept)
      if (llvm::is_contained(shape.phases, axis))
        phaseSizes.push_back(s.space[axis]);
      else if (axis < s.vectorAxis)
        outerSizes.push_back(s.space[axis]);
  }
  void run() { shape.serial ? runSerial() : runStages(); }

private:
  void runSerial();
  void runStages();
  /// The thread's columns: `vector` of the vector axis at the position `outer` of the other kept
  /// axes, in one of the phases.
  void setColumns(Value outer, Value vector, int64_t phase = 0);
  /// The same from the block's number. Returns the number of the part.
  Value setTile(const Tile &tile, Value parts);
  void moveToRow(Value row) {
    setSpaceIndex(e->delinearize(row, outerReducedSizes),
                  e->keptIndex[outerSizes.size() + phaseSizes.size()]);
  }
  /// A thread's share of the partial results.
  Values combineParts(const Pass &pass, Value row, Value parts, const Tile &tile);
  Values combineTile(const Pass &pass, const Tile &tile, Values values);
  ElementIndex partialOffset(Value part) {
    ElementIndex place = e->linearize(e->keptIndex, keptSizes);
    return e->add(place, {e->mulIndex(part, e->productOf(keptSizes)), 0, {}});
  }

  const ColumnShape &shape;
  SmallVector<DimAttr> outerSizes, phaseSizes;
  /// Whether the thread has columns of its own; null: all do.
  Value active;
  llvm::DenseMap<std::pair<Type, size_t>, Value> arrays;
};

} // namespace

void ColumnMap::setColumns(Value outer, Value vector, int64_t phase) {
  assert(phase < shape.phaseCount && "one of the phases");
  // Both in the order of the space.
  Index outerIndex = e->delinearize(outer, outerSizes);
  Index phaseIndex = e->delinearize(e->constantIndex(phase), phaseSizes);
  auto *nextOuter = outerIndex.begin(), *nextPhase = phaseIndex.begin();
  e->keptIndex.clear();
  for (int64_t axis : s.kept)
    if (llvm::is_contained(shape.phases, axis))
      e->keptIndex.push_back(*nextPhase++);
    else if (axis < s.vectorAxis)
      e->keptIndex.push_back(*nextOuter++);
  e->keptIndex.push_back(vectorAt(*e, vector, shape.lanes));
  e->keptIndex.resize(s.kept.size(), e->constant(0));
}

/// Each thread has its columns for all passes: totals stay in registers.
void ColumnMap::runSerial() {
  begin(0);
  e->setLanes(shape.lanes);
  Value one = e->constantIndex(1), rows = e->dim(shape.rows), vectors = e->dim(shape.vectors);
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kTileThreads)), e->thread());
  DimAttr count = shape.outer * shape.vectors;
  // Threads beyond the end do the last columns as well, without storing, and without rows where
  // there is a loop over them.
  if (auto known = count.getConstant(); !known || *known % kTileThreads != 0) {
    Value end = e->mulIndex(e->productOf(outerSizes), vectors);
    active = e->lessIndex(number, end);
    number = e->minIndex(number, e->subIndex(end, one));
    if (!shape.writtenOut)
      rows = e->selectIndex(active, rows, e->constantIndex(0));
    e->setActive(active);
  }
  Value outer = e->divIndex(number, vectors), vector = e->remIndex(number, vectors);
  // Not more at once than there are rows.
  unsigned unroll = kernel.plan.unroll;
  while (unroll > 1 && unroll > *shape.rows.getConstant())
    unroll /= 2;
  // What phases read is read once, and all of it before the first store.
  SmallVector<Totals> totals;
  for (int64_t phase = 0; phase < shape.phaseCount; ++phase) {
    setColumns(outer, vector, phase);
    for (auto [index, pass] : llvm::enumerate(s.passes)) {
      e->pass = index;
      setTotals(pass, sweep(pass, e->constantIndex(0), rows, 1, unroll,
                            [&](Value row) { moveToRow(row); }));
    }
    totals.push_back(takeTotals());
  }
  e->pass = s.passes.size();
  if (active)
    e->openIf(active);
  for (int64_t phase = 0; phase < shape.phaseCount; ++phase) {
    setColumns(outer, vector, phase);
    putTotals(std::move(totals[phase]));
    storeKept();
  }
  if (active)
    e->closeIf();
  e->finish();
}

/// Blocks are numbered by columns, then parts, then outer positions.
Value ColumnMap::setTile(const Tile &tile, Value parts) {
  Value columns = e->constantIndex(tile.columns), vectors = e->dim(shape.vectors);
  Value blocks = e->dim(ceilDim(shape.vectors, tile.columns));
  Value rest = e->divIndex(e->block(), blocks), block = e->remIndex(e->block(), blocks);
  Value vector = e->addIndex(e->mulIndex(block, columns), e->remIndex(e->thread(), columns));
  active = {};
  if (auto known = shape.vectors.getConstant(); !known || *known % tile.columns != 0) {
    active = e->lessIndex(vector, vectors);
    vector = e->minIndex(vector, e->subIndex(vectors, e->constantIndex(1)));
    e->setActive(active);
  }
  setColumns(e->divIndex(rest, parts), vector);
  return e->remIndex(rest, parts);
}

/// A few at a time, so that shared memory is bounded; arrays are reused from round to round.
Values ColumnMap::combineTile(const Pass &pass, const Tile &tile, Values values) {
  Values totals;
  for (size_t first = 0; first < values.size(); first += kTogether) {
    SmallVector<TileValue> list;
    for (size_t i = first; i < std::min(first + kTogether, values.size()); ++i) {
      Operation *op = pass.reductions[i];
      Type type = stepType(op);
      Value &array = arrays[{type, i - first}];
      if (!array)
        array = e->shared(type, kTileThreads * shape.lanes);
      list.push_back(
          {array, type, values[i], [this, op](Value x, Value y) { return e->combine(op, x, y); }});
    }
    llvm::append_range(totals, combineRows(*e, tile, list));
  }
  return totals;
}

/// In ascending order of the parts, several loads ahead.
Values ColumnMap::combineParts(const Pass &pass, Value row, Value parts, const Tile &tile) {
  auto body = [&](ArrayRef<Value> at, ValueRange sums) {
    SmallVector<Values> loaded(at.size());
    for (auto [position, list] : llvm::zip_equal(at, loaded))
      for (Operation *op : pass.reductions)
        list.push_back(loadPartial(op, partialOffset(position)));
    Values result(sums);
    for (const Values &list : loaded)
      result = combineAll(pass, result, list);
    return result;
  };
  return stridedLoop(*e, row, parts, tile.rows, 4, identities(pass), body);
}

/// Sweeps leave partial results, totals combine them: two launches for each reducing pass.
void ColumnMap::runStages() {
  for (const ReductionStages::Stage &stage : layout.stages) {
    const Pass &pass = s.passes[stage.pass];
    begin(stage.pass);
    // Shared arrays are a stage's own.
    arrays.clear();
    e->setLanes(shape.lanes);
    const Tile &tile = stage.sweeps ? shape.sweep : shape.total;
    Value parts = e->dim(shape.parts), zero = e->constantIndex(0), one = e->constantIndex(1);
    Value part = setTile(tile, stage.sweeps ? parts : one);
    Value row = e->divIndex(e->thread(), e->constantIndex(tile.columns)), end;
    Values values;
    if (stage.sweeps) {
      Value rows = e->dim(shape.rows), count = e->dim(shape.partRows);
      Value first = e->mulIndex(part, count);
      end = e->minIndex(e->addIndex(first, count), rows);
      // Threads without columns sum nothing.
      if (active)
        end = e->selectIndex(active, end, zero);
      values = sweep(pass, e->addIndex(first, row), end, tile.rows, kernel.plan.unroll,
                     [&](Value at) { moveToRow(at); });
    } else {
      values = combineParts(pass, row, parts, tile);
    }
    values = combineTile(pass, tile, values);
    if (!pass.reductions.empty()) {
      setTotals(pass, values);
      // The first row of the tile has the result.
      Value mine = e->lessIndex(row, one);
      e->openIf(active ? e->selectIndex(mine, active, mine) : mine);
      if (!stage.totals)
        for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
          storePartial(op, partialOffset(part), value);
      else
        storeTotals(stage.pass, values);
      if (stage.totals && stage.pass == layout.lastReducing)
        storeKept();
      e->closeIf();
    }
    e->finish();
  }
}

void mapColumn(GpuKernel &kernel) {
  ColumnShape shape(kernel.fusion, kernel.structure);
  ColumnMap(kernel, shape).run();
}

} // namespace trainc::codegen
