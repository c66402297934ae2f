// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A slice with a step has a gradient with gaps, and what is joined of such slices again is copied
// element by element. With neighbours along an axis of their own both are parts of that.

#include "lib/Transforms/RaiseIdioms/InterleavedAxes.h"

#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Neighbours are read together: more of them are no pairs or triples, but a shorter row.
static constexpr int64_t kMostNeighbours = 8;

/// The step of a slice that takes every n-th element of whole rows, and all of the other axes.
static std::optional<int64_t> stepOfRows(SliceOp slice) {
  const SmallVector<DimAttr> from = getDims(slice.getOperand()), to = getDims(slice.getResult());
  if (from.empty())
    return std::nullopt;
  const int64_t step = slice.getSteps().back();
  const std::optional<int64_t> start = slice.getStarts().getDims().back().getConstant();
  const bool isWhole = ArrayRef(from).drop_back() == ArrayRef(to).drop_back() &&
                       llvm::all_of(slice.getSteps().drop_back(), [](int64_t s) { return s == 1; });
  if (!isWhole || step < 2 || step > kMostNeighbours || !start || *start >= step ||
      to.back() * DimAttr::constant(from.back().getContext(), step) != from.back())
    return std::nullopt;
  return step;
}

void trainc::splitInterleaved(func::FuncOp function) {
  // By the value that is sliced and the step, in program order.
  llvm::MapVector<std::pair<Value, int64_t>, SmallVector<SliceOp>> slices;
  for (SliceOp slice : function.getBody().front().getOps<SliceOp>())
    if (std::optional<int64_t> step = stepOfRows(slice))
      slices[{slice.getOperand(), *step}].push_back(slice);
  OpBuilder builder(function.getContext());
  for (auto &[key, parts] : slices) {
    if (parts.size() < 2)
      continue;
    const auto [value, step] = key;
    for (SliceOp slice : parts) {
      builder.setInsertionPoint(slice);
      TrainBuilder tb(builder, slice.getLoc());
      const SmallVector<DimAttr> dims = getDims(slice.getResult());
      SmallVector<DimAttr> apart = dims;
      apart.push_back(tb.dimAttr(step));
      Value part = tb.sliceAxis(tb.reshape(value, apart), dims.size(),
                                slice.getStarts().getDims().back(), tb.dimAttr(1));
      slice.getResult().replaceAllUsesWith(tb.reshape(part, dims));
      slice.erase();
    }
  }
}
