// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.loop: what it demands and writes to program.fb; and how a loop of the train dialect becomes
// its body's commands between two of these.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "dialects/Train/Loops/Loops.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using train::DimAttr;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void LoopOp::getEffects(Effects &effects) {
  read(effects, getScannedMutable());
  write(effects, getScannedSlicesMutable());
  write(effects, getStackedMutable());
  read(effects, getStackedSlicesMutable());
  read(effects, getKeptMutable());
}

LogicalResult LoopOp::verify() {
  if (getScanned().size() != getScannedSlices().size() ||
      getStacked().size() != getStackedSlices().size())
    return emitOpError("expected a slice for each of ")
           << getScanned().size() << " and " << getStacked().size() << " tensors, got "
           << getScannedSlices().size() << " and " << getStackedSlices().size();
  return success();
}

SmallVector<CommandSlot> LoopOp::getSlots() {
  return llvm::map_to_vector(getOperation()->getOpOperands(),
                             [](OpOperand &operand) { return CommandSlot{&operand}; });
}

SmallVector<DimAttr> LoopOp::getCommandSizes() { return {getSteps()}; }

CommandTable LoopOp::buildTable(TableBuilder &builder) {
  return builder.finish(fb::CreateLoop(builder.out, getScanned().size(), getStacked().size(),
                                       getEnd(), getReverse()));
}

/// Addresses are moved, no bytes.
CommandCost LoopOp::getCommandCost(EvaluateReal) {
  CommandCost cost;
  cost.bytes = 0;
  return cost;
}

//===----------------------------------------------------------------------===//
// From the train dialect
//===----------------------------------------------------------------------===//

namespace {
struct LoopModel : LibraryCallOpInterface::ExternalModel<LoopModel, train::LoopOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto loop = cast<train::LoopOp>(operation);
    OpBuilder &builder = emitter.builder;
    auto declareSlice = [&](Type type) -> Value {
      return BufferOp::create(builder, loop.getLoc(), BufferType::get(builder.getContext()),
                              SpaceAttr::get(builder.getContext(), Space::arena), StringAttr(),
                              TypeAttr::get(train::getSliceType(type)), ElementsAttr());
    };
    SmallVector<Value> scanned, scannedSlices, stacked, stackedSlices, kept, arguments;
    for (auto [operand, result] : llvm::zip(loop.getInitial(), loop.getCarried()))
      kept.push_back(emitter.placeOver(loop, operand, result));
    for (Value operand : loop.getScanned()) {
      scanned.push_back(emitter.placeOf(operand).buffer);
      scannedSlices.push_back(declareSlice(operand.getType()));
    }
    for (Value result : loop.getStacked()) {
      stacked.push_back(emitter.placeResult(result).buffer);
      stackedSlices.push_back(declareSlice(result.getType()));
    }
    llvm::append_range(arguments, kept);
    llvm::append_range(arguments, scannedSlices);
    for (Value operand : loop.getInvariants()) {
      kept.push_back(emitter.placeOf(operand).buffer);
      arguments.push_back(kept.back());
    }
    auto mark = [&](bool end) {
      LoopOp::create(builder, loop.getLoc(), scanned, scannedSlices, stacked, stackedSlices, kept,
                     loop.getSteps(), end, loop.getReverse());
    };
    mark(/*end=*/false);
    if (failed(emitter.emitBlock(*loop.getBlock(), arguments, stackedSlices)))
      return failure();
    mark(/*end=*/true);
    return success();
  }
};
} // namespace

void plan::attachLoopCalls(MLIRContext *context) {
  train::LoopOp::attachInterface<LoopModel>(*context);
}
