// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What needs no code of its own: results that are the operand's buffer read through other strides,
// the rules for index operands, and the fusion op, which groups code.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/RowMoves.h"
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
  return reshapeLayout(getDims(getOperand()), getDims(getResult()), operand);
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
