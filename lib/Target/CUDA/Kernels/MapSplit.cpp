// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Few rows on many blocks: a block sweeps a part of the reduced positions of a row, and the parts'
// results are combined by one block a row (StagedReduction.h). The positions are taken in the order
// in which most of what is read lies in memory: a function of the kernel only.
//
// The order of a reduction: a thread's vectors, in rounds of a few; the lanes; the threads of the
// block; then the parts, in the same way.

#include "Accesses.h"
#include "StagedReduction.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Fewer rows than processors, each long or of unknown length.
bool isFewLongRows(const Structure &s) {
  constexpr int64_t kFewRows = 132, kLongRow = 32768;
  MLIRContext *context = s.space.front().getContext();
  auto rows = productOf(context, s.space, s.kept).getConstant();
  auto length = productOf(context, s.space, s.reduced).getConstant();
  return rows && *rows < kFewRows && (!length || *length >= kLongRow);
}

namespace {

/// Vectors of a part, at least, and what it is a multiple of.
constexpr int64_t kPartVectors = 2048;
/// Blocks of all rows together, at most.
constexpr int64_t kSplitBlocks = 2 * kTileBlocks;

struct SplitShape {
  SplitShape(FusionOp fusion, const Structure &s);

  /// The reduced axes, outermost loop first; vectors lie along the last.
  SmallVector<int64_t> order;
  int64_t vectorAxis;
  unsigned lanes;
  /// Rows; vectors of a row, and of the vector axis.
  DimAttr rows, vectors, axisVectors;
  /// Blocks that share a row, and how many vectors each has.
  DimAttr parts, partVectors;
};

} // namespace

/// The reduced axes in the space's order, or in that of an input where more is read along its
/// innermost axis.
static SmallVector<int64_t> chooseOrder(FusionOp fusion, const Structure &s,
                                        ArrayRef<InputAccess> accesses) {
  SmallVector<int64_t> bytes(s.space.size());
  for (const InputAccess &access : accesses)
    bytes[access.inner] += access.bytes;
  for (const Pass &pass : s.passes)
    for (unsigned result : pass.results)
      bytes[s.vectorAxis] += getElementBytes(getElementTypeOrSelf(fusion.getResultTypes()[result]));
  const InputAccess *best = nullptr;
  for (const InputAccess &access : accesses)
    if (s.isReduced(access.inner) && bytes[access.inner] > bytes[best ? best->inner : s.vectorAxis])
      best = &access;
  SmallVector<int64_t> order;
  auto add = [&](int64_t axis, int64_t last) {
    if (s.isReduced(axis) && axis != last && !llvm::is_contained(order, axis))
      order.push_back(axis);
  };
  // The input along whose innermost axis most bytes lie decides; its axes come in its own order.
  int64_t last = best ? best->inner : s.vectorAxis;
  if (best)
    for (int64_t axis : best->axes)
      add(axis, last);
  // All, or those of size 1.
  for (int64_t axis : s.reduced)
    add(axis, last);
  order.push_back(last);
  return order;
}

/// Depends on fusion and structure only: plan and map make the same.
SplitShape::SplitShape(FusionOp fusion, const Structure &s) {
  MLIRContext *context = fusion.getContext();
  SmallVector<InputAccess> accesses = findAccesses(fusion, s);
  // Only inputs of the whole space are worth an order.
  llvm::erase_if(accesses, [](const InputAccess &access) { return !access.isFull; });
  order = chooseOrder(fusion, s, accesses);
  vectorAxis = order.back();
  SmallVector<Type> types;
  for (const InputAccess &access : accesses)
    if (access.inner == vectorAxis)
      types.push_back(fusion.getInputs()[access.argument].getType());
  DimAttr axis = s.space[vectorAxis];
  lanes = axis.getConstant() ? chooseLanes(fusion, s, axis, types) : 1;
  axisVectors = ceilDim(axis, lanes);
  rows = productOf(context, s.space, s.kept);
  vectors = axisVectors;
  for (int64_t reduced : s.reduced)
    if (reduced != vectorAxis)
      vectors = vectors * s.space[reduced];
  DimAttr most = ceilDim(DimAttr::constant(context, kSplitBlocks), atLeastOne(rows));
  parts = atLeastOne(minDim(ceilDim(vectors, kPartVectors), most));
  // Threads of a block begin at the same place of a line of memory.
  DimAttr threads = DimAttr::constant(context, kTileThreads);
  partVectors = ceilDim(ceilDim(vectors, parts), kTileThreads) * threads;
}

void planSplit(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  SplitShape shape(fusion, s);
  plan.lanes = shape.lanes;
  plan.unroll = chooseUnroll(fusion, s, shape.lanes);
  planStages(ReductionStages(fusion, s, shape.parts), shape.rows * shape.parts, shape.rows, plan);
}

namespace {

class SplitMap final : StagedReduction {
public:
  explicit SplitMap(GpuKernel &kernel, const SplitShape &shape)
      : StagedReduction(kernel, shape.parts, shape.vectorAxis, shape.order), shape(shape) {}
  void run();

private:
  void moveToVector(Value vector);
  Values sweepPart(const Pass &pass, Value row, Value part);
  Values combineParts(const Pass &pass, Value row);

  const SplitShape &shape;
};

} // namespace

/// The position of a vector, counted in `order`.
void SplitMap::moveToVector(Value vector) {
  Value axis = e->dim(shape.axisVectors);
  Value column = vector;
  Index outer(outerReduced.size(), e->constant(0));
  if (shape.axisVectors != shape.vectors) {
    column = e->remIndex(vector, axis);
    outer = e->delinearize(e->divIndex(vector, axis), outerReducedSizes);
  }
  setSpaceIndex(outer, vectorAt(*e, column, shape.lanes));
  // One row is the whole space.
  if (shape.rows.isConstant(1) && shape.vectorAxis == s.vectorAxis)
    e->spaceOffset = vectorAt(*e, vector, shape.lanes);
}

/// A contiguous part of the row's vectors, the block's threads side by side.
Values SplitMap::sweepPart(const Pass &pass, Value row, Value part) {
  e->setLanes(shape.lanes);
  e->keptIndex = e->delinearize(row, keptSizes);
  Value count = e->dim(shape.partVectors), first = e->mulIndex(part, count);
  Value end = e->minIndex(e->addIndex(first, count), e->dim(shape.vectors));
  Values values = sweep(pass, e->addIndex(first, e->thread()), end, kTileThreads,
                        kernel.plan.unroll, [&](Value vector) { moveToVector(vector); });
  for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
    value = e->combineLanes(op, value);
  return values;
}

/// Partial results of one row, by one block, in ascending order.
Values SplitMap::combineParts(const Pass &pass, Value row) {
  e->setLanes(1);
  e->keptIndex = e->delinearize(row, keptSizes);
  Value parts = e->dim(shape.parts), first = e->mulIndex(row, parts);
  auto body = [&](ArrayRef<Value> at, ValueRange sums) {
    SmallVector<Values> loaded(at.size());
    for (auto [position, list] : llvm::zip_equal(at, loaded))
      for (Operation *op : pass.reductions)
        list.push_back(loadPartial(op, {e->addIndex(first, position), 0, {}}));
    Values result(sums);
    for (const Values &list : loaded)
      result = combineAll(pass, result, list);
    return result;
  };
  return stridedLoop(*e, e->thread(), parts, kTileThreads, 4, identities(pass), body);
}

/// A pass is a sweep that leaves partial results, and their totals.
void SplitMap::run() {
  for (const ReductionStages::Stage &stage : layout.stages) {
    const Pass &pass = s.passes[stage.pass];
    begin(stage.pass);
    Value row = e->block(), part = e->constantIndex(0);
    if (stage.sweeps) {
      Value parts = e->dim(shape.parts);
      row = e->divIndex(e->block(), parts);
      part = e->remIndex(e->block(), parts);
    }
    Values values = stage.sweeps ? sweepPart(pass, row, part) : combineParts(pass, row);
    if (!pass.reductions.empty()) {
      values = e->combineBlock(pass.reductions, values);
      e->setLanes(1);
      setTotals(pass, values);
      // One thread has the block's result to store.
      e->openIf(e->lessIndex(e->thread(), e->constantIndex(1)));
      if (!stage.totals) {
        Value place = e->addIndex(e->mulIndex(row, e->dim(shape.parts)), part);
        for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
          storePartial(op, {place, 0, {}}, value);
      } else {
        storeTotals(stage.pass, values);
      }
      if (stage.totals && stage.pass == layout.lastReducing)
        storeKept();
      e->closeIf();
    }
    e->finish();
  }
}

void mapSplit(GpuKernel &kernel) {
  SplitShape shape(kernel.fusion, kernel.structure);
  SplitMap(kernel, shape).run();
}

} // namespace trainc::codegen
