// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.collective: what it demands and writes to program.fb; and how collectives of the train
// dialect become one.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "format/memory/all_reduce_work.h"
#include "format/memory/working_memory.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using train::DimAttr;
using train::DimsAttr;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void CollectiveOp::getEffects(Effects &effects) {
  read(effects, getTensorsMutable());
  write(effects, getTensorsMutable());
}

LogicalResult CollectiveOp::verify() {
  if (getTensors().empty())
    return emitOpError("expected a tensor at least");
  if (getElements().getDims().size() != getTensors().size())
    return emitOpError("expected a number of elements for each of ")
           << getTensors().size() << " tensors, got " << getElements().getDims().size();
  if (!getElementType().isF32() && !getElementType().isF64())
    return emitOpError("expected tensors of f32 or f64, got ") << getElementType();
  return success();
}

/// Without a number for a size, what is left is wrong, and the caller knows.
CommandCost CollectiveOp::getCommandCost(EvaluateReal value) {
  const auto elements = llvm::map_to_vector(
      getElements().getDims(), [&](DimAttr dim) { return std::max<int64_t>(0, value(dim)); });
  const trainrt::AllReduceWork work(train::getElementBytes(getElementType()), elements,
                                    std::max<int64_t>(1, value(train::getWorld(getContext()))));
  CommandCost cost;
  cost.sent = double(work.sent());
  return cost;
}

void CollectiveOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  const SmallVector<int64_t> elements = evaluateAll(getElements(), value);
  if (llvm::none_of(elements, [](int64_t count) { return count < 0; }))
    memory.addAllReduce(train::getElementBytes(getElementType()), elements);
}

SmallVector<CommandSlot> CollectiveOp::getSlots() {
  return llvm::map_to_vector(getTensorsMutable(),
                             [](OpOperand &tensor) { return CommandSlot{&tensor}; });
}

SmallVector<DimAttr> CollectiveOp::getCommandSizes() {
  return SmallVector<DimAttr>(getElements().getDims());
}

CommandTable CollectiveOp::buildTable(TableBuilder &builder) {
  static_assert(int(CollectiveKind::all_reduce) == int(fb::CollectiveKind::all_reduce));
  return builder.finish(fb::CreateCollective(builder.out, fb::CollectiveKind(getKind()),
                                             *getDType(getElementType())));
}

//===----------------------------------------------------------------------===//
// From the train dialect
//===----------------------------------------------------------------------===//

namespace {
struct AllReduceModel : LibraryCallOpInterface::ExternalModel<AllReduceModel, train::AllReduceOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto op = cast<train::AllReduceOp>(operation);
    SmallVector<Value> buffers;
    SmallVector<DimAttr> elements;
    for (auto [operand, result] : llvm::zip_equal(op.getTensors(), op.getResults())) {
      buffers.push_back(emitter.placeOver(op, operand, result));
      elements.push_back(train::getNumElements(result.getType()));
    }
    CollectiveOp::create(emitter.builder, op.getLoc(),
                         CollectiveKindAttr::get(op.getContext(), CollectiveKind::all_reduce),
                         buffers, DimsAttr::get(op.getContext(), elements),
                         TypeAttr::get(train::getElementType(op.getTensors().front())));
    return success();
  }
};
} // namespace

void plan::attachCollectiveCalls(MLIRContext *context) {
  train::AllReduceOp::attachInterface<AllReduceModel>(*context);
}
