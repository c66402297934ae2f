// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.collective: what it demands and writes to program.fb; and how collectives of the train
// dialect become one.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "format/memory/exchange_work.h"
#include "format/memory/working_memory.h"
#include "format/program.h"

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
  if (isInPlace()) {
    read(effects, getTensorsMutable());
    write(effects, getTensorsMutable());
    return;
  }
  const unsigned half = getTensors().size() / 2;
  read(effects, getTensorsMutable().slice(0, half));
  write(effects, getTensorsMutable().slice(half, half));
}

LogicalResult CollectiveOp::verify() {
  if (getTensors().empty())
    return emitOpError("expected a tensor at least");
  if (getVerdict() && (getKind() != CollectiveKind::all_reduce || !getElementType().isF32() ||
                       getElements().getDims() != ArrayRef(DimAttr::constant(getContext(), 1))))
    return emitOpError("expected a verdict to be an all_reduce of one f32");
  if (getElements().getDims().size() != getTensors().size())
    return emitOpError("expected a number of elements for each of ")
           << getTensors().size() << " tensors, got " << getElements().getDims().size();
  if (!isInPlace() && getTensors().size() % 2)
    return emitOpError("expected as many tensors to write as to read, got ")
           << getTensors().size() << " together";
  if (getKind() != CollectiveKind::all_gather && !getElementType().isF32() &&
      !getElementType().isF64())
    return emitOpError("expected tensors of f32 or f64, got ") << getElementType();
  if (std::optional<Type> sent = getSent();
      sent && (getKind() == CollectiveKind::all_gather || !getElementType().isF32() ||
               getVerdict() || (!sent->isBF16() && !sent->isF16())))
    return emitOpError("expected sums of bf16 or f16 in f32, got those of ")
           << *sent << " in " << getElementType();
  return success();
}

/// Of `shards` ranks that share a replica, among all of a run.
static trainrt::ExchangeWork workOf(CollectiveOp op, ArrayRef<int64_t> elements, int64_t world,
                                    int64_t shards) {
  const int64_t width = train::getElementBytes(op.getElementType());
  const trainrt::ElementBytes bytes(
      train::getElementBytes(op.getSent().value_or(op.getElementType())), width);
  switch (op.getKind()) {
  case CollectiveKind::all_reduce:
    return trainrt::ExchangeWork::ofSums(
        bytes, op.isInPlace() ? elements : elements.take_front(elements.size() / 2), world);
  case CollectiveKind::reduce_scatter:
    return trainrt::ExchangeWork::ofSumsInShards(bytes, elements.drop_front(elements.size() / 2),
                                                 world, shards);
  case CollectiveKind::all_gather:
    return trainrt::ExchangeWork::ofShards(width, elements.take_front(elements.size() / 2), shards);
  }
  llvm_unreachable("every kind has its work");
}

/// Without a number for a size, what is left is wrong, and the caller knows.
CommandCost CollectiveOp::getCommandCost(EvaluateReal value) {
  const auto elements = llvm::map_to_vector(
      getElements().getDims(), [&](DimAttr dim) { return std::max<int64_t>(0, value(dim)); });
  const int64_t world = std::max<int64_t>(1, value(train::getAllRanks(getContext())));
  const int64_t shards = std::max<int64_t>(1, value(train::getWorld(getContext())));
  CommandCost cost;
  cost.sent = double(workOf(*this, elements, world, shards).sent());
  return cost;
}

CommandWorkspace CollectiveOp::getGpuWorkspace(EvaluateInteger value) {
  const SmallVector<int64_t> elements = evaluateAll(getElements(), value);
  const int64_t world = std::max<int64_t>(1, value(train::getAllRanks(getContext())));
  const int64_t shards = std::max<int64_t>(1, value(train::getWorld(getContext())));
  CommandWorkspace workspace;
  if (llvm::none_of(elements, [](int64_t count) { return count < 0; }))
    workspace.staging = workOf(*this, elements, world, shards).deviceStaging();
  return workspace;
}

void CollectiveOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  const SmallVector<int64_t> elements = evaluateAll(getElements(), value);
  if (llvm::none_of(elements, [](int64_t count) { return count < 0; }))
    memory.addExchange(workOf(*this, elements, memory.world, memory.shards));
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
  static_assert(int(CollectiveKind::reduce_scatter) == int(fb::CollectiveKind::reduce_scatter));
  static_assert(int(CollectiveKind::all_gather) == int(fb::CollectiveKind::all_gather));
  flatbuffers::Optional<fb::DType> sent;
  if (getSent()) {
    sent = *getDType(*getSent());
    builder.version = std::max(builder.version, trainrt::programMajorSent);
  }
  return builder.finish(fb::CreateCollective(builder.out, fb::CollectiveKind(getKind()),
                                             *getDType(getElementType()), getVerdict(), sent));
}

//===----------------------------------------------------------------------===//
// From the train dialect
//===----------------------------------------------------------------------===//

/// From buffers to others, as nothing of a tensor lies where it does in its shard, or in its sums
/// of another type.
static LogicalResult emitBeside(Operation *op, CollectiveKind kind, CallEmitter &emitter) {
  SmallVector<Value> buffers;
  SmallVector<DimAttr> elements;
  for (Value operand : op->getOperands())
    buffers.push_back(emitter.placeOf(operand).buffer);
  for (Value result : op->getResults())
    buffers.push_back(emitter.placeUpdate(op, result));
  for (Value value : llvm::concat<Value>(llvm::to_vector_of<Value>(op->getOperands()),
                                         llvm::to_vector_of<Value>(op->getResults())))
    elements.push_back(train::getNumElements(value.getType()));
  Type sent = train::getElementType(op->getOperand(0)),
       made = train::getElementType(op->getResult(0));
  CollectiveOp::create(emitter.builder, op->getLoc(), kind, /*verdict=*/false,
                       sent == made ? TypeAttr() : TypeAttr::get(sent), buffers,
                       DimsAttr::get(op->getContext(), elements), made);
  return success();
}

namespace {
struct AllReduceModel : LibraryCallOpInterface::ExternalModel<AllReduceModel, train::AllReduceOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto op = cast<train::AllReduceOp>(operation);
    if (train::widensOverRanks(op))
      return emitBeside(op, CollectiveKind::all_reduce, emitter);
    SmallVector<Value> buffers;
    SmallVector<DimAttr> elements;
    for (auto [operand, result] : llvm::zip_equal(op.getTensors(), op.getResults())) {
      buffers.push_back(emitter.placeOver(op, operand, result));
      elements.push_back(train::getNumElements(result.getType()));
    }
    CollectiveOp::create(emitter.builder, op.getLoc(), CollectiveKind::all_reduce,
                         op->hasAttr(train::kVerdictAttr), /*sent=*/TypeAttr(), buffers,
                         DimsAttr::get(op.getContext(), elements),
                         train::getElementType(op.getTensors().front()));
    return success();
  }
};

template <typename Op, CollectiveKind kind>
struct ShardingModel : LibraryCallOpInterface::ExternalModel<ShardingModel<Op, kind>, Op> {
  LogicalResult emitCall(Operation *op, CallEmitter &emitter) const {
    return emitBeside(op, kind, emitter);
  }
};
} // namespace

void plan::attachCollectiveCalls(MLIRContext *context) {
  train::AllReduceOp::attachInterface<AllReduceModel>(*context);
  train::ReduceScatterOp::attachInterface<
      ShardingModel<train::ReduceScatterOp, CollectiveKind::reduce_scatter>>(*context);
  train::AllGatherOp::attachInterface<
      ShardingModel<train::AllGatherOp, CollectiveKind::all_gather>>(*context);
}
