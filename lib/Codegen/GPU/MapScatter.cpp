// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatter on the GPU.
//
// Rows (embedding gradients) are summed in sorted order: equal indices lie side by side, earlier
// updates first. Five steps in four stages:
//   sort    zeros in the table; chunks of the indices sorted, an element's place being the number
//           of elements before it
//   merge   an element's place in all: that in its chunk and, by binary search, in all others
//   sum     segments of the sorted updates; a run of equal indices inside a segment goes to the
//           table, the part of a run that crosses a border to the temporary buffer
//   join    parts of runs that cross borders
// The order of additions follows from the indices alone, and no step is slow where most indices are
// the same.
//
// Rows of which no two meet are stored.
//
// Elements along the last axis are added in shared memory, where a warp keeps a line of the result:
// 32 updates at a time, those that meet at one element in turn. Along another axis, or where a line
// is long or its size not known, they are added one after another by the thread that has the line;
// where there are few, by the thread that has the result.

#include "Tiles.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Indices sorted by one block, and updates summed by one thread.
constexpr int64_t kChunk = kTileThreads, kSegment = 32;
/// Behind all indices; one more must still be a number.
constexpr int64_t kNoKey = INT32_MAX - 1;
/// Vectors of the table that a thread clears.
constexpr int64_t kCleared = 8;
/// Columns of a tile that joins parts, in vectors.
constexpr int64_t kJoinColumns = 32;
/// Updates along the axis that every element of the result may look at.
constexpr int64_t kFewUpdates = 32;
/// Bytes of shared memory for the lines that a block keeps.
constexpr int64_t kLineBytes = 32 << 10;
/// Steps of 32 updates whose loads are in flight together.
constexpr int64_t kLineUnroll = 4;

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
  /// Byte offsets: sorted chunks' keys and updates; all of them sorted, with a place before and one
  /// behind; partial sums.
  DimAttr chunkKeys, chunkUpdates, keys, order, partials;
  TemporaryLayout temporary;
};

} // namespace

/// Elements of a vector along the last axis of the result.
static unsigned chooseScatterLanes(const Structure &s, int64_t axis, Type element) {
  auto last = s.space.back().getConstant();
  if (!last || axis + 1 == int64_t(s.space.size()))
    return 1;
  int64_t lanes = 16 / memoryBytes(element);
  while (*last % lanes != 0)
    lanes /= 2;
  return lanes;
}

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
  chunks = ceilDim(updates, kChunk);
  segments = ceilDim(updates, kSegment);
  sumTile = Tile::forColumns(columns, kTileThreads);
  joinTile = Tile::forColumns(columns, kJoinColumns);

  Type i32 = IntegerType::get(context, 32);
  chunkKeys = temporary.add(chunks * constant(kChunk), i32);
  chunkUpdates = temporary.add(chunks * constant(kChunk), i32);
  keys = temporary.add(updates + constant(2), i32);
  order = temporary.add(updates, i32);
  partials = temporary.add(segments * constant(2) * columns * constant(lanes), sum);
}

static int64_t updatesAlong(ScatterOpInterface scatter, int64_t otherwise) {
  DimAttr count = getDim(scatter.getScatterUpdates().get(), scatter.getScatterAxis());
  return count.getConstant().value_or(otherwise);
}

/// Warps of a block that keep a line of the result each in shared memory; 0: none can.
static int64_t lineWarps(ScatterOpInterface scatter, const Structure &s) {
  std::optional<int64_t> size = s.space.back().getConstant();
  if (scatter.getScatterAxis() + 1 != int64_t(s.space.size()) || !size || *size == 0)
    return 0;
  Type sum = computeType(getElementType(s.standalone->getResult(0)));
  int64_t lines = kLineBytes / (*size * memoryBytes(sum));
  return lines == 0 ? 0 : std::min<int64_t>(llvm::bit_floor(uint64_t(lines)), kTileThreads / kWarp);
}

void planScatter(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  auto scatter = cast<ScatterOpInterface>(s.standalone);
  if (!scatter.isRowScatter()) {
    DimAttr elements = product(fusion.getContext(), s.space);
    if (updatesAlong(scatter, kFewUpdates + 1) <= kFewUpdates) {
      plan.stages = {{"", ceilDim(elements, kTileThreads), kTileThreads}};
      return;
    }
    SmallVector<DimAttr> lines = s.space;
    lines[scatter.getScatterAxis()] = DimAttr::constant(fusion.getContext(), 1);
    if (int64_t warps = lineWarps(scatter, s)) {
      plan.stages = {
          {"", ceilDim(product(fusion.getContext(), lines), warps), int64_t(warps * kWarp)}};
      return;
    }
    plan.stages = {
        {"_clear", ceilDim(elements, kTileThreads * kCleared), kTileThreads},
        {"_add", ceilDim(product(fusion.getContext(), lines), kTileThreads), kTileThreads}};
    return;
  }
  if (scatter.hasUniqueIndices()) {
    MLIRContext *context = fusion.getContext();
    DimAttr updates = product(context, getDims(scatter.getScatterUpdates().get()));
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
  plan.stages = {
      {"_sort", maxDim(ceilDim(shape.vectors, kTileThreads * kCleared), shape.chunks),
       kTileThreads},
      {"_merge", shape.chunks, kTileThreads},
      {"_sum", tiles(ceilDim(shape.segments, shape.sumTile.rows), shape.sumTile), kTileThreads},
      {"_join", tiles(shape.segments, shape.joinTile), kTileThreads}};
  plan.temporaryBytes = shape.temporary.bytes;
}

//===----------------------------------------------------------------------===//
// What both kinds need
//===----------------------------------------------------------------------===//

/// Zeros in the block's share of the result, in vectors of `lanes`.
static void clearResult(GpuEmitter &e, Value vectors, unsigned lanes) {
  e.setLanes(lanes);
  Type element = getElementTypeOrSelf(e.fusion.getResult(0).getType());
  Value share = e.constantIndex(kTileThreads * kCleared);
  Value first = e.mulIndex(e.block(), share);
  Value end = e.minIndex(e.addIndex(first, share), vectors);
  Value zero = e.zero(element), result = e.buffer(e.fusion.getInputs().size());
  stridedLoop(e, e.addIndex(first, e.thread()), end, kTileThreads, 4, {},
              [&](ArrayRef<Value> positions, ValueRange) {
                for (Value position : positions)
                  e.storeTo(result, element, vectorAt(e, position, lanes), zero);
                return Values();
              });
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

  void run() {
    sort();
    merge();
    sum();
    join();
  }

private:
  void sort();
  void merge();
  void sum();
  void join();

  /// The columns that a tile's thread has; sets `active` where there may be none.
  void setColumns(const Tile &tile, Value block);
  /// Coordinates of the thread's columns in the table's row.
  Index tableIndex(Value row);
  ElementIndex partialOffset(Value slot);
  void storeRow(Value key, Value value);

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
  Value countBelow(Value chunk, Value limit);
  void nextStage() {
    e = &kernel.nextStage();
    e->setLanes(shape.lanes);
    active = {};
  }

  GpuKernel &kernel;
  const Structure &s;
  Operation *op;
  ScatterShape shape;
  int64_t axis;
  Type i32;
  GpuEmitter *e = nullptr;
  Value column, active;
  Index columnIndex;
};

} // namespace

void RowScatter::sort() {
  nextStage();
  clearResult(*e, e->mulIndex(e->dim(s.space[axis]), e->productOf(shape.columnSizes)), shape.lanes);
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
    Value limit = select(compare(arith::CmpIPredicate::slt, place, me), next, key);
    Value less = compare(arith::CmpIPredicate::slt, other, limit);
    before =
        arith::AddIOp::create(b, e->loc(), before, arith::ExtUIOp::create(b, e->loc(), i32, less));
  }
  Value rank = toIndex(e->closeLoop(loop, before)[0]);
  Value place = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kChunk)), rank);
  setNumber(shape.chunkKeys, place, key);
  setNumber(shape.chunkUpdates, place, toNumber(update));
  e->closeIf();
  e->finish();
}

/// Elements of a sorted chunk with keys less than `limit`.
Value RowScatter::countBelow(Value chunk, Value limit) {
  Value base = e->mulIndex(chunk, e->constantIndex(kChunk)), found = e->constantIndex(0);
  auto isLess = [&](Value place) {
    return compare(arith::CmpIPredicate::slt, number(shape.chunkKeys, e->addIndex(base, place)),
                   limit);
  };
  for (int64_t step = kChunk / 2; step >= 1; step /= 2) {
    Value further = e->addIndex(found, e->constantIndex(step));
    found = select(isLess(e->addIndex(found, e->constantIndex(step - 1))), further, found);
  }
  return select(isLess(found), e->addIndex(found, e->constantIndex(1)), found);
}

void RowScatter::merge() {
  nextStage();
  Value zero = e->constantIndex(0), one = e->constantIndex(1);
  Value mine = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kChunk)), e->thread());
  Value key = number(shape.chunkKeys, mine);
  Value next = arith::AddIOp::create(e->builder(), e->loc(), key, constant(1));
  Values place = stridedLoop(*e, zero, e->dim(shape.chunks), 1, 4, zero,
                             [&](ArrayRef<Value> chunks, ValueRange carried) -> Values {
                               Value sum = carried[0];
                               for (Value chunk : chunks) {
                                 // Equal keys in earlier chunks come first, those in later ones
                                 // behind.
                                 Value isEarlier = e->lessIndex(chunk, e->block());
                                 Value count = countBelow(chunk, select(isEarlier, next, key));
                                 Value isOwn = compare(arith::CmpIPredicate::eq, chunk, e->block());
                                 sum = e->addIndex(sum, select(isOwn, e->thread(), count));
                               }
                               return {sum};
                             });
  e->openIf(compare(arith::CmpIPredicate::ne, key, constant(kNoKey)));
  setNumber(shape.keys, e->addIndex(place[0], one), key);
  setNumber(shape.order, place[0], number(shape.chunkUpdates, mine));
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

void RowScatter::storeRow(Value key, Value value) {
  e->store(0, tableIndex(toIndex(key)), e->convertFloat(value, shape.element));
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
          e->openIf(own);
          storeRow(key, total);
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
  Value slot = select(carried[1], e->addIndex(head, e->constantIndex(1)), head);
  e->storeTo(partials, shape.sum, partialOffset(slot), carried[0]);
  e->closeIf();
  e->closeIf();
  e->finish();
}

void RowScatter::join() {
  nextStage();
  const Tile &tile = shape.joinTile;
  Value blocks = e->dim(ceilDim(shape.columns, tile.columns)), count = e->dim(shape.updates);
  Value segment = e->divIndex(e->block(), blocks), segments = e->dim(shape.segments);
  Value one = e->constantIndex(1), zero = e->constantIndex(0);
  Value lower = e->mulIndex(segment, e->constantIndex(kSegment));
  Value upper = e->minIndex(e->addIndex(lower, e->constantIndex(kSegment)), count);
  Value last = e->subIndex(upper, one);
  using Predicate = arith::CmpIPredicate;
  Value key = keyAt(last);
  Value goesOn = compare(Predicate::eq, keyAt(last, 1), key);
  Value beganHere = compare(Predicate::ne, keyAt(lower, -1), key);
  e->openIf(both(goesOn, beganHere));
  setColumns(tile, e->remIndex(e->block(), blocks));

  // The number of segments behind this ones that begin with the key, a bit at a time from the top.
  OpBuilder &b = e->builder();
  Type i64 = b.getI64Type();
  Value size = arith::IndexCastOp::create(b, e->loc(), i64, segments);
  Value free = LLVM::CountLeadingZerosOp::create(b, e->loc(), i64, size, false);
  Value bits = e->subIndex(e->constantIndex(64),
                           arith::IndexCastOp::create(b, e->loc(), b.getIndexType(), free));
  auto search = e->openLoop(zero, bits, one, zero);
  Value found = search.getRegionIterArgs()[0];
  Value shift = e->subIndex(e->subIndex(bits, one), search.getInductionVar());
  Value step = arith::ShLIOp::create(b, e->loc(), one, shift);
  Value further = e->addIndex(found, step), candidate = e->addIndex(segment, further);
  Value exists = e->lessIndex(candidate, segments);
  Value place = e->minIndex(candidate, e->subIndex(segments, one));
  Value same = compare(Predicate::eq, keyAt(e->mulIndex(place, e->constantIndex(kSegment))), key);
  Value more = e->closeLoop(search, select(both(exists, same), further, found))[0];

  Value row = e->divIndex(e->thread(), e->constantIndex(tile.columns));
  Value partials = temporaryAt(*e, shape.partials);
  Value none = e->convertFloat(e->zero(shape.element), shape.sum);
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
  storeRow(key, all);
  e->closeIf();
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
  e->openIf(arith::CmpIOp::create(e->builder(), e->loc(), arith::CmpIPredicate::sge, chosen, zero));
  Value update = e->evaluate(scatter.getScatterUpdates().get(), target);
  target[axis] = e->checkedIndex(scatter, chosen, space[axis]);
  e->store(0, target, update);
  e->closeIf();
  e->closeIf();
  e->finish();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {

class ElementScatter {
public:
  explicit ElementScatter(GpuKernel &kernel)
      : kernel(kernel), s(kernel.structure), op(s.standalone),
        scatter(cast<ScatterOpInterface>(op)), axis(scatter.getScatterAxis()),
        element(getElementType(op->getResult(0))), sum(computeType(element)) {}

  void run() {
    if (updatesAlong(scatter, kFewUpdates + 1) <= kFewUpdates)
      lookAtAll();
    else if (int64_t warps = lineWarps(scatter, s))
      keepLines(warps);
    else
      addInOrder();
  }

private:
  void lookAtAll();
  void keepLines(int64_t warps);
  void addInOrder();
  /// Adds the warp's `updates`, where they are `wanted`, to shared memory at `places`, a lane's
  /// before those of higher lanes.
  void addLanes(Value line, Value place, Value update, Value wanted);
  /// The position of the thread in `sizes`, and whether there is one; threads beyond do the last.
  Index position(ArrayRef<DimAttr> sizes);
  /// Updates that the position's line has: they may cover only a corner of the other axes.
  Value countUpdates(ArrayRef<ElementIndex> index);
  Value add(Value x, Value y) { return arith::AddFOp::create(e->builder(), op->getLoc(), x, y); }

  GpuKernel &kernel;
  const Structure &s;
  Operation *op;
  ScatterOpInterface scatter;
  int64_t axis;
  Type element, sum;
  GpuEmitter *e = nullptr;
  Value active;
};

} // namespace

Index ElementScatter::position(ArrayRef<DimAttr> sizes) {
  Value count = e->productOf(sizes);
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kTileThreads)), e->thread());
  active = e->lessIndex(number, count);
  return e->delinearize(e->minIndex(number, e->subIndex(count, e->constantIndex(1))), sizes);
}

Value ElementScatter::countUpdates(ArrayRef<ElementIndex> index) {
  SmallVector<DimAttr> sizes = getDims(scatter.getScatterUpdates().get());
  Value none = e->constantIndex(0), count = e->dim(sizes[axis]);
  for (auto [other, size] : llvm::enumerate(sizes))
    if (int64_t(other) != axis && size != s.space[other])
      count = e->selectIndex(e->lessThan(index[other], e->dimIndex(size)), count, none);
  return e->selectIndex(active, count, none);
}

void ElementScatter::lookAtAll() {
  e = &kernel.nextStage();
  Index target = position(s.space);
  Value zero = arith::ConstantOp::create(e->builder(), e->loc(),
                                         cast<TypedAttr>(e->builder().getZeroAttr(sum)));
  auto loop = e->openLoop(e->constantIndex(0), countUpdates(target), e->constantIndex(1), zero);
  Index source = target;
  source[axis] = {loop.getInductionVar(), 0, {}};
  Value data = e->evaluate(scatter.getScatterIndices().get(), source);
  Value place = e->checkedIndex(op, data, s.space[axis]).base;
  Value update = e->convertFloat(e->evaluate(scatter.getScatterUpdates().get(), source), sum);
  Value before = loop.getRegionIterArgs()[0];
  Value isHere = arith::CmpIOp::create(e->builder(), e->loc(), arith::CmpIPredicate::eq, place,
                                       target[axis].base);
  Value after =
      arith::SelectOp::create(e->builder(), e->loc(), isHere, add(before, update), before);
  Value total = e->closeLoop(loop, after)[0];
  e->openIf(active);
  e->store(0, target, e->convertFloat(total, element));
  e->closeIf();
  e->finish();
}

void ElementScatter::addLanes(Value line, Value place, Value update, Value wanted) {
  OpBuilder &b = e->builder();
  Location loc = e->loc();
  Type i1 = b.getI1Type(), i32 = b.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  auto accumulate = [&](Value condition) {
    e->openIf(condition);
    Value before = e->loadFrom(line, sum, {place, 0, {}});
    e->storeTo(line, sum, {place, 0, {}}, add(before, update));
    e->closeIf();
    e->syncWarp();
  };
  Value lane =
      arith::IndexCastOp::create(b, loc, i32, e->remIndex(e->thread(), e->constantIndex(kWarp)));
  // No other lane has the key of an update that nobody wants.
  Value none = arith::SubIOp::create(b, loc, number(-1), lane);
  Value key =
      arith::SelectOp::create(b, loc, wanted, arith::IndexCastOp::create(b, loc, i32, place), none);

  // Indices that rise or fall, as those of relative positions do, do not meet.
  Value before = e->shuffleUp(key);
  Value isFirst = compare(arith::CmpIPredicate::eq, lane, number(0));
  auto isOrdered = [&](arith::CmpIPredicate order) {
    return e->allOfWarp(arith::OrIOp::create(b, loc, isFirst, compare(order, key, before)));
  };
  Value apart = arith::OrIOp::create(b, loc, isOrdered(arith::CmpIPredicate::sgt),
                                     isOrdered(arith::CmpIPredicate::slt));
  e->openIf(apart);
  accumulate(wanted);
  e->closeIf();

  e->openIf(arith::XOrIOp::create(b, loc, apart, arith::ConstantIntOp::create(b, loc, i1, 1)));
  Value same = e->matchWarp(key);
  Value below =
      arith::SubIOp::create(b, loc, arith::ShLIOp::create(b, loc, number(1), lane), number(1));
  Value turn = LLVM::CtPopOp::create(b, loc, i32, arith::AndIOp::create(b, loc, same, below));
  Value turns = LLVM::CtPopOp::create(b, loc, i32, same);
  for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
    turns = arith::MaxUIOp::create(b, loc, turns, e->shuffle(turns, mask));
  auto loop =
      e->openLoop(e->constantIndex(0), arith::IndexCastOp::create(b, loc, b.getIndexType(), turns),
                  e->constantIndex(1));
  Value now = arith::IndexCastOp::create(b, loc, i32, loop.getInductionVar());
  accumulate(arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, now, turn), wanted));
  e->closeLoop(loop);
  e->closeIf();
}

void ElementScatter::keepLines(int64_t warps) {
  e = &kernel.nextStage();
  int64_t size = *s.space[axis].getConstant();
  SmallVector<DimAttr> lines = s.space;
  lines[axis] = DimAttr::constant(op->getContext(), 1);
  Value warp = e->divIndex(e->thread(), e->constantIndex(kWarp));
  Value lane = e->remIndex(e->thread(), e->constantIndex(kWarp));
  Value count = e->productOf(lines), one = e->constantIndex(1);
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(warps)), warp);
  active = e->lessIndex(number, count);
  Index target = e->delinearize(e->minIndex(number, e->subIndex(count, one)), lines);
  Value first = e->mulIndex(warp, e->constantIndex(size));
  Value array = e->shared(sum, warps * size);
  // Both ends in vectors.
  int64_t lanes = size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
  auto forEachVector = [&](llvm::function_ref<void(const ElementIndex &)> body) {
    e->setLanes(lanes);
    auto loop = e->openLoop(lane, e->constantIndex(size / lanes), e->constantIndex(kWarp));
    body(vectorAt(*e, loop.getInductionVar(), lanes));
    e->closeLoop(loop);
    e->setLanes(1);
  };
  auto inLine = [&](const ElementIndex &i) { return e->add({first, 0, {}}, i); };
  forEachVector([&](const ElementIndex &i) {
    e->storeTo(array, sum, inLine(i), e->convertFloat(e->zero(element), sum));
  });
  e->syncWarp();

  Value updates = countUpdates(target), last = e->subIndex(updates, one);
  auto loop = e->openLoop(e->constantIndex(0), updates, e->constantIndex(kWarp * kLineUnroll));
  struct Update {
    Value data, value, wanted;
  };
  SmallVector<Update> read;
  for (int64_t i = 0; i < kLineUnroll; ++i) {
    Value at = e->addIndex(e->addIndex(loop.getInductionVar(), lane), e->constantIndex(i * kWarp));
    Index source = target;
    source[axis] = {e->minIndex(at, last), 0, {}};
    Value data = e->evaluate(scatter.getScatterIndices().get(), source);
    Value update = e->evaluate(scatter.getScatterUpdates().get(), source);
    read.push_back({data, e->convertFloat(update, sum), e->lessIndex(at, updates)});
  }
  // The branches of the checks would keep later loads behind them.
  for (const Update &update : read) {
    e->setActive(update.wanted);
    Value place = e->checkedIndex(op, update.data, s.space[axis]).base;
    e->setActive({});
    addLanes(array, e->addIndex(first, place), update.value, update.wanted);
  }
  e->closeLoop(loop);

  e->openIf(active);
  forEachVector([&](const ElementIndex &i) {
    target[axis] = i;
    e->store(0, target, e->convertFloat(e->loadFrom(array, sum, inLine(i)), element));
  });
  e->closeIf();
  e->finish();
}

void ElementScatter::addInOrder() {
  e = &kernel.nextStage();
  clearResult(*e, e->productOf(s.space), 1);
  e->finish();

  e = &kernel.nextStage();
  SmallVector<DimAttr> lines = s.space;
  lines[axis] = DimAttr::constant(op->getContext(), 1);
  Index target = position(lines), source = target;
  auto loop = e->openLoop(e->constantIndex(0), countUpdates(target), e->constantIndex(1));
  source[axis] = {loop.getInductionVar(), 0, {}};
  Value data = e->evaluate(scatter.getScatterIndices().get(), source);
  target[axis] = e->checkedIndex(op, data, s.space[axis]);
  Value update = e->convertFloat(e->evaluate(scatter.getScatterUpdates().get(), source), sum);
  Value before = e->load(e->fusion.getInputs().size(), op->getResult(0).getType(), target);
  Value after = add(e->convertFloat(before, sum), update);
  e->store(0, target, e->convertFloat(after, element));
  e->closeLoop(loop);
  e->finish();
}

void mapScatter(GpuKernel &kernel) {
  auto scatter = cast<ScatterOpInterface>(kernel.structure.standalone);
  if (scatter.hasUniqueIndices())
    storeUniqueRows(kernel);
  else if (scatter.isRowScatter())
    RowScatter(kernel).run();
  else
    ElementScatter(kernel).run();
}

} // namespace trainc::codegen
