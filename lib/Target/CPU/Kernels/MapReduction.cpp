// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The row and column templates on the CPU.
//
// Accuracy and determinism: sums run in a cascade of short blocks, whose shape depends on the sizes
// only. A row keeps its accumulators in registers; a block of columns keeps them in scratch, which
// lets one loop body serve any number of columns and reductions.

#include "ReductionMap.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Vectors of a row, and blocks of them, that are summed before the sum moves up: the lanes are
/// chains of their own, which makes up for the length.
constexpr int64_t kVectorBlock = 32, kUpperVectorBlock = 64;
/// Instructions, about, of all rows of a block of columns: up to there they are written out, sums
/// in registers. Taps of windows are such rows.
constexpr int64_t kWrittenOut = 512;

class RowMap final : ReductionMap {
public:
  using ReductionMap::ReductionMap;
  void run();

private:
  Values vectors(const Pass &pass, ArrayRef<ElementIndex> outer, ValueRange accumulators);
  Values leaf(const Pass &pass, ArrayRef<ElementIndex> outer, Value i, Value mask,
              ValueRange accumulators);
  void storeStash(Value value, Value lanes) override;
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

class ColumnMap final : ColumnSums {
public:
  explicit ColumnMap(CpuEmitter &e) : ColumnSums(e, kColumnBlock) {}
  void run();

private:
  bool isWrittenOut(const Pass &pass) const;
  void writeOut(const Pass &pass);
  Value lookUp(Value value, ArrayRef<ElementIndex> index);
  llvm::DenseMap<Value, Array> keptStashes;
  llvm::DenseSet<Value> ready;
};

} // namespace

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
  setBlock(item);

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
