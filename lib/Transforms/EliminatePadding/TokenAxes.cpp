// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes are found again by the number of elements before them.

#include "lib/Transforms/EliminatePadding/TokenAxes.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The axis with `before` elements before it and of size `dim`, or -1.
static int64_t findAxis(ArrayRef<DimAttr> dims, DimAttr before, DimAttr dim) {
  DimAttr count = DimAttr::constant(dim.getContext(), 1);
  for (auto [axis, size] : llvm::enumerate(dims)) {
    if (count == before && size == dim)
      return axis;
    count = count * size;
  }
  return -1;
}

TokenAxes trainc::throughView(ArrayRef<DimAttr> from, ArrayRef<DimAttr> to, const TokenAxes &axes,
                              DimAttr samples, DimAttr positions) {
  MLIRContext *context = samples.getContext();
  auto before = [&](int64_t axis) { return product(context, from.take_front(axis)); };
  if (axes.size() == 2) {
    int64_t row = findAxis(to, before(axes[0]), from[axes[0]]);
    int64_t column = findAxis(to, before(axes[1]), from[axes[1]]);
    if (row >= 0 && column >= 0)
      return {row, column};
    // Side by side they may become one.
    if (product(context, from.slice(axes[0], axes[1] - axes[0])) != from[axes[0]])
      return {};
    int64_t merged = findAxis(to, before(axes[0]), from[axes[0]] * from[axes[1]]);
    return merged < 0 ? TokenAxes() : TokenAxes{merged};
  }
  int64_t merged = findAxis(to, before(axes[0]), from[axes[0]]);
  if (merged >= 0)
    return {merged};
  int64_t row = findAxis(to, before(axes[0]), samples);
  int64_t column = findAxis(to, before(axes[0]) * samples, positions);
  if (row < 0 || column < 0)
    return {};
  return {row, column};
}

SmallVector<unsigned> trainc::loopsOf(ArrayRef<int> entry, const TokenAxes &axes) {
  SmallVector<unsigned> loops;
  for (int64_t axis : axes) {
    if (axis >= int64_t(entry.size()) || entry[axis] < 0)
      return {};
    loops.push_back(entry[axis]);
  }
  return loops;
}
