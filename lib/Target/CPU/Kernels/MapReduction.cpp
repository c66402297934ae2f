// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The row and column templates on the CPU.
//
// Accuracy and determinism: sums run in a cascade of short blocks, whose shape depends on the sizes
// only. A row keeps its accumulators in registers; a block of columns keeps them in scratch, which
// lets one loop body serve any number of columns and reductions.

#include "CpuEmitter.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Positions outside the vector axis that are summed before the sum moves up one level. Short, and
/// with as many levels as the count needs, so that no chain of additions is long: the error of a
/// sum stays that of some dozen additions.
constexpr int64_t kBlock = 16;
/// Vectors of a row, and blocks of them, that are summed before the sum moves up: the lanes are
/// chains of their own, which makes up for the length.
constexpr int64_t kVectorBlock = 32, kUpperVectorBlock = 64;
/// Instructions, about, of all rows of a block of columns: up to there they are written out, sums
/// in registers. Taps of windows are such rows.
constexpr int64_t kWrittenOut = 512;

/// What both templates share: coordinates, and the passes' roots.
class ReductionMap {
public:
  /// The order of axes is the space's, so that the order of additions is the definition's.
  explicit ReductionMap(CpuEmitter &e)
      : e(e), s(e.structure), yield(e.fusion.getBody().front().getTerminator()) {
    for (int64_t axis : s.reduced)
      if (axis != s.vectorAxis) {
        outerReduced.push_back(axis);
        outerReducedSizes.push_back(s.space[axis]);
      }
    // Position in scratch of what is read back later.
    // A result that an earlier pass stored need not be computed again.
    for (auto [index, pass] : llvm::enumerate(s.passes)) {
      for (unsigned result : pass.results)
        storedIn.try_emplace(yield->getOperand(result), std::make_pair(index, result));
    }
    outerReducedCount = e.productOf(outerReducedSizes);
    knownOuterReduced = product(e.fusion.getContext(), outerReducedSizes).getConstant();
  }

protected:
  /// Position in the space from the outer reduced coordinates and that on the vector axis.
  void setSpaceIndex(ArrayRef<ElementIndex> outer, const ElementIndex &vector) {
    e.spaceIndex.assign(s.space.size(), e.constant(0));
    for (auto [axis, index] : llvm::zip_equal(s.kept, e.keptIndex))
      e.spaceIndex[axis] = index;
    for (auto [axis, index] : llvm::zip_equal(outerReduced, outer))
      e.spaceIndex[axis] = index;
    e.spaceIndex[s.vectorAxis] = vector;
  }

  /// A result of the space that an earlier pass has stored, read back.
  /// Only at the current position: another one may not be stored yet.
  Value storedResult(Value value, ArrayRef<ElementIndex> index) {
    auto stored = storedIn.find(value);
    if (stored == storedIn.end() || stored->second.first >= e.pass || isa<BlockArgument>(value) ||
        !KernelEmitter::same(index, e.spaceIndex))
      return {};
    return e.load(e.fusion.getInputs().size() + stored->second.second, value.getType(), index);
  }

  /// Mapped operands of the pass's reductions; stores the pass's results and stashes.
  /// All values first, then all stores: a result may lie over an input.
  Values emitRoots(const Pass &pass) {
    Values mapped, results, stashes;
    for (Operation *op : pass.reductions)
      mapped.push_back(e.mappedOperand(op, e.spaceIndex));
    for (unsigned number : pass.results)
      results.push_back(e.evaluateLanes(yield->getOperand(number), e.spaceIndex));
    for (Value value : pass.stashes)
      stashes.push_back(e.evaluateLanes(value, e.spaceIndex));
    for (auto [number, value] : llvm::zip_equal(pass.results, results))
      e.store(number, e.spaceIndex, value);
    for (auto [value, lanes] : llvm::zip_equal(pass.stashes, stashes))
      storeStash(value, lanes);
    return mapped;
  }
  virtual void storeStash(Value, Value) {}
  virtual ~ReductionMap() = default;

  CpuEmitter &e;
  const Structure &s;
  Operation *yield;
  SmallVector<int64_t> outerReduced;
  SmallVector<DimAttr> outerReducedSizes;
  Value outerReducedCount;
  std::optional<int64_t> knownOuterReduced;
  llvm::DenseMap<Value, std::pair<size_t, unsigned>> storedIn;
};

class RowMap final : ReductionMap {
public:
  using ReductionMap::ReductionMap;
  void run();

private:
  using Leaf = llvm::function_ref<Values(Value, ValueRange)>;
  Values cascade(const Pass &pass, Value lower, Value upper, int64_t step,
                 std::optional<int64_t> count, ArrayRef<int64_t> levels, ValueRange accumulators,
                 Leaf leaf);
  Values vectors(const Pass &pass, ArrayRef<ElementIndex> outer, ValueRange accumulators);
  Values leaf(const Pass &pass, ArrayRef<ElementIndex> outer, Value i, Value mask,
              ValueRange accumulators);
  void storeStash(Value value, Value lanes) override;
  Values identities(const Pass &pass) {
    Values values;
    for (Operation *op : pass.reductions)
      values.push_back(e.identity(op, e.getLanes()));
    return values;
  }
  Values combineAll(const Pass &pass, ValueRange a, ValueRange b) {
    Values values;
    for (auto [i, op] : llvm::enumerate(pass.reductions))
      values.push_back(e.combine(op, a[i], b[i]));
    return values;
  }
  // In order of cost: a register, scratch, a stored result.
  Value lookUp(Value value, ArrayRef<ElementIndex> index);
  ElementIndex rowOffset();

  DimAttr vectorSize;
  llvm::DenseMap<Value, Value> totals;
  /// Scratch of a stash, and the pass that fills it.
  llvm::DenseMap<Value, std::pair<Value, unsigned>> stashes;
};

} // namespace

//===----------------------------------------------------------------------===//
// Row
//===----------------------------------------------------------------------===//

/// Within the row: stashes hold one row at a time.
ElementIndex RowMap::rowOffset() {
  Index index;
  SmallVector<DimAttr> sizes;
  for (int64_t axis : s.reduced) {
    index.push_back(e.spaceIndex[axis]);
    sizes.push_back(s.space[axis]);
  }
  return e.linearize(index, sizes);
}

void RowMap::storeStash(Value value, Value lanes) {
  e.storeTo(stashes.lookup(value).first, getElementType(value), rowOffset(), lanes);
}

Value RowMap::lookUp(Value value, ArrayRef<ElementIndex> index) {
  if (Value total = totals.lookup(value); total && KernelEmitter::same(index, e.keptIndex))
    return total;
  auto stash = stashes.find(value);
  if (stash != stashes.end() && stash->second.second < e.pass &&
      KernelEmitter::same(index, e.spaceIndex))
    return e.loadFrom(stash->second.first, getElementType(value), rowOffset());
  return storedResult(value, index);
}

Values RowMap::leaf(const Pass &pass, ArrayRef<ElementIndex> outer, Value i, Value mask,
                    ValueRange accumulators) {
  setSpaceIndex(outer, {i, e.getLanes() == 1 ? 0 : 1, {}});
  e.setTail(mask);
  Values mapped = emitRoots(pass), result;
  for (auto [op, value, accumulator] : llvm::zip_equal(pass.reductions, mapped, accumulators)) {
    // Lanes beyond the end count as nothing.
    if (mask)
      value = arith::SelectOp::create(e.builder(), op->getLoc(), mask, value,
                                      e.identity(op, e.getLanes()));
    result.push_back(e.combine(op, accumulator, value));
  }
  e.setTail({});
  return result;
}

/// Sums [lower, upper) in blocks of levels[0] leaves, blocks of levels[1] such blocks, and so on.
/// The tree depends on the count alone.
Values RowMap::cascade(const Pass &pass, Value lower, Value upper, int64_t step,
                       std::optional<int64_t> count, ArrayRef<int64_t> levels,
                       ValueRange accumulators, Leaf leaf) {
  assert(step > 0 && llvm::all_of(levels, [](int64_t level) { return level > 1; }) &&
         "levels gather");
  int64_t width = 1;
  for (int64_t level : levels)
    width *= level;
  // Levels that cannot fill, or that nothing is summed in, are left out.
  while (!levels.empty() && ((count && *count <= width) || pass.reductions.empty())) {
    width /= levels.back();
    levels = levels.drop_back();
  }
  if (levels.empty()) {
    auto loop = e.openLoop(lower, upper, e.constantIndex(step), accumulators);
    return e.closeLoop(loop, leaf(loop.getInductionVar(), loop.getRegionIterArgs()));
  }
  Value blockStep = e.constantIndex(step * width);
  auto loop = e.openLoop(lower, upper, blockStep, accumulators);
  Value begin = loop.getInductionVar();
  Value end = e.minIndex(e.addIndex(begin, blockStep), upper);
  Values inner = cascade(pass, begin, end, step, width, levels.drop_back(), identities(pass), leaf);
  return e.closeLoop(loop, combineAll(pass, loop.getRegionIterArgs(), inner));
}

/// Whole vectors in a cascade, then the rest in one masked vector.
Values RowMap::vectors(const Pass &pass, ArrayRef<ElementIndex> outer, ValueRange accumulators) {
  int64_t lanes = e.getLanes();
  std::optional<int64_t> size = vectorSize.getConstant();
  Value zero = e.constantIndex(0), upper = e.dim(vectorSize);
  Value end = size ? e.constantIndex(*size / lanes * lanes)
                   : e.subIndex(upper, e.remIndex(upper, e.constantIndex(lanes)));
  Values values(accumulators);
  if (!size || *size >= lanes)
    values =
        cascade(pass, zero, end, lanes, size ? std::optional<int64_t>(*size / lanes) : std::nullopt,
                {kVectorBlock, kUpperVectorBlock}, values,
                [&](Value i, ValueRange acc) { return leaf(pass, outer, i, {}, acc); });
  if (lanes > 1 && (!size || *size % lanes != 0)) {
    auto loop = e.openLoop(end, upper, e.constantIndex(lanes), values);
    Value i = loop.getInductionVar();
    Value mask = e.tailMask(e.subIndex(upper, i));
    values = e.closeLoop(loop, leaf(pass, outer, i, mask, loop.getRegionIterArgs()));
  }
  return values;
}

void RowMap::run() {
  vectorSize = s.space[s.vectorAxis];
  e.setLanes(lanesFor(vectorSize));
  e.resident = [this](Value value, ArrayRef<ElementIndex> index) { return lookUp(value, index); };

  SmallVector<DimAttr> keptSizes;
  for (int64_t axis : s.kept)
    keptSizes.push_back(s.space[axis]);
  // Slots by descending element size keep every element aligned.
  // 8, 4, 2, 1: each slot's size is a multiple of the next one's elements.
  Value rowLength = e.mulIndex(outerReducedCount, e.dim(vectorSize)), bytes = e.constantIndex(0);
  for (int64_t width : {8, 4, 2, 1})
    for (auto [number, pass] : llvm::enumerate(s.passes))
      for (Value value : pass.stashes)
        if (getElementBytes(getElementType(value)) == width) {
          stashes[value] = {e.scratch(bytes), unsigned(number)};
          bytes = e.addIndex(bytes, e.mulIndex(rowLength, e.constantIndex(width)));
        }

  Value item = e.openItems();
  e.keptIndex = e.delinearize(item, keptSizes);
  // Each pass sees the totals and stashes of those before it.
  for (auto [number, pass] : llvm::enumerate(s.passes)) {
    e.pass = number;
    Values values = identities(pass);
    if (knownOuterReduced == 1) {
      Index outer(outerReduced.size(), e.constant(0));
      values = vectors(pass, outer, values);
    } else {
      // Four levels: chains of 16 additions up to 65536 positions.
      values = cascade(pass, e.constantIndex(0), outerReducedCount, 1, knownOuterReduced,
                       {kBlock, kBlock, kBlock, kBlock}, values, [&](Value q, ValueRange acc) {
                         Index outer = e.delinearize(q, outerReducedSizes);
                         return combineAll(pass, acc, vectors(pass, outer, identities(pass)));
                       });
    }
    for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
      totals[op->getResult(0)] = e.combineLanes(op, value);
  }
  // Kept results are one element: scalar code.
  // They are computed of finished totals.
  e.pass = s.passes.size();
  e.spaceIndex.clear();
  Values values;
  for (unsigned number : s.keptResults)
    values.push_back(e.evaluate(yield->getOperand(number), e.keptIndex));
  for (auto [number, value] : llvm::zip_equal(s.keptResults, values))
    e.store(number, e.keptIndex, value);
  e.closeItems();
}

void mapRow(CpuEmitter &emitter) { RowMap(emitter).run(); }

//===----------------------------------------------------------------------===//
// Column
//===----------------------------------------------------------------------===//

namespace {

class ColumnMap final : ReductionMap {
public:
  using ReductionMap::ReductionMap;
  void run();

private:
  /// Arrays of one column block: level 0 takes elements, the last one has the total.
  /// In scratch, since a block of columns has more accumulators than registers.
  struct Array {
    Value pointer;
    Type element;
  };
  Array newArray(Type element);
  void makeAccumulators(Operation *op);
  void forEachColumn(llvm::function_ref<void(const ElementIndex &)> body);
  void whereMovesUp(unsigned level, llvm::function_ref<void()> body);
  void fill(const Pass &pass, unsigned level);
  void moveUp(const Pass &pass, unsigned level);
  void rows(const Pass &pass, Value lower, Value upper, unsigned level);
  bool isWrittenOut(const Pass &pass) const;
  void writeOut(const Pass &pass);
  Value lookUp(Value value, ArrayRef<ElementIndex> index);
  /// Position within the block.
  ElementIndex inBlock() {
    const ElementIndex &column = e.keptIndex[vectorPosition];
    return {e.subIndex(column.base, lower), column.stride, {}};
  }
  Value loadArray(const Array &array) {
    return e.loadFrom(array.pointer, array.element, inBlock());
  }
  void storeArray(const Array &array, Value value) {
    e.storeTo(array.pointer, array.element, inBlock(), value);
  }

  // Position of the vector axis among the kept ones.
  unsigned levels = 1, vectorPosition = 0;
  /// Whether there are blocks enough for the sums of a level to move up; null: known to be.
  SmallVector<Value> movesUp;
  int64_t arrayCount = 0;
  Value lower, upper;
  llvm::DenseMap<Operation *, SmallVector<Array>> accumulators;
  llvm::DenseMap<Value, Array> keptStashes;
  llvm::DenseSet<Value> ready;
};

} // namespace

/// 8 bytes an element, whatever the type: arrays stay aligned.
ColumnMap::Array ColumnMap::newArray(Type element) {
  Value offset = e.constantIndex(arrayCount++ * kColumnBlock * 8);
  return {e.scratch(offset), element};
}

/// A level whose sums never move up shares its array with the level above.
void ColumnMap::makeAccumulators(Operation *op) {
  SmallVector<Value> offsets(levels);
  for (unsigned level = levels; level-- > 0;) {
    offsets[level] = e.constantIndex(arrayCount++ * kColumnBlock * 8);
    if (level + 1 < levels && movesUp[level])
      offsets[level] = e.selectIndex(movesUp[level], offsets[level], offsets[level + 1]);
  }
  for (Value offset : offsets)
    accumulators[op].push_back({e.scratch(offset), getElementType(op->getResult(0))});
}

/// Blocks that are not the last one are whole; `size` is known only if all are.
void ColumnMap::forEachColumn(llvm::function_ref<void(const ElementIndex &)> body) {
  std::optional<int64_t> size = s.space[s.vectorAxis].getConstant();
  if (size && *size > kColumnBlock)
    size = *size % kColumnBlock == 0 ? std::optional<int64_t>(kColumnBlock) : std::nullopt;
  forEachVector(e, lower, upper, size, [&](const ElementIndex &column) {
    e.keptIndex[vectorPosition] = column;
    body(column);
  });
}

/// Code for a level that has an array of its own.
void ColumnMap::whereMovesUp(unsigned level, llvm::function_ref<void()> body) {
  assert(level < levels && "levels are chosen before");
  Value condition = level < movesUp.size() ? movesUp[level] : Value();
  if (condition)
    e.openIf(condition);
  body();
  if (condition)
    e.closeIf();
}

/// The neutral element; combining with it changes nothing.
void ColumnMap::fill(const Pass &pass, unsigned level) {
  whereMovesUp(level, [&] {
    forEachColumn([&](const ElementIndex &) {
      for (Operation *op : pass.reductions)
        storeArray(accumulators[op][level], e.identity(op, e.getLanes()));
    });
  });
}

/// Adds the sums of `level` into those above, and leaves it empty.
void ColumnMap::moveUp(const Pass &pass, unsigned level) {
  whereMovesUp(level, [&] {
    forEachColumn([&](const ElementIndex &) {
      for (Operation *op : pass.reductions) {
        ArrayRef<Array> arrays = accumulators[op];
        Value sum = e.combine(op, loadArray(arrays[level + 1]), loadArray(arrays[level]));
        storeArray(arrays[level + 1], sum);
        storeArray(arrays[level], e.identity(op, e.getLanes()));
      }
    });
  });
}

/// Sums the rows [begin, end) into the arrays of `level`; those below are empty before and after.
void ColumnMap::rows(const Pass &pass, Value begin, Value end, unsigned level) {
  if (level == 0) {
    auto loop = e.openLoop(begin, end, e.constantIndex(1));
    Index outer = e.delinearize(loop.getInductionVar(), outerReducedSizes);
    forEachColumn([&](const ElementIndex &column) {
      setSpaceIndex(outer, column);
      Values mapped = emitRoots(pass);
      for (auto [op, value] : llvm::zip_equal(pass.reductions, mapped)) {
        const Array &array = accumulators[op][0];
        storeArray(array, e.combine(op, loadArray(array), value));
      }
    });
    e.closeLoop(loop);
    return;
  }
  int64_t width = 1;
  for (unsigned i = 0; i < level; ++i)
    width *= kBlock;
  Value step = e.constantIndex(width);
  // Each round fills the level below, which then moves up and is empty again.
  auto loop = e.openLoop(begin, end, step);
  Value first = loop.getInductionVar();
  rows(pass, first, e.minIndex(e.addIndex(first, step), end), level - 1);
  moveUp(pass, level - 1);
  e.closeLoop(loop);
}

/// A few rows, whose number is known, of a formula that is not long.
bool ColumnMap::isWrittenOut(const Pass &pass) const {
  return !pass.reductions.empty() && knownOuterReduced && *knownOuterReduced <= kBlock &&
         *knownOuterReduced * int64_t(s.cost) <= kWrittenOut &&
         llvm::all_of(outerReducedSizes, [](DimAttr size) { return size.getConstant(); });
}

/// Row after row for each vector of columns, in the order of `rows`. What rows have in common, the
/// edges of windows and what they are multiplied with, is computed once.
void ColumnMap::writeOut(const Pass &pass) {
  assert(levels == 1 && "no more rows than a level has");
  forEachColumn([&](const ElementIndex &column) {
    Values sums;
    for (Operation *op : pass.reductions)
      sums.push_back(e.identity(op, e.getLanes()));
    for (int64_t row = 0; row < *knownOuterReduced; ++row) {
      Index outer(outerReducedSizes.size());
      int64_t rest = row;
      for (size_t axis = outer.size(); axis-- > 0;) {
        const int64_t size = *outerReducedSizes[axis].getConstant();
        outer[axis] = e.constant(rest % size);
        rest /= size;
      }
      setSpaceIndex(outer, column);
      Values mapped = emitRoots(pass);
      for (auto [op, sum, value] : llvm::zip_equal(pass.reductions, sums, mapped))
        sum = e.combine(op, sum, value);
    }
    for (auto [op, sum] : llvm::zip_equal(pass.reductions, sums))
      storeArray(accumulators[op][0], sum);
  });
}

/// A total is at the last level once its pass is done.
Value ColumnMap::lookUp(Value value, ArrayRef<ElementIndex> index) {
  if (ready.contains(value) && KernelEmitter::same(index, e.keptIndex)) {
    if (auto stash = keptStashes.find(value); stash != keptStashes.end())
      return loadArray(stash->second);
    return loadArray(accumulators[value.getDefiningOp()].back());
  }
  return storedResult(value, index);
}

void ColumnMap::run() {
  DimAttr columns = s.space[s.vectorAxis];
  e.setLanes(lanesFor(columns));
  e.resident = [this](Value value, ArrayRef<ElementIndex> index) { return lookUp(value, index); };
  // One level for each factor kBlock of rows.
  // With an unknown number of rows all levels are there, and those that are not needed are skipped
  // at run time.
  int64_t width = kBlock;
  for (; levels < kColumnLevels && !(knownOuterReduced && *knownOuterReduced <= width); ++levels) {
    movesUp.push_back(knownOuterReduced ? Value()
                                        : e.lessIndex(e.constantIndex(width), outerReducedCount));
    width *= kBlock;
  }
  for (const Pass &pass : s.passes) {
    for (Operation *op : pass.reductions)
      makeAccumulators(op);
    for (Value value : pass.keptStashes)
      keptStashes[value] = newArray(getElementType(value));
  }

  Value item = e.openItems();
  SmallVector<DimAttr> outerSizes;
  for (int64_t axis : s.kept)
    if (axis < s.vectorAxis)
      outerSizes.push_back(s.space[axis]);
  vectorPosition = outerSizes.size();
  // Items are blocks of columns, for each position of the axes before.
  Value size = e.dim(columns), block = e.constantIndex(kColumnBlock), row = item;
  Value round = e.addIndex(size, e.constantIndex(kColumnBlock - 1));
  Value blocks = e.divIndex(round, block), number = item;
  row = e.divIndex(item, blocks);
  number = e.remIndex(item, blocks);
  lower = e.mulIndex(number, block);
  upper = e.minIndex(e.addIndex(lower, block), size);
  e.keptIndex = e.delinearize(row, outerSizes);
  e.keptIndex.resize(s.kept.size(), e.constant(0));

  for (auto [index, pass] : llvm::enumerate(s.passes)) {
    e.pass = index;
    // Nothing is summed: rows in one loop.
    if (pass.reductions.empty()) {
      rows(pass, e.constantIndex(0), outerReducedCount, 0);
    } else if (isWrittenOut(pass)) {
      writeOut(pass);
    } else {
      for (unsigned level = 0; level < levels; ++level)
        fill(pass, level);
      rows(pass, e.constantIndex(0), outerReducedCount, levels - 1);
    }
    for (Operation *op : pass.reductions)
      ready.insert(op->getResult(0));
    // For the space of later passes, which reads them once for each row.
    for (Value value : pass.keptStashes) {
      forEachColumn([&](const ElementIndex &) {
        e.spaceIndex.clear();
        storeArray(keptStashes[value], e.evaluateLanes(value, e.keptIndex));
      });
      ready.insert(value);
    }
  }
  e.pass = s.passes.size();
  e.spaceIndex.clear();
  // Made of totals, for each column.
  if (!s.keptResults.empty())
    forEachColumn([&](const ElementIndex &) {
      Values values;
      for (unsigned result : s.keptResults)
        values.push_back(e.evaluateLanes(yield->getOperand(result), e.keptIndex));
      for (auto [result, value] : llvm::zip_equal(s.keptResults, values))
        e.store(result, e.keptIndex, value);
    });
  e.closeItems();
}

void mapColumn(CpuEmitter &emitter) { ColumnMap(emitter).run(); }

} // namespace trainc::codegen
