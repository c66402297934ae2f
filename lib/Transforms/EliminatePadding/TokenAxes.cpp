// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes are found again by the number of elements before them.

#include "lib/Transforms/EliminatePadding/TokenAxes.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The axis with `before` elements before it and of size `dim`, or -1.
/// By sizes, not by positions: a reshape says nothing else.
static int64_t findAxis(ArrayRef<DimAttr> dims, DimAttr before, DimAttr dim) {
  DimAttr count = DimAttr::constant(dim.getContext(), 1);
  for (auto [axis, size] : llvm::enumerate(dims)) {
    // Sizes are compared as expressions: equal for every batch.
    if (count == before && size == dim)
      return axis;
    count = count * size;
  }
  return -1;
}

/// As findAxis, for an axis of samples with something merged into it or not.
static int64_t findSamples(ArrayRef<DimAttr> dims, DimAttr before, DimAttr samples) {
  for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
    if (product(samples.getContext(), dims.take_front(axis)) == before &&
        divideExactly(dims[axis], samples))
      return axis;
  return -1;
}

/// The same for a merged axis of tokens.
static int64_t findTokens(ArrayRef<DimAttr> dims, DimAttr before, DimAttr samples,
                          DimAttr positions) {
  for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
    if (product(samples.getContext(), dims.take_front(axis)) == before &&
        rowsPerItem(dims, {axis}, samples, positions))
      return axis;
  return -1;
}

/// How many rows each sample (two axes) or each token (one) has; null where the axes are no axes of
/// tokens. A symbolic number of rows for each token would not be told from positions.
DimAttr trainc::rowsPerItem(ArrayRef<DimAttr> dims, const TokenAxes &axes, DimAttr samples,
                            DimAttr positions) {
  if (axes.size() == 1) {
    DimAttr rows = divideExactly(dims[axes[0]], samples * positions);
    return rows && rows.getConstant() ? rows : DimAttr();
  }
  return dims[axes[1]] == positions ? divideExactly(dims[axes[0]], samples) : DimAttr();
}

/// Where the axes of tokens lie behind a view; empty if the view mixes them with others.
TokenAxes trainc::throughView(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to, const TokenAxes &axes,
                              DimAttr samples, DimAttr positions) {
  MLIRContext *context = samples.getContext();
  auto before = [&](int64_t axis) { return product(context, from.take_front(axis)); };
  if (axes.size() == 2) {
    int64_t row = findSamples(to, before(axes[0]), samples);
    int64_t column = findAxis(to, before(axes[1]), from[axes[1]]);
    if (row >= 0 && column >= 0)
      return {row, column};
    // Side by side they may become one.
    // Rows of one sample must lie side by side, with nothing between both axes but the samples.
    if (axes[0] > axes[1] || from[axes[0]] != samples ||
        product(context, from.slice(axes[0], axes[1] - axes[0])) != samples)
      return {};
    int64_t merged = findTokens(to, before(axes[0]), samples, from[axes[1]]);
    return merged < 0 ? TokenAxes() : TokenAxes{merged};
  }
  int64_t merged = findTokens(to, before(axes[0]), samples, positions);
  if (merged >= 0)
    return {merged};
  int64_t row = findAxis(to, before(axes[0]), samples);
  // A merged axis that the view takes apart again.
  int64_t column = findAxis(to, before(axes[0]) * samples, positions);
  if (row < 0 || column < 0)
    return {};
  return {row, column};
}

/// Empty if one of the axes runs over no loop.
SmallVector<unsigned> trainc::loopsOf(ArrayRef<int> entry, const TokenAxes &axes) {
  SmallVector<unsigned> loops;
  for (int64_t axis : axes) {
    if (axis >= int64_t(entry.size()) || entry[axis] < 0)
      return {};
    loops.push_back(entry[axis]);
  }
  return loops;
}
