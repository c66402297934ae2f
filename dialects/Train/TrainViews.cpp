// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What needs no code of its own: results that are the operand's buffer read through other strides,
// the rules for index operands, and the fusion op, which groups code.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

std::optional<StridedLayout> TransposeOp::getStridedView(const StridedLayout &operand) {
  StridedLayout layout{operand.offset, {}};
  for (int64_t axis : getPermutation())
    layout.strides.push_back(operand.strides[axis]);
  return layout;
}
std::optional<StridedLayout> BroadcastOp::getStridedView(const StridedLayout &operand) {
  StridedLayout layout{operand.offset, {}};
  layout.strides.assign(getRank(getResult()), DimAttr::constant(getContext(), 0));
  for (auto [axis, stride] : llvm::zip_equal(getAxes(), operand.strides))
    layout.strides[axis] = stride;
  return layout;
}
std::optional<StridedLayout> SliceOp::getStridedView(const StridedLayout &operand) {
  StridedLayout layout{operand.offset, {}};
  for (auto [axis, stride] : llvm::enumerate(operand.strides)) {
    layout.offset = layout.offset + getStarts().getDims()[axis] * stride;
    layout.strides.push_back(stride * DimAttr::constant(getContext(), getSteps()[axis]));
  }
  return layout;
}
std::optional<StridedLayout> BarrierOp::getStridedView(const StridedLayout &operand) {
  return operand;
}
std::optional<StridedLayout> ReshapeOp::getStridedView(const StridedLayout &operand) {
  SmallVector<DimAttr> from = getDims(getOperand()), to = getDims(getResult());
  StridedLayout layout{operand.offset, {}};
  DimAttr one = DimAttr::constant(getContext(), 1);
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

static IndexRule indexInto(DimAttr extent) {
  return {DimAttr::constant(extent.getContext(), 0) - extent, extent, std::nullopt};
}
std::optional<IndexRule> GatherOp::getIndexRule(unsigned operand) {
  if (operand != 1)
    return std::nullopt;
  return indexInto(getDim(getData(), getAxis()));
}
std::optional<IndexRule> GatherElementsOp::getIndexRule(unsigned operand) {
  if (operand != 1)
    return std::nullopt;
  return indexInto(getDim(getData(), getAxis()));
}
std::optional<IndexRule> CrossEntropyOp::getIndexRule(unsigned operand) {
  if (operand != 1)
    return std::nullopt;
  std::optional<int64_t> ignored;
  if (getIgnoreIndex())
    ignored = int64_t(*getIgnoreIndex());
  return IndexRule{DimAttr::constant(getContext(), 0), getDims(getLogits()).back(), ignored};
}

// As slices, each part is a view of the whole.
void SplitOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  DimAttr start = tb.dimAttr(0);
  for (Value part : getResults()) {
    DimAttr size = getDim(part, getAxis());
    results.push_back(tb.sliceAxis(getOperand(), getAxis(), start, size));
    start = start + size;
  }
}

LogicalResult FusionOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes()) {
    InFlightDiagnostic error = emitOpError("expected block arguments of the inputs' types");
    for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs()))
      if (argument.getType() != input.getType())
        attachNotes(std::move(error), {{"the argument", argument}, {"the input", input}});
    return error;
  }
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != getResults().getTypes()) {
    InFlightDiagnostic error = emitOpError("expected a train.yield of the results' types");
    error.attachNote(block.getTerminator()->getLoc())
        << "the body ends with " << block.getTerminator()->getName() << " of "
        << block.getTerminator()->getOperandTypes();
    return error;
  }
  auto inKernel = [&](InFlightDiagnostic error) {
    error.attachNote(getLoc()) << "the kernel begins here";
    return error;
  };
  for (Operation &op : block.without_terminator()) {
    auto role = dyn_cast<FusionOpInterface>(op);
    if (!role)
      return inKernel(op.emitOpError("cannot be part of a kernel: it does not say how it fuses"));
    switch (role.getFusionRole()) {
    case FusionRole::Pointwise:
    case FusionRole::Access:
    case FusionRole::Reduction:
    case FusionRole::Standalone:
      break;
    case FusionRole::View:
      // A view whose elements can be had one by one.
      if (auto access = dyn_cast<ElementAccessOpInterface>(op); access && access.hasElements())
        break;
      return inKernel(op.emitOpError("cannot be part of a kernel"));
    default:
      return inKernel(op.emitOpError("cannot be part of a kernel"));
    }
  }
  return success();
}
FusionRole FusionOp::getFusionRole() { return FusionRole::None; }
