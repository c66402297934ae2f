// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pointwise template on the GPU, and what the plans of all templates share. A thread computes a
// few vectors that lie a block's width apart: all their loads come before the first store.

#include "MapTransposed.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

static constexpr int64_t kThreads = 256;
/// Blocks that fill the machine; smaller problems get less work a thread.
/// Two blocks for each of 132 processors.
static constexpr int64_t kManyBlocks = 264;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Whether vectors along the vector axis are read or written all over: what has the space's shape.
/// In sums of columns also what has them as neighbours in memory, while the rows are joined, cut or
/// seen through windows, and results without the rows; what has one axis in front or none is
/// little.
static bool isAllOver(Type type, const Structure &s) {
  SmallVector<DimAttr> dims = getDims(type);
  if (dims == s.space)
    return true;
  if (s.kind != Template::Column || dims.size() < 2 || dims.back() != s.space[s.vectorAxis])
    return false;
  return dims.size() > 2 || product(type.getContext(), dims) == product(type.getContext(), s.space);
}

/// Whole vectors of 16 bytes for the narrowest type of the space, halved until they divide a known
/// axis.
unsigned chooseLanes(FusionOp fusion, const Structure &s, DimAttr axis, ArrayRef<Type> others) {
  int64_t narrowest = 16;
  auto look = [&](Type type) {
    int64_t bytes = getElementBytes(getElementTypeOrSelf(type));
    // Booleans and bytes go along with whatever is wider.
    if (bytes > 1)
      narrowest = std::min(narrowest, bytes);
  };
  for (Type type : llvm::concat<const Type>(fusion.getInputs().getTypes(), fusion.getResultTypes()))
    if (isAllOver(type, s))
      look(type);
  for (Type type : others)
    look(type);
  unsigned lanes = narrowest == 16 ? 4 : unsigned(16 / narrowest);
  if (auto size = axis.getConstant())
    while (*size % lanes != 0)
      lanes /= 2;
  return lanes;
}

unsigned countSpaceInputs(FusionOp fusion, const Structure &s) {
  return llvm::count_if(fusion.getInputs().getTypes(),
                        [&](Type type) { return isAllOver(type, s); });
}

/// The last one may reach beyond the end of a symbolic axis.
Value wholeVectors(GpuEmitter &e, DimAttr axis, unsigned lanes) {
  Value size = e.addIndex(e.dim(axis), e.constantIndex(lanes - 1));
  return e.divIndex(size, e.constantIndex(lanes));
}

void planPointwise(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  MLIRContext *context = fusion.getContext();
  if (s.vectorAxis < 0) {
    plan.stages = {{"", DimAttr::constant(context, 1), kWarp}};
    return;
  }
  if (auto shape = TransposedShape::choose(fusion, s)) {
    shape->plan(fusion, s, plan);
    return;
  }
  DimAttr elements = product(context, s.space);
  // A flat kernel leaves what is behind the last whole vector to scalar code.
  DimAttr axis = s.flat ? DimAttr::constant(context, 16) : s.space[s.vectorAxis];
  // Parts of a join are not of its shape.
  SmallVector<Type> parts;
  for (const Store &place : s.stores)
    if (!place.starts.empty())
      parts.push_back(place.value.getType());
  plan.lanes = chooseLanes(fusion, s, axis, parts);
  int64_t inputs = std::max(1u, countSpaceInputs(fusion, s)), cost = std::max(1u, s.cost);
  // Registers, loads in flight and code are bounded; so is work that would leave processors idle.
  auto isTooMuch = [&](int64_t unroll) {
    int64_t values = unroll * plan.lanes;
    auto known = elements.getConstant();
    return values > 16 || values * inputs > 32 || values * cost > 512 ||
           (known && *known < values * kThreads * kManyBlocks);
  };
  // Scalars need more in flight for the same bytes.
  plan.unroll = plan.lanes == 1 ? 8 : 4;
  while (plan.unroll > 1 && isTooMuch(plan.unroll))
    plan.unroll /= 2;
  plan.stages = {{"", ceilDim(elements, kThreads * plan.lanes * plan.unroll), kThreads}};
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

namespace {

class PointwiseMap {
public:
  explicit PointwiseMap(GpuKernel &kernel)
      : e(kernel.nextStage()), s(kernel.structure), plan(kernel.plan) {}

  void run();

private:
  /// In the order of the stores; nothing is stored while any is computed.
  Values results() {
    Values values;
    for (const Store &place : s.stores)
      values.push_back(e.evaluateLanes(place.value, e.spaceIndex));
    return values;
  }
  void store(ArrayRef<Value> values) {
    for (auto [place, value] : llvm::zip_equal(s.stores, values))
      e.store(place, e.spaceIndex, value);
  }
  void setPosition(Value vector, unsigned lanes, Value axisVectors);
  void vectors(Value first, Value count, DimAttr elements, unsigned lanes, unsigned unroll);

  GpuEmitter &e;
  const Structure &s;
  const GpuPlan &plan;
};

} // namespace

/// The position of a vector by its number in the space. `axisVectors`: vectors of the vector axis.
void PointwiseMap::setPosition(Value vector, unsigned lanes, Value axisVectors) {
  ElementIndex offset{e.mulIndex(vector, e.constantIndex(lanes)), lanes == 1 ? 0 : 1, {}};
  if (s.flat) {
    e.spaceIndex = {offset};
    return;
  }
  auto outer = ArrayRef<DimAttr>(s.space).take_front(s.vectorAxis);
  ElementIndex place = offset;
  // One row: the vector's number is its column.
  if (llvm::all_of(outer, [](DimAttr size) { return size.isConstant(1); })) {
    e.spaceIndex.assign(outer.size(), e.constant(0));
  } else {
    Value column = e.remIndex(vector, axisVectors);
    e.spaceIndex = e.delinearize(e.divIndex(vector, axisVectors), outer);
    place.base = e.mulIndex(column, e.constantIndex(lanes));
  }
  e.spaceIndex.push_back(place);
  e.spaceIndex.resize(s.space.size(), e.constant(0));
  // Known, so that `linearize` need not multiply.
  e.spaceOffset = offset;
}

/// The thread's vectors first + thread, first + threads + thread, ... below `count`. Threads beyond
/// it do the last vector as well and store nothing.
/// `elements`: of all vectors, and whatever is left behind them; null: unknown.
void PointwiseMap::vectors(Value first, Value count, DimAttr elements, unsigned lanes,
                           unsigned unroll) {
  std::optional<int64_t> known = elements ? elements.getConstant() : std::nullopt;
  if (known && *known < lanes)
    return;
  auto isWhole = [&](DimAttr size) {
    const int64_t block = e.threads() * unroll * lanes;
    return divideExactly(size, DimAttr::constant(size.getContext(), block)) != DimAttr();
  };
  const bool whole =
      known ? *known / lanes % (e.threads() * unroll) == 0 : elements && isWhole(elements);
  e.setLanes(lanes);
  Value axisVectors;
  if (!s.flat)
    axisVectors = wholeVectors(e, s.space[s.vectorAxis], lanes);
  if (!whole)
    e.openIf(e.lessIndex(first, count));
  // Loads of all rounds come first, then the stores: as many as possible are in flight.
  SmallVector<Values> values;
  SmallVector<Index> indices;
  SmallVector<std::optional<ElementIndex>> offsets;
  Values active;
  for (unsigned u = 0; u < unroll; ++u) {
    Value number = e.addIndex(e.addIndex(first, e.thread()), e.constantIndex(u * e.threads()));
    if (!whole) {
      active.push_back(e.lessIndex(number, count));
      number = e.minIndex(number, e.subIndex(count, e.constantIndex(1)));
      e.setActive(active.back());
    }
    setPosition(number, lanes, axisVectors);
    indices.push_back(e.spaceIndex);
    offsets.push_back(e.spaceOffset);
    values.push_back(results());
  }
  e.setActive({});
  for (unsigned u = 0; u < unroll; ++u) {
    e.spaceIndex = indices[u];
    e.spaceOffset = offsets[u];
    if (!whole)
      e.openIf(active[u]);
    store(values[u]);
    if (!whole)
      e.closeIf();
  }
  if (!whole)
    e.closeIf();
}

void PointwiseMap::run() {
  if (s.vectorAxis < 0) {
    // Scalars: one thread of one warp.
    e.openIf(e.lessIndex(e.thread(), e.constantIndex(1)));
    e.spaceIndex.assign(s.space.size(), e.constant(0));
    store(results());
    e.closeIf();
    e.finish();
    return;
  }
  unsigned lanes = plan.lanes, unroll = plan.unroll;
  DimAttr elements = product(e.fusion.getContext(), s.space);
  Value size = e.productOf(s.space), width = e.constantIndex(lanes);
  Value first = e.mulIndex(e.block(), e.constantIndex(e.threads() * unroll));
  Value count = e.divIndex(size, width);
  if (s.flat) {
    vectors(first, count, elements, lanes, unroll);
    // The last elements, fewer than a vector: by as many threads.
    if (!divideExactly(elements, DimAttr::constant(elements.getContext(), lanes))) {
      Value begin = e.mulIndex(count, width), rest = e.subIndex(size, begin);
      Value number = e.addIndex(first, e.thread());
      e.setLanes(1);
      e.openIf(e.lessIndex(number, rest));
      e.spaceIndex = {{e.addIndex(begin, number), 0, {}}};
      store(results());
      e.closeIf();
    }
  } else if (s.space[s.vectorAxis].getConstant() || lanes == 1) {
    vectors(first, count, elements, lanes, unroll);
  } else {
    // A symbolic row: as vectors if its length allows, else as scalars. Both are in the code.
    Value axis = e.dim(s.space[s.vectorAxis]), rest = e.remIndex(axis, width);
    Value one = e.constantIndex(1), zero = e.constantIndex(0);
    e.openIf(e.lessIndex(rest, one));
    e.assumeMultiple(axis, lanes);
    vectors(first, count, DimAttr(), lanes, unroll);
    e.assumeMultiple(axis, 1);
    e.closeIf();

    e.openIf(e.lessIndex(zero, rest));
    // As many elements as a thread would have had in vectors.
    unsigned scalars = lanes * unroll, together = std::min(4u, scalars);
    auto loop = e.openLoop(zero, e.constantIndex(scalars / together), one);
    Value begin = e.mulIndex(first, width);
    begin = e.addIndex(begin,
                       e.mulIndex(loop.getInductionVar(), e.constantIndex(e.threads() * together)));
    vectors(begin, size, DimAttr(), 1, together);
    e.closeLoop(loop);
    e.closeIf();
  }
  e.finish();
}

void mapPointwise(GpuKernel &kernel) {
  if (auto shape = TransposedShape::choose(kernel.fusion, kernel.structure))
    mapTransposed(kernel, *shape);
  else
    PointwiseMap(kernel).run();
}

} // namespace trainc::codegen
