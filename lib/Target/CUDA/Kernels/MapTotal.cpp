// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A flat form that is reduced to scalars: vectors of any number of elements, by as many blocks as
// there are parts of it. One part needs no second stage: the first has the result, and the second
// no blocks.
//
// The order of a reduction: a thread's vectors, in rounds of a few; the lanes; what is left behind
// the last vector; the threads of the block; then the parts, in the same way.

#include "FlatForm.h"
#include "StagedReduction.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Vectors of a part, at least, where there are several.
constexpr int64_t kPartVectors = 2048;
constexpr int64_t kMostParts = 2 * kTileBlocks;
/// Elements that one block reads sooner than a second stage begins.
constexpr int64_t kOnePart = 1 << 14;

struct TotalShape {
  TotalShape(FusionOp fusion, const Structure &s);

  unsigned lanes;
  /// Elements and whole vectors of the input; parts, and how many vectors each has.
  DimAttr size, vectors, parts, partVectors;
};

} // namespace

/// In terms of the symbolic length: a launch passes what it makes of its own.
TotalShape::TotalShape(FusionOp fusion, const Structure &s) : size(s.space.front()) {
  lanes = chooseLanes(fusion, s, size);
  vectors = floorDiv(size, DimAttr::constant(fusion.getContext(), lanes));
  // 1 up to kOnePart elements, and no limit behind that.
  DimAttr one = DimAttr::constant(fusion.getContext(), 1),
          most = DimAttr::constant(fusion.getContext(), kMostParts);
  DimAttr limit = one + (ceilDim(size, kOnePart) - one) * most;
  parts = atLeastOne(minDim(minDim(ceilDim(vectors, kPartVectors), most), limit));
  // Threads of a block begin at the same place of a line of memory.
  DimAttr threads = DimAttr::constant(fusion.getContext(), kTileThreads);
  partVectors = ceilDim(ceilDim(vectors, parts), kTileThreads) * threads;
}

void planTotal(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  TotalShape shape(fusion, s);
  plan.lanes = shape.lanes;
  plan.unroll = chooseUnroll(fusion, s, shape.lanes);
  DimAttr one = DimAttr::constant(fusion.getContext(), 1);
  planStages(ReductionStages(fusion, s, shape.parts), shape.parts, minDim(shape.parts - one, one),
             plan);
}

namespace {

class TotalMap final : StagedReduction {
public:
  TotalMap(GpuKernel &kernel, const TotalShape &shape)
      : StagedReduction(kernel, shape.parts), shape(shape), pass(s.passes.front()) {}
  void run();

private:
  Values addRound(ArrayRef<Value> places, ArrayRef<Value> wanted, ValueRange sums);
  Values sweepPart(Value part);
  Values combineParts();

  const TotalShape &shape;
  const Pass &pass;
};

} // namespace

/// Loads of all places come before their sum, which is a tree, and one step of `sums`. What is not
/// wanted is the first vector, which is there to be read, and does not count; empty: all are.
Values TotalMap::addRound(ArrayRef<Value> places, ArrayRef<Value> wanted, ValueRange sums) {
  const unsigned lanes = e->getLanes();
  auto moveTo = [&](size_t number) {
    Value place = places[number];
    if (!wanted.empty()) {
      place = e->selectIndex(wanted[number], place, e->constantIndex(0));
      e->setActive(wanted[number]);
    }
    setSpaceIndex({}, vectorAt(*e, place, lanes));
  };
  for (size_t number = 0; number < places.size(); ++number) {
    moveTo(number);
    for (Operation *op : pass.reductions)
      e->evaluateLanes(op->getOperand(0), e->spaceIndex);
  }
  SmallVector<Values> operands(places.size());
  for (size_t number = 0; number < places.size(); ++number) {
    moveTo(number);
    for (Operation *op : pass.reductions) {
      Value operand = e->mappedOperand(op, e->spaceIndex);
      if (!wanted.empty())
        operand = arith::SelectOp::create(e->builder(), e->loc(), wanted[number], operand,
                                          e->identity(op, lanes));
      operands[number].push_back(operand);
    }
  }
  e->setActive({});
  // Halves are added to each other.
  while (operands.size() > 1) {
    size_t half = (operands.size() + 1) / 2;
    for (size_t i = half; i < operands.size(); ++i)
      operands[i - half] = combineAll(pass, operands[i - half], operands[i]);
    operands.resize(half);
  }
  return combineAll(pass, sums, operands.front());
}

/// Whole rounds, then one with what is left: as many loads are in flight there.
Values TotalMap::sweepPart(Value part) {
  const unsigned unroll = kernel.plan.unroll;
  e->setLanes(shape.lanes);
  Value vectors = e->dim(shape.vectors), count = e->dim(shape.partVectors);
  Value first = e->mulIndex(part, count);
  // The last parts may be short or empty.
  Value end = e->minIndex(e->addIndex(first, count), vectors);
  Value begin = e->minIndex(e->addIndex(first, e->thread()), end);
  Value length = e->addIndex(e->subIndex(end, begin), e->constantIndex(kTileThreads - 1));
  Value round = e->constantIndex(kTileThreads * unroll);
  Value middle = e->addIndex(begin, e->mulIndex(e->divIndex(length, round), round));
  auto placesFrom = [&](Value place) {
    Values places;
    for (unsigned i = 0; i < unroll; ++i)
      places.push_back(e->addIndex(place, e->constantIndex(i * kTileThreads)));
    return places;
  };
  auto loop = e->openLoop(begin, middle, round, identities(pass));
  Values sums = e->closeLoop(
      loop, addRound(placesFrom(loop.getInductionVar()), {}, loop.getRegionIterArgs()));
  // Less than a round is left: once or not at all.
  loop = e->openLoop(middle, end, round, sums);
  Values places = placesFrom(loop.getInductionVar()), wanted;
  for (Value place : places)
    wanted.push_back(e->lessIndex(place, end));
  sums = e->closeLoop(loop, addRound(places, wanted, loop.getRegionIterArgs()));
  for (auto [op, sum] : llvm::zip_equal(pass.reductions, sums))
    sum = e->combineLanes(op, sum);
  if (shape.lanes == 1)
    return sums;
  // Fewer elements than a vector has: by as many threads of the first block.
  e->setLanes(1);
  Value zero = e->constantIndex(0), isFirst = e->lessIndex(part, e->constantIndex(1));
  Value limit = e->selectIndex(isFirst, e->dim(shape.size), zero);
  Value rest = e->addIndex(e->mulIndex(vectors, e->constantIndex(shape.lanes)), e->thread());
  loop = e->openLoop(rest, limit, e->constantIndex(kTileThreads), sums);
  return e->closeLoop(loop, addRound(loop.getInductionVar(), {}, loop.getRegionIterArgs()));
}

/// By one block, in ascending order.
Values TotalMap::combineParts() {
  e->setLanes(1);
  auto body = [&](ArrayRef<Value> parts, ValueRange sums) {
    SmallVector<Values> loaded(parts.size());
    for (auto [part, list] : llvm::zip_equal(parts, loaded))
      for (Operation *op : pass.reductions)
        list.push_back(loadPartial(op, {part, 0, {}}));
    Values result(sums);
    for (const Values &list : loaded)
      result = combineAll(pass, result, list);
    return result;
  };
  return stridedLoop(*e, e->thread(), e->dim(shape.parts), kTileThreads, 4, identities(pass), body);
}

/// The sweep's stage has the results where there is one part; the totals' has blocks where not.
void TotalMap::run() {
  for (const ReductionStages::Stage &stage : layout.stages) {
    begin(stage.pass);
    Value part = e->block(), one = e->constantIndex(1);
    Values values = stage.sweeps ? sweepPart(part) : combineParts();
    values = e->combineBlock(pass.reductions, values);
    e->setLanes(1);
    setTotals(pass, values);
    // One thread has the block's result to store.
    e->openIf(e->lessIndex(e->thread(), one));
    if (stage.sweeps) {
      for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
        storePartial(op, {part, 0, {}}, value);
      // The same for all blocks.
      e->openIf(e->lessIndex(e->dim(shape.parts), e->constantIndex(2)));
      storeKept();
      e->closeIf();
    } else {
      storeKept();
    }
    e->closeIf();
    e->finish();
  }
}

void mapTotal(GpuKernel &kernel) {
  assert(kernel.structure.space.size() == 1 && kernel.structure.passes.size() == 1 &&
         "flat forms have one axis, and nothing of totals but scalars");
  TotalShape shape(kernel.fusion, kernel.structure);
  TotalMap(kernel, shape).run();
}

} // namespace trainc::codegen
