// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatter on the GPU.
//
// Rows (embedding gradients) are summed in sorted order: equal indices lie side by side, earlier
// updates first. In stages:
//   sort    zeros in the table; chunks of the indices sorted, an element's place being the number
//           of elements before it
//   merge   an element's place in all: that in its chunk and, by binary search, in all others.
//           Of many chunks in two stages, first within groups of them: in one, the work would grow
//           with the square of the updates
//   sum     segments of the sorted updates; a run of equal indices inside a segment goes to the
//           table, the part of a run that crosses a border to the temporary buffer
//   join    parts of runs that cross borders
// The order of additions follows from the indices alone, and no step is slow where most indices are
// the same. Where the kernel goes on with the sums, sum and join store what it computes of them,
// and instead of zeros in the table a last stage does so for rows without an update, so that every
// element is stored once and may be where another operand was. Where it is, and that operand is
// what the kernel makes of no update, as where a gradient is added to another one, nothing is left
// to do.
//
// Rows of which no two meet are stored.

#include "Scatter.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Indices sorted by one block, and updates summed by one thread.
constexpr int64_t kChunk = kTileThreads, kSegment = 32;
/// Chunks that are merged before all are.
constexpr int64_t kGroup = 32;
/// Behind all indices; one more must still be a number.
constexpr int64_t kNoKey = INT32_MAX - 1;
/// Columns of a tile that joins parts, in vectors.
constexpr int64_t kJoinColumns = 32;

/// Runs of sorted updates, one behind the other: their keys and numbers in the temporary buffer.
struct SortedRuns {
  DimAttr keys, updates;
  int64_t length = 0;
};

/// How a scatter of rows is laid out.
struct ScatterShape {
  ScatterShape(FusionOp fusion, const Structure &s);

  ScatterOpInterface scatter;
  unsigned lanes = 1;
  Type element, sum;
  SmallVector<DimAttr> indexSizes;
  /// Axes of the result but the scattered one; the last in vectors.
  SmallVector<DimAttr> columnSizes;
  /// Updates; chunks and segments of them; vectors of an update and of the table.
  DimAttr updates, chunks, segments, columns, vectors;
  Tile sumTile, joinTile;
  /// What the stages of the merge begin with: chunks, and groups of them where there may be more
  /// than one group.
  SmallVector<SortedRuns, 2> runs;
  /// Byte offsets: all keys and updates sorted, with a place before and one behind; partial sums.
  DimAttr keys, order, partials;
  TemporaryLayout temporary;
};

} // namespace

/// Elements of a vector along the last axis of the result.
static unsigned chooseScatterLanes(const Structure &s, int64_t axis, Type element) {
  auto last = s.space.back().getConstant();
  if (!last || axis + 1 == int64_t(s.space.size()))
    return 1;
  int64_t lanes = 16 / getElementBytes(element);
  while (*last % lanes != 0)
    lanes /= 2;
  return lanes;
}

/// Offsets into the temporary buffer are size expressions: plan and map compute the same ones.
ScatterShape::ScatterShape(FusionOp fusion, const Structure &s)
    : scatter(cast<ScatterOpInterface>(s.standalone)) {
  MLIRContext *context = fusion.getContext();
  auto constant = [&](int64_t value) { return DimAttr::constant(context, value); };
  int64_t axis = scatter.getScatterAxis();
  element = getElementType(s.standalone->getResult(0));
  sum = computeType(element);
  lanes = chooseScatterLanes(s, axis, element);
  indexSizes = getDims(scatter.getScatterIndices().get());
  columnSizes = s.space;
  columnSizes.back() = ceilDim(columnSizes.back(), lanes);
  vectors = product(context, columnSizes);
  columnSizes.erase(columnSizes.begin() + axis);
  columns = product(context, columnSizes);
  updates = product(context, indexSizes);
  const bool grouped = updates.getConstant().value_or(INT64_MAX) > kGroup * kChunk;
  // Groups are whole: places behind the last update have keys behind all others.
  chunks =
      grouped ? ceilDim(updates, kGroup * kChunk) * constant(kGroup) : ceilDim(updates, kChunk);
  segments = ceilDim(updates, kSegment);
  sumTile = Tile::forColumns(columns, kTileThreads);
  joinTile = Tile::forColumns(columns, kJoinColumns);

  Type i32 = IntegerType::get(context, 32);
  const int64_t lengths[] = {kChunk, kGroup * kChunk};
  for (int64_t length : ArrayRef(lengths).take_front(grouped ? 2 : 1)) {
    SortedRuns &level = runs.emplace_back();
    level.keys = temporary.add(chunks * constant(kChunk), i32);
    level.updates = temporary.add(chunks * constant(kChunk), i32);
    level.length = length;
  }
  keys = temporary.add(updates + constant(2), i32);
  order = temporary.add(updates, i32);
  partials = temporary.add(segments * constant(2) * columns * constant(lanes), sum);
}

void planScatter(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  auto scatter = cast<ScatterOpInterface>(s.standalone);
  if (!scatter.isRowScatter())
    return planElementScatter(fusion, s, plan);
  if (scatter.hasUniqueIndices()) {
    MLIRContext *context = fusion.getContext();
    DimAttr updates = product(context, getDims(scatter.getScatterUpdates().get()));
    // Zeros first, as rows without an update stay so; then each update to its own row.
    plan.stages = {
        {"_clear", ceilDim(product(context, s.space), kTileThreads * kCleared), kTileThreads},
        {"_store", ceilDim(updates, kTileThreads), kTileThreads}};
    return;
  }
  ScatterShape shape(fusion, s);
  plan.lanes = shape.lanes;
  auto tiles = [&](DimAttr segments, const Tile &tile) {
    return segments * ceilDim(shape.columns, tile.columns);
  };
  DimAttr shares = ceilDim(shape.vectors, kTileThreads * kCleared);
  // Zeros are written by the blocks that sort, or by more of them where the table is large.
  plan.stages = {
      {"_sort", s.hasEpilogue ? shape.chunks : maxDim(shares, shape.chunks), kTileThreads},
      {"_merge", shape.chunks, kTileThreads},
      {"_sum", tiles(ceilDim(shape.segments, shape.sumTile.rows), shape.sumTile), kTileThreads},
      {"_join", tiles(shape.segments, shape.joinTile), kTileThreads}};
  if (shape.runs.size() > 1)
    plan.stages.insert(plan.stages.begin() + 1, {"_group", shape.chunks, kTileThreads});
  if (s.hasEpilogue)
    plan.stages.push_back({"_rest", shares, kTileThreads});
  plan.temporaryBytes = shape.temporary.bytes;
}

//===----------------------------------------------------------------------===//
// What both kinds need
//===----------------------------------------------------------------------===//

/// Calls `body` for the vectors of the block's share of the result.
static void forEachOfShare(GpuEmitter &e, Value vectors, unsigned unroll,
                           llvm::function_ref<void(Value)> body) {
  Value share = e.constantIndex(kTileThreads * kCleared);
  Value first = e.mulIndex(e.block(), share);
  Value end = e.minIndex(e.addIndex(first, share), vectors);
  stridedLoop(e, e.addIndex(first, e.thread()), end, kTileThreads, unroll, {},
              [&](ArrayRef<Value> positions, ValueRange) {
                llvm::for_each(positions, body);
                return Values();
              });
}

void clearArray(GpuEmitter &e, Value array, Type element, Value vectors, unsigned lanes) {
  e.setLanes(lanes);
  Value zero = e.zero(element);
  forEachOfShare(e, vectors, /*unroll=*/4, [&](Value position) {
    e.storeTo(array, element, vectorAt(e, position, lanes), zero);
  });
}

/// Zeros in the block's share of the result.
static void clearResult(GpuEmitter &e, Value vectors, unsigned lanes) {
  Type element = getElementTypeOrSelf(e.fusion.getResult(0).getType());
  clearArray(e, e.buffer(e.fusion.getInputs().size()), element, vectors, lanes);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {

class RowScatter {
public:
  explicit RowScatter(GpuKernel &kernel)
      : kernel(kernel), s(kernel.structure), op(s.standalone), shape(kernel.fusion, s),
        axis(shape.scatter.getScatterAxis()), i32(IntegerType::get(op->getContext(), 32)) {}

  /// The stages in the order of planScatter.
  void run() {
    sort();
    for (size_t level = 0; level < shape.runs.size(); ++level)
      merge(level);
    sum();
    join();
    if (s.hasEpilogue)
      storeRest();
  }

private:
  void sort();
  void merge(size_t level);
  void sum();
  void join();
  void storeRest();

  /// The columns that a tile's thread has; sets `active` where there may be none.
  void setColumns(const Tile &tile, Value block);
  /// Coordinates of the thread's columns in the table's row.
  Index tableIndex(Value row);
  ElementIndex partialOffset(Value slot);
  /// Stores what the kernel makes of the updates' sum.
  void store(const Index &index, Value sum);
  /// The largest number up to `bound` for which a condition holds that, where it does, holds for
  /// all smaller ones, too.
  Value search(Value bound, llvm::function_ref<Value(Value)> holds);
  Value vectorsOfTable() {
    return e->mulIndex(e->dim(s.space[axis]), e->productOf(shape.columnSizes));
  }

  Value number(DimAttr place, Value position) {
    return e->loadFrom(temporaryAt(*e, place), i32, {position, 0, {}});
  }
  void setNumber(DimAttr place, Value position, Value value) {
    e->storeTo(temporaryAt(*e, place), i32, {position, 0, {}}, value);
  }
  /// Key of a sorted update; of the one before it, with an offset of -1, and so on.
  Value keyAt(Value position, int64_t offset = 0) {
    return number(shape.keys, e->addIndex(position, e->constantIndex(offset + 1)));
  }
  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(e->builder(), e->loc(), value, 32);
  }
  Value toNumber(Value index) {
    return arith::IndexCastOp::create(e->builder(), e->loc(), i32, index);
  }
  Value toIndex(Value number) {
    return arith::IndexCastOp::create(e->builder(), e->loc(), e->builder().getIndexType(), number);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(e->builder(), e->loc(), predicate, x, y);
  }
  Value both(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::AndIOp::create(e->builder(), e->loc(), x, y);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(e->builder(), op->getLoc(), x, y); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(e->builder(), e->loc(), condition, x, y);
  }
  Value countBelow(const SortedRuns &runs, Value run, Value limit);
  /// Lanes, and what stands for the sum, are the same in all stages.
  void nextStage() {
    e = &kernel.nextStage();
    e->setLanes(shape.lanes);
    e->resident = [this](Value value, ArrayRef<ElementIndex> index) {
      bool isSum = value == op->getResult(0) && KernelEmitter::same(index, e->spaceIndex);
      return isSum ? total : Value();
    };
    active = {};
  }

  GpuKernel &kernel;
  const Structure &s;
  Operation *op;
  ScatterShape shape;
  int64_t axis;
  Type i32;
  GpuEmitter *e = nullptr;
  Value column, active, total;
  Index columnIndex;
};

} // namespace

void RowScatter::sort() {
  nextStage();
  if (!s.hasEpilogue)
    clearResult(*e, vectorsOfTable(), shape.lanes);
  OpBuilder &b = e->builder();
  e->openIf(e->lessIndex(e->block(), e->dim(shape.chunks)));
  Value count = e->dim(shape.updates);
  Value update = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kChunk)), e->thread());
  Value isUpdate = e->lessIndex(update, count);
  Value at = e->minIndex(update, e->subIndex(count, e->constantIndex(1)));
  e->setActive(isUpdate);
  Value data =
      e->evaluate(shape.scatter.getScatterIndices().get(), e->delinearize(at, shape.indexSizes));
  ElementIndex row = e->checkedIndex(op, data, s.space[axis]);
  e->setActive({});
  // Places behind the last update sort behind all others.
  Value key = select(isUpdate, toNumber(row.base), constant(kNoKey));
  Value chunk = e->shared(i32, kChunk);
  e->storeTo(chunk, i32, {e->thread(), 0, {}}, key);
  e->syncBlock();

  // The elements of the chunk before this one.
  constexpr int64_t width = 4;
  auto type = VectorType::get(width, i32);
  Value me = toNumber(e->thread()), next = arith::AddIOp::create(b, e->loc(), key, constant(1));
  auto loop = e->openLoop(e->constantIndex(0), e->constantIndex(kChunk), e->constantIndex(width),
                          constant(0));
  Value pointer = LLVM::GEPOp::create(
      b, e->loc(), chunk.getType(), i32, chunk,
      ValueRange{arith::IndexCastOp::create(b, e->loc(), b.getI64Type(), loop.getInductionVar())});
  Value keys = LLVM::LoadOp::create(b, e->loc(), type, pointer, 16);
  Value first = toNumber(loop.getInductionVar()), before = loop.getRegionIterArgs()[0];
  for (int64_t i = 0; i < width; ++i) {
    Value other = vector::ExtractOp::create(b, e->loc(), keys, ArrayRef<int64_t>{i});
    Value place = arith::AddIOp::create(b, e->loc(), first, constant(i));
    // Equal keys before this place count, those behind it do not: the sort is stable.
    Value limit = select(compare(arith::CmpIPredicate::slt, place, me), next, key);
    Value less = compare(arith::CmpIPredicate::slt, other, limit);
    before =
        arith::AddIOp::create(b, e->loc(), before, arith::ExtUIOp::create(b, e->loc(), i32, less));
  }
  Value rank = toIndex(e->closeLoop(loop, before)[0]);
  Value place = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kChunk)), rank);
  setNumber(shape.runs[0].keys, place, key);
  setNumber(shape.runs[0].updates, place, toNumber(update));
  e->closeIf();
  e->finish();
}

/// Elements of a run with keys less than `limit`.
Value RowScatter::countBelow(const SortedRuns &runs, Value run, Value limit) {
  Value base = e->mulIndex(run, e->constantIndex(runs.length)), found = e->constantIndex(0);
  auto isLess = [&](Value place) {
    return compare(arith::CmpIPredicate::slt, number(runs.keys, e->addIndex(base, place)), limit);
  };
  // Binary search over a run, whose length is a power of two.
  for (int64_t step = runs.length / 2; step >= 1; step /= 2) {
    Value further = e->addIndex(found, e->constantIndex(step));
    found = select(isLess(e->addIndex(found, e->constantIndex(step - 1))), further, found);
  }
  return select(isLess(found), e->addIndex(found, e->constantIndex(1)), found);
}

/// Merges the runs of `level`: to those of the next one, each of which is made of kGroup runs, or
/// of all of them to all updates in order.
void RowScatter::merge(size_t level) {
  nextStage();
  const SortedRuns &runs = shape.runs[level];
  const SortedRuns *next = level + 1 < shape.runs.size() ? &shape.runs[level + 1] : nullptr;
  Value zero = e->constantIndex(0), one = e->constantIndex(1);
  Value mine = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kChunk)), e->thread());
  Value length = e->constantIndex(runs.length);
  Value run = e->divIndex(mine, length), rank = e->remIndex(mine, length);
  Value first = zero, end = e->dim(ceilDim(shape.chunks, runs.length / kChunk));
  if (next) {
    Value group = e->constantIndex(next->length / runs.length);
    first = e->mulIndex(e->divIndex(run, group), group);
    end = e->addIndex(first, group);
  }
  Value key = number(runs.keys, mine);
  Value behind = arith::AddIOp::create(e->builder(), e->loc(), key, constant(1));
  Value place = stridedLoop(
      *e, first, end, 1, 4, zero, [&](ArrayRef<Value> others, ValueRange carried) -> Values {
        Value sum = carried[0];
        for (Value other : others) {
          // Equal keys in earlier runs come first, those in later ones
          // behind.
          Value isEarlier = e->lessIndex(other, run);
          Value count = countBelow(runs, other, select(isEarlier, behind, key));
          Value isOwn = compare(arith::CmpIPredicate::eq, other, run);
          sum = e->addIndex(sum, select(isOwn, rank, count));
        }
        return {sum};
      })[0];
  Value update = number(runs.updates, mine);
  if (next) {
    place = e->addIndex(place, e->mulIndex(first, length));
    setNumber(next->keys, place, key);
    setNumber(next->updates, place, update);
    e->finish();
    return;
  }
  e->openIf(compare(arith::CmpIPredicate::ne, key, constant(kNoKey)));
  setNumber(shape.keys, e->addIndex(place, one), key);
  setNumber(shape.order, place, update);
  e->closeIf();
  // No row is before the first and behind the last.
  e->openIf(e->lessIndex(mine, one));
  setNumber(shape.keys, zero, constant(-1));
  setNumber(shape.keys, e->addIndex(e->dim(shape.updates), one), constant(-1));
  e->closeIf();
  e->finish();
}

void RowScatter::setColumns(const Tile &tile, Value block) {
  Value width = e->constantIndex(tile.columns), columns = e->productOf(shape.columnSizes);
  column = e->addIndex(e->mulIndex(block, width), e->remIndex(e->thread(), width));
  if (auto known = shape.columns.getConstant(); !known || *known % tile.columns != 0) {
    active = e->lessIndex(column, columns);
    column = e->minIndex(column, e->subIndex(columns, e->constantIndex(1)));
  }
  columnIndex = e->delinearize(column, shape.columnSizes);
  if (shape.lanes > 1)
    columnIndex.back() = vectorAt(*e, columnIndex.back().base, shape.lanes);
}

Index RowScatter::tableIndex(Value row) {
  Index index = columnIndex;
  index.insert(index.begin() + axis, ElementIndex{row, 0, {}});
  return index;
}

void RowScatter::store(const Index &index, Value sum) {
  e->spaceIndex = index;
  total = e->convertFloat(sum, shape.element);
  e->storeResults();
}

ElementIndex RowScatter::partialOffset(Value slot) {
  Value width = e->mulIndex(e->productOf(shape.columnSizes), e->constantIndex(shape.lanes));
  return e->add({e->mulIndex(slot, width), 0, {}}, vectorAt(*e, column, shape.lanes));
}

void RowScatter::sum() {
  nextStage();
  const Tile &tile = shape.sumTile;
  Value blocks = e->dim(ceilDim(shape.columns, tile.columns)), count = e->dim(shape.updates);
  setColumns(tile, e->remIndex(e->block(), blocks));
  Value segment =
      e->addIndex(e->mulIndex(e->divIndex(e->block(), blocks), e->constantIndex(tile.rows)),
                  e->divIndex(e->thread(), e->constantIndex(tile.columns)));
  // Behind the last segment both ends are the end: nothing is summed.
  Value lower = e->minIndex(e->mulIndex(segment, e->constantIndex(kSegment)), count);
  Value upper = e->minIndex(e->addIndex(lower, e->constantIndex(kSegment)), count);
  if (active)
    upper = e->selectIndex(active, upper, lower);
  e->setActive(active);

  using Predicate = arith::CmpIPredicate;
  Value zero = e->convertFloat(e->zero(shape.element), shape.sum);
  Value partials = temporaryAt(*e, shape.partials);
  Value head = e->mulIndex(segment, e->constantIndex(2));
  // Whether the run at hand began in this segment.
  Value own = compare(Predicate::ne, keyAt(lower, -1), keyAt(lower));
  Values carried = stridedLoop(
      *e, lower, upper, 1, 4, ValueRange{zero, own},
      [&](ArrayRef<Value> positions, ValueRange values) -> Values {
        Values updates, keys, ends;
        for (Value position : positions) {
          Value update = toIndex(number(shape.order, position));
          Index source(ArrayRef<ElementIndex>(columnIndex).take_front(axis));
          source.append(e->delinearize(update, shape.indexSizes));
          source.append(columnIndex.begin() + axis, columnIndex.end());
          Value value = e->evaluateLanes(shape.scatter.getScatterUpdates().get(), source);
          updates.push_back(e->convertFloat(value, shape.sum));
          keys.push_back(keyAt(position));
          ends.push_back(compare(Predicate::ne, keys.back(), keyAt(position, 1)));
        }
        Value total = values[0], own = values[1];
        for (auto [update, key, isLast] : llvm::zip_equal(updates, keys, ends)) {
          total = add(total, update);
          e->openIf(isLast);
          // A run that began in an earlier segment is a part: it goes to the segment's first slot.
          e->openIf(own);
          store(tableIndex(toIndex(key)), total);
          e->closeIf();
          Value isOther =
              arith::XOrIOp::create(e->builder(), e->loc(), own,
                                    arith::ConstantIntOp::create(e->builder(), e->loc(), 1, 1));
          e->openIf(isOther);
          e->storeTo(partials, shape.sum, partialOffset(head), total);
          e->closeIf();
          e->closeIf();
          total = select(isLast, zero, total);
          own = arith::OrIOp::create(e->builder(), e->loc(), own, isLast);
        }
        return {total, own};
      });
  // What goes on in the next segment.
  Value last = e->subIndex(upper, e->constantIndex(1));
  e->openIf(e->lessIndex(lower, upper));
  e->openIf(compare(Predicate::eq, keyAt(last), keyAt(last, 1)));
  // The last run goes on in the next segment: to the second slot, or the first if it fills the
  // whole segment.
  Value slot = select(carried[1], e->addIndex(head, e->constantIndex(1)), head);
  e->storeTo(partials, shape.sum, partialOffset(slot), carried[0]);
  e->closeIf();
  e->closeIf();
  e->finish();
}

/// A bit at a time from the top.
Value RowScatter::search(Value bound, llvm::function_ref<Value(Value)> holds) {
  OpBuilder &b = e->builder();
  Type i64 = b.getI64Type();
  Value zero = e->constantIndex(0), one = e->constantIndex(1);
  Value size = arith::IndexCastOp::create(b, e->loc(), i64, bound);
  Value free = LLVM::CountLeadingZerosOp::create(b, e->loc(), i64, size, false);
  Value bits = e->subIndex(e->constantIndex(64),
                           arith::IndexCastOp::create(b, e->loc(), b.getIndexType(), free));
  auto loop = e->openLoop(zero, bits, one, zero);
  Value found = loop.getRegionIterArgs()[0];
  Value shift = e->subIndex(e->subIndex(bits, one), loop.getInductionVar());
  Value further = e->addIndex(found, arith::ShLIOp::create(b, e->loc(), one, shift));
  Value isFurther = holds(further);
  return e->closeLoop(loop, select(isFurther, further, found))[0];
}

void RowScatter::join() {
  nextStage();
  const Tile &tile = shape.joinTile;
  Value blocks = e->dim(ceilDim(shape.columns, tile.columns)), count = e->dim(shape.updates);
  Value segment = e->divIndex(e->block(), blocks), segments = e->dim(shape.segments);
  Value one = e->constantIndex(1);
  Value lower = e->mulIndex(segment, e->constantIndex(kSegment));
  Value upper = e->minIndex(e->addIndex(lower, e->constantIndex(kSegment)), count);
  Value last = e->subIndex(upper, one);
  using Predicate = arith::CmpIPredicate;
  Value key = keyAt(last);
  Value goesOn = compare(Predicate::eq, keyAt(last, 1), key);
  Value beganHere = compare(Predicate::ne, keyAt(lower, -1), key);
  // One block joins a run: that of the segment in which it began and does not end.
  e->openIf(both(goesOn, beganHere));
  setColumns(tile, e->remIndex(e->block(), blocks));

  // The number of segments behind this one that begin with the key.
  Value more = search(segments, [&](Value further) {
    Value candidate = e->addIndex(segment, further);
    Value exists = e->lessIndex(candidate, segments);
    Value place = e->minIndex(candidate, e->subIndex(segments, one));
    Value same = compare(Predicate::eq, keyAt(e->mulIndex(place, e->constantIndex(kSegment))), key);
    return both(exists, same);
  });

  Value row = e->divIndex(e->thread(), e->constantIndex(tile.columns));
  Value partials = temporaryAt(*e, shape.partials);
  Value none = e->convertFloat(e->zero(shape.element), shape.sum);
  // Parts in ascending order within a thread, threads in a tree: fixed by the number of
  // segments.
  Values total =
      stridedLoop(*e, row, e->addIndex(more, one), tile.rows, 4, none,
                  [&](ArrayRef<Value> parts, ValueRange carried) -> Values {
                    Values loaded;
                    for (Value part : parts) {
                      // The run's begin is the second part of this segment, the rest the first
                      // ones.
                      Value slot = e->mulIndex(e->addIndex(segment, part), e->constantIndex(2));
                      Value isFirst = e->lessIndex(part, one);
                      slot = select(isFirst, e->addIndex(slot, one), slot);
                      loaded.push_back(e->loadFrom(partials, shape.sum, partialOffset(slot)));
                    }
                    Value sum = carried[0];
                    for (Value value : loaded)
                      sum = add(sum, value);
                    return {sum};
                  });
  Value array = e->shared(shape.sum, kTileThreads * shape.lanes);
  Value all = combineRows(
      *e, tile, {{array, shape.sum, total[0], [&](Value x, Value y) { return add(x, y); }}})[0];
  e->openIf(both(e->lessIndex(row, one), active));
  store(tableIndex(toIndex(key)), all);
  e->closeIf();
  e->closeIf();
  e->finish();
}

/// Of each result the input that it is where the sums are zero; empty where one is none. What such
/// sums make of a body is what folding leaves of it.
static SmallVector<unsigned> findKeptInputs(FusionOp fusion, Operation *scatter) {
  IRMapping mapping;
  OwningOpRef<FusionOp> copy(cast<FusionOp>(fusion->clone(mapping)));
  Block &body = copy->getBody().front();
  llvm::SmallDenseSet<Value> zeros;
  auto setZero = [&](Value value) {
    OpBuilder builder(value.getDefiningOp());
    Value zero = TrainBuilder(builder, value.getLoc()).scalarLike(value, 0);
    value.replaceAllUsesWith(zero);
    zeros.insert(zero);
  };
  // In program order, so that zeros that are made of zeros are found; folding takes those away that
  // are added, and casts there and back.
  const Value sums = mapping.lookup(scatter->getResult(0));
  setZero(sums);
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (&op == sums.getDefiningOp())
      continue;
    auto ranges = llvm::map_to_vector(op.getOperands(), [&](Value operand) {
      return zeros.contains(operand) ? trainc::train::Range::number(0)
                                     : trainc::train::Range::anything();
    });
    for (OpResult result : op.getResults())
      if (inferRange(&op, result.getResultNumber(), ranges).isNumber(0))
        setZero(result);
    OpBuilder builder(&op);
    SmallVector<Value> folded;
    if (succeeded(builder.tryFold(&op, folded)) && folded.size() == op.getNumResults())
      op.replaceAllUsesWith(folded);
  }
  SmallVector<unsigned> kept;
  for (Value value : body.getTerminator()->getOperands()) {
    auto input = dyn_cast<BlockArgument>(value);
    if (!input)
      return {};
    kept.push_back(input.getArgNumber());
  }
  return kept;
}

void RowScatter::storeRest() {
  nextStage();
  // The runtime decides whether a result lies where its input does.
  Value isElsewhere;
  for (auto [result, input] : llvm::enumerate(findKeptInputs(kernel.fusion, op))) {
    const unsigned number = kernel.fusion.getInputs().size() + result;
    Value differs = LLVM::ICmpOp::create(e->builder(), e->loc(), LLVM::ICmpPredicate::ne,
                                         e->buffer(input), e->buffer(number));
    isElsewhere =
        isElsewhere ? arith::OrIOp::create(e->builder(), e->loc(), isElsewhere, differs) : differs;
  }
  if (isElsewhere)
    e->openIf(isElsewhere);
  Value count = e->dim(shape.updates);
  SmallVector<DimAttr> sizes = shape.columnSizes;
  sizes.insert(sizes.begin() + axis, s.space[axis]);
  using Predicate = arith::CmpIPredicate;
  forEachOfShare(*e, vectorsOfTable(), /*unroll=*/1, [&](Value position) {
    Index index = e->delinearize(position, sizes);
    Value row = toNumber(index[axis].base);
    if (shape.lanes > 1)
      index.back() = vectorAt(*e, index.back().base, shape.lanes);
    // The number of updates of rows before.
    Value before = search(count, [&](Value number) {
      Value exists = compare(Predicate::sle, number, count);
      Value key = keyAt(e->minIndex(number, count), -1);
      return both(exists, compare(Predicate::slt, key, row));
    });
    Value isOther = compare(Predicate::ne, keyAt(before), row);
    e->openIf(arith::OrIOp::create(e->builder(), e->loc(), isOther,
                                   compare(Predicate::sge, before, count)));
    store(index, e->convertFloat(e->zero(shape.element), shape.sum));
    e->closeIf();
  });
  if (isElsewhere)
    e->closeIf();
  e->finish();
}

/// A thread an element of the updates.
static void storeUniqueRows(GpuKernel &kernel) {
  auto scatter = cast<ScatterOpInterface>(kernel.structure.standalone);
  ArrayRef<DimAttr> space = kernel.structure.space;
  int64_t axis = scatter.getScatterAxis();
  GpuEmitter *e = &kernel.nextStage();
  clearResult(*e, e->productOf(space), 1);
  e->finish();

  e = &kernel.nextStage();
  SmallVector<DimAttr> sizes = getDims(scatter.getScatterUpdates().get());
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kTileThreads)), e->thread());
  e->openIf(e->lessIndex(number, e->productOf(sizes)));
  Index target = e->delinearize(number, sizes);
  Value chosen = e->evaluate(scatter.getScatterIndices().get(), target[axis]);
  Value zero = arith::ConstantOp::create(
      e->builder(), e->loc(), cast<TypedAttr>(e->builder().getZeroAttr(chosen.getType())));
  // A negative index means nowhere.
  e->openIf(arith::CmpIOp::create(e->builder(), e->loc(), arith::CmpIPredicate::sge, chosen, zero));
  Value update = e->evaluate(scatter.getScatterUpdates().get(), target);
  target[axis] = e->checkedIndex(scatter, chosen, space[axis]);
  e->store(0, target, update);
  e->closeIf();
  e->closeIf();
  e->finish();
}

void mapScatter(GpuKernel &kernel) {
  auto scatter = cast<ScatterOpInterface>(kernel.structure.standalone);
  if (scatter.hasUniqueIndices())
    storeUniqueRows(kernel);
  else if (scatter.isRowScatter())
    RowScatter(kernel).run();
  else
    mapElementScatter(kernel);
}

} // namespace trainc::codegen
