// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A reshape that drops the axis of the parts makes kernels and library calls read a part from
// memory of its own, and the gradient of each slice is as large as all of them. Pieces of one axis
// are read where they are, and their gradients are written side by side.

#include "lib/Transforms/RaiseIdioms/PackedParts.h"

#include "dialects/Train/TrainBuilder.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
using Dims = SmallVector<DimAttr>;

/// The axis along which `slice` has one element, and all there is along the others; -1 for others.
int64_t partAxis(SliceOp slice) {
  Dims from = getDims(slice.getOperand()), to = getDims(slice.getResult());
  int64_t part = -1;
  for (auto [axis, step] : llvm::enumerate(slice.getSteps())) {
    if (step == 1 && slice.getStarts().getDims()[axis].isConstant(0) && from[axis] == to[axis])
      continue;
    if (part >= 0 || !to[axis].isConstant(1))
      return -1;
    part = axis;
  }
  return part;
}

/// The parts of one value along one axis, in order; empty unless all are read, each once, and
/// without the axis.
SmallVector<Operation *> partsOf(ArrayRef<SliceOp> slices, int64_t axis) {
  SliceOp first = slices.front();
  Dims dims = getDims(first.getOperand());
  Dims without = dims;
  without.erase(without.begin() + axis);
  SmallVector<Operation *> parts(slices.size());
  if (!dims[axis].isConstant(slices.size()))
    return {};
  for (SliceOp slice : slices) {
    auto drop = slice->hasOneUse() ? dyn_cast<ReshapeOp>(*slice->user_begin()) : nullptr;
    std::optional<int64_t> start = slice.getStarts().getDims()[axis].getConstant();
    if (!drop || getDims(drop.getResult()) != without || !start || *start < 0 ||
        *start >= int64_t(parts.size()) || parts[*start])
      return {};
    parts[*start] = drop;
  }
  return parts;
}

/// Replaces the parts, which are those of `packed` along `axis`.
void split(Value packed, int64_t axis, ArrayRef<Operation *> parts) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, getRank(packed)));
  if (auto transpose = packed.getDefiningOp<TransposeOp>()) {
    packed = transpose.getOperand();
    order = llvm::to_vector(transpose.getPermutation());
  }
  const int64_t at = order[axis];
  Dims merged = getDims(packed);
  // Behind the last axis there is none that the pieces could be of.
  if (at + 1 == int64_t(merged.size()))
    return;
  const DimAttr piece = merged[at + 1];
  merged[at + 1] = merged[at] * piece;
  merged.erase(merged.begin() + at);
  order.erase(order.begin() + axis);
  for (int64_t &from : order)
    from -= from > at;

  OpBuilder builder(packed.getContext());
  builder.setInsertionPointAfterValue(packed);
  TrainBuilder tb(builder, parts.front()->getLoc());
  Value all = tb.reshape(packed, merged);
  for (auto [part, own] :
       llvm::zip_equal(parts, tb.split(all, at, SmallVector<DimAttr>(parts.size(), piece)))) {
    builder.setInsertionPoint(part);
    part->replaceAllUsesWith(
        ValueRange{TrainBuilder(builder, part->getLoc()).transpose(own, order)});
  }
}
} // namespace

void trainc::splitPackedParts(func::FuncOp function) {
  llvm::MapVector<std::pair<Value, int64_t>, SmallVector<SliceOp>> packed;
  function.walk([&](SliceOp slice) {
    if (int64_t axis = partAxis(slice); axis >= 0)
      packed[{slice.getOperand(), axis}].push_back(slice);
  });
  for (auto &[of, slices] : packed)
    if (SmallVector<Operation *> parts = partsOf(slices, of.second); parts.size() > 1)
      split(of.first, of.second, parts);
}
