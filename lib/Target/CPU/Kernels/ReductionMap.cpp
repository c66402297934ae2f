// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums in blocks: in registers, or in arrays of a block of columns.

#include "ReductionMap.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

ReductionMap::ReductionMap(CpuEmitter &e)
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

/// Kept axes are where the item is, reduced ones where the loops are.
void ReductionMap::setSpaceIndex(ArrayRef<ElementIndex> outer, const ElementIndex &vector) {
  e.spaceIndex.assign(s.space.size(), e.constant(0));
  for (auto [axis, index] : llvm::zip_equal(s.kept, e.keptIndex))
    e.spaceIndex[axis] = index;
  for (auto [axis, index] : llvm::zip_equal(outerReduced, outer))
    e.spaceIndex[axis] = index;
  e.spaceIndex[s.vectorAxis] = vector;
}

/// Null where it has to be computed: no earlier pass has stored it, or not at this place.
Value ReductionMap::storedResult(Value value, ArrayRef<ElementIndex> index) {
  auto stored = storedIn.find(value);
  if (stored == storedIn.end() || stored->second.first >= e.pass || isa<BlockArgument>(value) ||
      !KernelEmitter::same(index, e.spaceIndex))
    return {};
  return e.load(e.fusion.getInputs().size() + stored->second.second, value.getType(), index);
}

/// All is computed before anything is stored: a result may lie where an operand does.
Values ReductionMap::emitRoots(const Pass &pass) {
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

Values ReductionMap::identities(const Pass &pass) {
  Values values;
  for (Operation *op : pass.reductions)
    values.push_back(e.identity(op, e.getLanes()));
  return values;
}

Values ReductionMap::combineAll(const Pass &pass, ValueRange a, ValueRange b) {
  Values values;
  for (auto [i, op] : llvm::enumerate(pass.reductions))
    values.push_back(e.combine(op, a[i], b[i]));
  return values;
}

/// Sums [lower, upper) in blocks of levels[0] leaves, blocks of levels[1] such blocks, and so on.
/// The tree depends on the count alone.
Values ReductionMap::cascade(const Pass &pass, Value lower, Value upper, int64_t step,
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

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// The last block of a row of columns may be shorter.
void ColumnSums::setBlock(Value number) {
  SmallVector<DimAttr> outerSizes;
  for (int64_t axis : s.kept)
    if (axis < s.vectorAxis)
      outerSizes.push_back(s.space[axis]);
  vectorPosition = outerSizes.size();
  Value size = e.dim(s.space[s.vectorAxis]), block = e.constantIndex(blockColumns);
  Value round = e.addIndex(size, e.constantIndex(blockColumns - 1));
  Value blocks = e.divIndex(round, block);
  Value row = e.divIndex(number, blocks);
  lower = e.mulIndex(e.remIndex(number, blocks), block);
  upper = e.minIndex(e.addIndex(lower, block), size);
  e.keptIndex = e.delinearize(row, outerSizes);
  e.keptIndex.resize(s.kept.size(), e.constant(0));
}

/// 8 bytes an element, whatever the type: arrays stay aligned.
ColumnSums::Array ColumnSums::newArray(Type element) {
  Value offset = e.constantIndex(arrayCount++ * blockColumns * 8);
  return {e.scratch(offset), element};
}

/// A level whose sums never move up shares its array with the level above.
void ColumnSums::makeAccumulators(Operation *op) {
  SmallVector<Value> offsets(levels);
  for (unsigned level = levels; level-- > 0;) {
    offsets[level] = e.constantIndex(arrayCount++ * blockColumns * 8);
    if (level + 1 < levels && movesUp[level])
      offsets[level] = e.selectIndex(movesUp[level], offsets[level], offsets[level + 1]);
  }
  for (Value offset : offsets)
    accumulators[op].push_back({e.scratch(offset), getElementType(op->getResult(0))});
}

/// Blocks that are not the last one are whole; `size` is known only if all are.
void ColumnSums::forEachColumn(llvm::function_ref<void(const ElementIndex &)> body) {
  std::optional<int64_t> size = s.space[s.vectorAxis].getConstant();
  if (size && *size > blockColumns)
    size = *size % blockColumns == 0 ? std::optional<int64_t>(blockColumns) : std::nullopt;
  forEachVector(e, lower, upper, size, [&](const ElementIndex &column) {
    e.keptIndex[vectorPosition] = column;
    body(column);
  });
}

/// Code for a level that has an array of its own.
void ColumnSums::whereMovesUp(unsigned level, llvm::function_ref<void()> body) {
  assert(level < levels && "levels are chosen before");
  Value condition = level < movesUp.size() ? movesUp[level] : Value();
  if (condition)
    e.openIf(condition);
  body();
  if (condition)
    e.closeIf();
}

/// The neutral element; combining with it changes nothing.
void ColumnSums::fill(const Pass &pass, unsigned level) {
  whereMovesUp(level, [&] {
    forEachColumn([&](const ElementIndex &) {
      for (Operation *op : pass.reductions)
        storeArray(accumulators[op][level], e.identity(op, e.getLanes()));
    });
  });
}

/// Adds the sums of `level` into those above, and leaves it empty.
void ColumnSums::moveUp(const Pass &pass, unsigned level) {
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
void ColumnSums::rows(const Pass &pass, Value begin, Value end, unsigned level) {
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

} // namespace trainc::codegen
