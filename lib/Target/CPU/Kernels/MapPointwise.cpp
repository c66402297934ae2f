// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pointwise template on the CPU, how templates cut their space into work items, and the vector
// loop that all templates use.

#include "CpuEmitter.h"
#include "trainc/Codegen/ReductionStages.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// A power of two: enough for a short axis, kLanes for others.
unsigned lanesFor(DimAttr size) {
  auto value = size.getConstant();
  if (!value || *value > int64_t(kLanes / 2))
    return kLanes;
  unsigned lanes = 1;
  while (int64_t(lanes) < *value)
    lanes *= 2;
  return lanes;
}

/// `body` for whole vectors, then for the rest with a mask; without a loop where `size` says that
/// there is nothing. `size`: upper - lower, if it is known.
void forEachVector(CpuEmitter &emitter, Value lower, Value upper, std::optional<int64_t> size,
                   llvm::function_ref<void(const ElementIndex &)> body) {
  int64_t lanes = emitter.getLanes();
  if (lanes == 1) {
    auto loop = emitter.openLoop(lower, upper, emitter.constantIndex(1));
    body({loop.getInductionVar(), 0, {}});
    emitter.closeLoop(loop);
    return;
  }
  Value step = emitter.constantIndex(lanes), end = upper;
  if (size) {
    end = emitter.addIndex(lower, emitter.constantIndex(*size / lanes * lanes));
  } else {
    Value length = emitter.subIndex(upper, lower);
    end = emitter.addIndex(lower, emitter.subIndex(length, emitter.remIndex(length, step)));
  }
  if (!size || *size >= lanes) {
    auto loop = emitter.openLoop(lower, end, step);
    body({loop.getInductionVar(), 1, {}});
    emitter.closeLoop(loop);
  }
  // One round at most: the rest is shorter than a vector.
  if (!size || *size % lanes != 0) {
    auto loop = emitter.openLoop(end, upper, step);
    Value i = loop.getInductionVar();
    emitter.setTail(emitter.tailMask(emitter.subIndex(upper, i)));
    body({i, 1, {}});
    emitter.setTail({});
    emitter.closeLoop(loop);
  }
}

/// Rows up to twice the block stay whole.
/// One long block costs less than a short second one.
static bool isOneBlock(DimAttr size) {
  auto value = size.getConstant();
  return value && *value <= 2 * kPointwiseBlock;
}

/// Work items, scratch and grain of a launch; must cut the space as the map functions below do.
Launch planLaunch(FusionOp fusion, const Structure &s) {
  MLIRContext *context = fusion.getContext();
  auto constant = [&](int64_t value) { return DimAttr::constant(context, value); };
  DimAttr one = constant(1);
  Launch launch;
  launch.work = one;
  launch.scratchBytes = constant(0);
  DimAttr elements = one;
  SmallVector<DimAttr> space = s.space;
  switch (s.kind) {
  case Template::Pointwise:
    if (s.flat || s.vectorAxis < 0) {
      // A flat space is cut without regard to its axes.
      elements = product(context, space);
      launch.work = s.vectorAxis < 0 ? one : ceilDim(elements, kPointwiseBlock);
      elements = constant(
          std::min<int64_t>(elements.getConstant().value_or(kPointwiseBlock), kPointwiseBlock));
    } else {
      elements = space[s.vectorAxis];
      space[s.vectorAxis] = isOneBlock(elements) ? one : ceilDim(elements, kPointwiseBlock);
      launch.work = product(context, space);
    }
    break;
  case Template::Row: {
    launch.work = productOf(context, space, s.kept);
    elements = productOf(context, space, s.reduced);
    // A stash has an element for each position of the row.
    int64_t bytes = 0;
    for (const Pass &pass : s.passes)
      for (Value value : pass.stashes)
        bytes += getElementBytes(getElementType(value));
    launch.scratchBytes = elements * constant(bytes);
    break;
  }
  case Template::Column: {
    elements = productOf(context, space, s.reduced) * constant(kColumnBlock);
    space[s.vectorAxis] = ceilDim(space[s.vectorAxis], kColumnBlock);
    launch.work = productOf(context, space, s.kept);
    int64_t arrays = 0;
    // 8 bytes each: the widest element, whatever the arrays hold.
    for (const Pass &pass : s.passes)
      arrays += kColumnLevels * pass.reductions.size() + pass.keptStashes.size();
    launch.scratchBytes = constant(arrays * kColumnBlock * 8);
    break;
  }
  case Template::Product:
    break;
  case Template::Scatter:
  case Template::Scan: {
    bool scatter = s.kind == Template::Scatter;
    int64_t axis = scatter ? cast<ScatterOpInterface>(s.standalone).getScatterAxis()
                           : cast<ScanOpInterface>(s.standalone).getScanAxis();
    elements = space[axis] * constant(kColumnBlock);
    bool elementwise = scatter && !cast<ScatterOpInterface>(s.standalone).isRowScatter();
    if (scatter && !elementwise)
      launch.scratchBytes = sortedRowsBytes(s);
    // The axis of a scatter or scan is one work item's.
    space[axis] = one;
    int64_t last = int64_t(space.size()) - 1;
    if (axis != last && !elementwise)
      space[last] = ceilDim(space[last], kColumnBlock);
    launch.work = product(context, space);
    break;
  }
  }
  // A column of unknown length is taken for a long one.
  launch.grain = chooseGrain(
      double(elements.getConstant().value_or(s.kind == Template::Column ? 32768 : 512)), s);
  return launch;
}

/// About 10 microseconds of work, from a rough cost of an element.
int64_t chooseGrain(double elements, const Structure &s) {
  double nanoseconds = std::max(1.0, elements) * (0.5 + s.cost / 60.0);
  return std::max<int64_t>(1, int64_t(10000.0 / nanoseconds));
}

/// An item is a block of the flat space, or of one row of it.
void mapPointwise(CpuEmitter &e) {
  const Structure &s = e.structure;
  auto body = [&] { e.storeResults(); };

  if (s.vectorAxis < 0) {
    e.setLanes(1);
    e.openItems();
    e.spaceIndex.assign(s.space.size(), e.constant(0));
    body();
    e.closeItems();
    return;
  }

  DimAttr axisSize = s.flat ? product(e.fusion.getContext(), s.space) : s.space[s.vectorAxis];
  Value size = s.flat ? e.productOf(s.space) : e.dim(axisSize);
  e.setLanes(lanesFor(axisSize));
  Value item = e.openItems();
  bool blocked = s.flat || !isOneBlock(axisSize);
  std::optional<int64_t> known = axisSize.getConstant();
  Value lower = e.constantIndex(0), upper = size;
  Value row = item;
  // Blocks of a row follow each other.
  if (blocked) {
    Value block = item;
    if (!s.flat) {
      Value round = e.addIndex(size, e.constantIndex(kPointwiseBlock - 1));
      Value blocks = e.divIndex(round, e.constantIndex(kPointwiseBlock));
      row = e.divIndex(item, blocks);
      block = e.remIndex(item, blocks);
    }
    lower = e.mulIndex(block, e.constantIndex(kPointwiseBlock));
    upper = e.minIndex(e.addIndex(lower, e.constantIndex(kPointwiseBlock)), size);
    // All blocks are whole, or the last one ends where it ends.
    known = known && *known % kPointwiseBlock == 0 ? std::optional<int64_t>(kPointwiseBlock)
                                                   : std::nullopt;
  }
  Index outer;
  if (!s.flat)
    outer = e.delinearize(row, ArrayRef<DimAttr>(s.space).take_front(s.vectorAxis));
  forEachVector(e, lower, upper, known, [&](const ElementIndex &i) {
    e.spaceIndex = outer;
    e.spaceIndex.push_back(i);
    if (!s.flat)
      e.spaceIndex.resize(s.space.size(), e.constant(0));
    body();
  });
  e.closeItems();
}

} // namespace trainc::codegen
