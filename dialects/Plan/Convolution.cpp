// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.convolution: what it demands, writes to program.fb, costs; and how train.conv and its
// gradients become one.

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "format/memory/convolution_work.h"
#include "format/memory/working_memory.h"
#include "format/memory/workspace_bounds.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using train::ConvolutionOpInterface;
using train::DimAttr;
using train::DimsAttr;
using train::Sliding;
using trainc::plan::ConvolutionOp;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void ConvolutionOp::getEffects(Effects &effects) {
  auto uses = [&](OpOperand &buffer, ConvolutionKind makes) {
    getKind() == makes ? write(effects, buffer) : read(effects, buffer);
  };
  uses(getInputMutable(), ConvolutionKind::data);
  uses(getFilterMutable(), ConvolutionKind::filter);
  uses(getOutputMutable(), ConvolutionKind::forward);
}

LogicalResult ConvolutionOp::verify() {
  if (getSizes().getDims().size() != 4)
    return emitOpError("expected sizes [batch, channels, filters, groups], got ")
           << getSizes().getDims().size();
  const size_t axes = getPositions().getDims().size();
  if (axes < 1 || axes > 3)
    return emitOpError("expected one to three axes of positions, got ") << axes;
  for (DimsAttr list : {getTaps(), getWindows(), getStrides(), getDilations(), getPads()})
    if (list.getDims().size() != axes)
      return emitOpError("expected a number for each of ")
             << axes << " axes, got " << list.getDims().size();
  return success();
}

SmallVector<CommandSlot> ConvolutionOp::getSlots() {
  return llvm::map_to_vector(getOperation()->getOpOperands(),
                             [](OpOperand &operand) { return CommandSlot{&operand}; });
}

/// Axis by axis.
SmallVector<DimAttr> ConvolutionOp::getCommandSizes() {
  SmallVector<DimAttr> sizes(getSizes().getDims());
  for (size_t i = 0; i < getPositions().getDims().size(); ++i)
    for (DimsAttr list :
         {getPositions(), getTaps(), getWindows(), getStrides(), getDilations(), getPads()})
      sizes.push_back(list.getDims()[i]);
  return sizes;
}

CommandTable ConvolutionOp::buildTable(TableBuilder &builder) {
  static_assert(int(ConvolutionKind::forward) == int(fb::ConvolutionKind::forward) &&
                int(ConvolutionKind::data) == int(fb::ConvolutionKind::data) &&
                int(ConvolutionKind::filter) == int(fb::ConvolutionKind::filter));
  return builder.finish(fb::CreateConvolution(builder.out, fb::ConvolutionKind(getKind()),
                                              *getDType(getElementType()), getTf32()));
}

/// A multiplication and an addition for each tap, channel of a group, window and filter.
CommandCost ConvolutionOp::getCommandCost(EvaluateReal value) {
  ArrayRef<DimAttr> sizes = getSizes().getDims();
  double flops = 2 * value(sizes[0]) * value(sizes[1]) * value(sizes[2]) / value(sizes[3]);
  for (DimsAttr list : {getTaps(), getWindows()})
    for (DimAttr extent : list.getDims())
      flops *= value(extent);
  return {flops, getElementType(), getTf32()};
}

CommandWorkspace ConvolutionOp::getGpuWorkspace(EvaluateInteger) {
  return {trainrt::cuda::convolutionWorkspaceLimit, /*mayRunAside=*/true};
}

void ConvolutionOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  const SmallVector<int64_t> fixed = evaluateAll(getSizes(), value);
  trainrt::ConvolutionSizes sizes;
  sizes.kind = trainrt::Convolution::Kind(getKind());
  sizes.batch = fixed[0], sizes.channels = fixed[1];
  sizes.filters = fixed[2], sizes.groups = fixed[3];
  bool isEmpty = sizes.batch <= 0;
  const size_t rank = getPositions().getDims().size();
  for (size_t i = 0; i < rank; ++i) {
    auto at = [&](DimsAttr list) { return value(list.getDims()[i]); };
    sizes.axes[3 - rank + i] = {at(getPositions()), at(getTaps()),      at(getWindows()),
                                at(getStrides()),   at(getDilations()), at(getPads())};
    isEmpty |= at(getPositions()) <= 0 || at(getWindows()) <= 0;
  }
  // Nothing is computed then.
  if (!isEmpty)
    memory.addConvolution(sizes);
}

//===----------------------------------------------------------------------===//
// From the train dialect
//===----------------------------------------------------------------------===//

static LogicalResult emitConvolution(ConvolutionOpInterface op, ConvolutionKind kind,
                                     CallEmitter &emitter) {
  MLIRContext *context = op->getContext();
  emitter.placeResult(op->getResult(0));
  auto number = [&](int64_t value) { return DimAttr::constant(context, value); };
  auto eachAxis = [&](auto get) {
    return DimsAttr::get(context, llvm::map_to_vector(train::getSlidings(op), get));
  };
  const Type element = train::getElementType(op.getInput());
  ConvolutionOp::create(
      emitter.builder, op->getLoc(), kind, emitter.placeOf(op.getInput()).buffer,
      emitter.placeOf(op.getFilter()).buffer, emitter.placeOf(op.getOutput()).buffer,
      DimsAttr::get(context, {train::getDim(op.getInput(), 0), train::getDims(op.getInput()).back(),
                              train::getDim(op.getFilter(), 0), number(int64_t(op.getGroups()))}),
      eachAxis([](const Sliding &s) { return s.size; }),
      eachAxis([&](const Sliding &s) { return number(s.taps); }),
      eachAxis([](const Sliding &s) { return s.count; }),
      eachAxis([&](const Sliding &s) { return number(s.stride); }),
      eachAxis([&](const Sliding &s) { return number(s.dilation); }),
      eachAxis([](const Sliding &s) { return s.low; }), element, emitter.tf32 && element.isF32());
  return success();
}

namespace {
template <typename Op, ConvolutionKind kind>
struct ConvolutionModel : LibraryCallOpInterface::ExternalModel<ConvolutionModel<Op, kind>, Op> {
  LogicalResult emitCall(Operation *op, CallEmitter &emitter) const {
    return emitConvolution(cast<ConvolutionOpInterface>(op), kind, emitter);
  }
};
} // namespace

void plan::attachConvolutionCalls(MLIRContext *context) {
  using Kind = ConvolutionKind;
  train::ConvOp::attachInterface<ConvolutionModel<train::ConvOp, Kind::forward>>(*context);
  train::ConvDataGradOp::attachInterface<ConvolutionModel<train::ConvDataGradOp, Kind::data>>(
      *context);
  train::ConvFilterGradOp::attachInterface<ConvolutionModel<train::ConvFilterGradOp, Kind::filter>>(
      *context);
}
