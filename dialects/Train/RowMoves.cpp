// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions and reshapes, judged by what they say of themselves and by their types.

#include "dialects/Train/RowMoves.h"

#include "mlir/Interfaces/CastInterfaces.h"

using namespace mlir;
using namespace trainc::train;

bool trainc::train::isWidening(Operation *op) {
  if (!isa_and_nonnull<CastOpInterface>(op))
    return false;
  auto from = dyn_cast<FloatType>(getElementType(op->getOperand(0)));
  auto to = dyn_cast<FloatType>(getElementType(op->getResult(0)));
  return from && to && from.getWidth() < to.getWidth();
}

bool trainc::train::isReshape(Operation *op) {
  auto access = dyn_cast_or_null<ElementAccessOpInterface>(op);
  auto fusion = dyn_cast_or_null<FusionOpInterface>(op);
  return access && access.onlyMoves() && fusion && fusion.getFusionRole() == FusionRole::View;
}

std::optional<StridedLayout> trainc::train::reshapeLayout(ArrayRef<DimAttr> from,
                                                          ArrayRef<DimAttr> to,
                                                          const StridedLayout &operand) {
  StridedLayout layout{operand.offset, {}};
  DimAttr one = DimAttr::constant(operand.offset.getContext(), 1);
  layout.strides.assign(to.size(), one);
  // A row-major buffer is read row-major, whatever divides what.
  auto rowMajor = [&](ArrayRef<DimAttr> dims) {
    SmallVector<DimAttr> strides(dims.size());
    DimAttr run = one;
    for (int64_t axis = int64_t(dims.size()) - 1; axis >= 0; --axis) {
      strides[axis] = run;
      run = run * dims[axis];
    }
    return strides;
  };
  if (operand.strides == rowMajor(from)) {
    layout.strides = rowMajor(to);
    return layout;
  }
  // From the inside out: smallest groups of axes with equal products; a group's axes must lie in
  // one run.
  int64_t i = from.size() - 1, j = to.size() - 1;
  while (i >= 0 || j >= 0) {
    if (i >= 0 && from[i].isConstant(1)) {
      --i;
      continue;
    }
    if (j >= 0 && to[j].isConstant(1)) {
      --j;
      continue;
    }
    if (i < 0 || j < 0)
      return std::nullopt;
    DimAttr stride = operand.strides[i], left = from[i], right = to[j];
    layout.strides[j] = stride;
    DimAttr run = stride * left;
    while (left != right) {
      // Grow the side whose product divides the other's.
      if (divideExactly(right, left) && i > 0) {
        --i;
        if (from[i].isConstant(1))
          continue;
        if (operand.strides[i] != run)
          return std::nullopt;
        left = left * from[i];
        run = run * from[i];
      } else if (divideExactly(left, right) && j > 0) {
        --j;
        layout.strides[j] = stride * right;
        right = right * to[j];
      } else {
        return std::nullopt;
      }
    }
    --i;
    --j;
  }
  return layout;
}

bool trainc::train::keepsColumns(Operation *op) {
  if (!isReshape(op))
    return false;
  SmallVector<DimAttr> from = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
  return !from.empty() && !to.empty() && from.back() == to.back();
}

bool trainc::train::isJoin(Operation *op) {
  auto ranges = dyn_cast_or_null<SubrangeOpInterface>(op);
  return ranges && !ranges.getFill() && op->getNumResults() == 1 && op->getNumOperands() >= 2;
}

/// Ranges tell where the result begins in the operand.
SmallVector<DimAttr> trainc::train::getJoinStarts(Operation *join, unsigned number) {
  const DimAttr zero = DimAttr::constant(join->getContext(), 0);
  SmallVector<DimAttr> starts;
  for (DimAttr start : cast<SubrangeOpInterface>(join).getSubrange(number, 0).starts)
    starts.push_back(zero - start);
  return starts;
}

bool trainc::train::isJoinOfComputedParts(Operation *op) {
  if (!isJoin(op))
    return false;
  const SmallVector<DimAttr> dims = getDims(op->getOperand(0)), whole = getDims(op->getResult(0));
  // Along the last axis that is longer than 1.
  size_t behind = dims.size();
  while (behind > 0 && dims[behind - 1].isConstant(1))
    --behind;
  if (!llvm::all_of(llvm::drop_begin(whole, behind), [](DimAttr dim) { return dim.isConstant(1); }))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value part) {
    Operation *def = part.getDefiningOp();
    return isa_and_nonnull<PointwiseOpInterface>(def) && def->getNumOperands() != 0 &&
           getDims(part) == dims;
  });
}
