// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lifetimes from the order of the commands; the arena from the runtime's planner.

#include "trainc/Analysis/Lifetimes.h"
#include "format/memory/arena_plan.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// One forward pass. A life begins with the first command that touches the buffer and ends with the
/// last, or where a release stands.
FunctionLifetimes::FunctionLifetimes(plan::FunctionOp function) : function(function) {
  for (Operation &op : function.getBody().front()) {
    if (auto buffer = dyn_cast<plan::BufferOp>(op)) {
      assert(!index.count(buffer) && "a buffer is declared once");
      index[buffer] = buffers.size();
      buffers.push_back({buffer, train::getBytes(buffer.getType()), -1, -1, buffer.getSpace()});
      continue;
    }
    if (auto release = dyn_cast<plan::ReleaseOp>(op)) {
      assert(index.count(release.getBuffer()) && "buffers stand before what uses them");
      BufferLifetime &life = buffers[index.lookup(release.getBuffer())];
      // A release stands behind the last command before it, and may be later than any use: a copy
      // that runs beside the others still reads the buffer then.
      life.last = std::max<int32_t>(life.last, int32_t(commands.size()) - 1);
      continue;
    }
    for (Value operand : op.getOperands()) {
      assert(index.count(operand) && "commands have buffers as operands only");
      BufferLifetime &life = buffers[index.lookup(operand)];
      life.last = commands.size();
      life.first = life.first < 0 ? life.last : life.first;
    }
    commands.push_back(&op);
  }
  // A buffer that nothing touches is taken for one of the first command.
  for (BufferLifetime &life : buffers) {
    life.first = std::max(life.first, 0);
    life.last = std::max(life.last, 0);
  }
}

FailureOr<SmallVector<int64_t, 0>> trainc::evaluateBytes(const FunctionLifetimes &lifetimes,
                                                         SymbolLookup symbols) {
  SmallVector<int64_t, 0> bytes;
  DenseMap<Attribute, int64_t> known; // few buffers have a size of their own
  for (const BufferLifetime &life : lifetimes.buffers) {
    auto [it, isNew] = known.try_emplace(life.bytes, 0);
    if (isNew) {
      FailureOr<int64_t> value = life.bytes.evaluate(symbols);
      if (failed(value))
        return failure();
      it->second = *value;
    }
    bytes.push_back(it->second);
  }
  return bytes;
}

ArenaPeak trainc::getArenaPeak(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
                               /// What the runtime will plan, by the same code. With room for
                               /// overlap it is a bound: how much of the room is taken depends on
                               /// the plan.
                               const MemoryTraits &memory) {
  std::vector<trainrt::PlanBuffer> buffers;
  for (auto [life, size] : llvm::zip_equal(lifetimes.buffers, bytes))
    if (life.isArena())
      buffers.push_back({size, life.first, life.last});
  trainrt::Plan plan = trainrt::planMemory(buffers, memory.alignment);
  ArenaPeak peak{plan.peak, plan.lowerBound};
  if (!memory.runsBeside)
    return peak;
  std::vector<int64_t> touched;
  for (Operation *command : lifetimes.commands) {
    int64_t sum = 0;
    for (Value operand : command->getOperands())
      sum += bytes[lifetimes.index.lookup(operand)];
    // A buffer that is two operands counts twice, as in the runtime's own sum.
    touched.push_back(sum);
  }
  if (trainrt::leavesRoomBeside(std::move(touched)))
    peak.room = trainrt::roomForOverlap(plan.peak);
  peak.planned += peak.room;
  return peak;
}

FailureOr<ArenaPeak> trainc::getArenaPeak(plan::FunctionOp function, SymbolLookup symbols,
                                          const MemoryTraits &memory) {
  FunctionLifetimes lifetimes(function);
  FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, symbols);
  if (failed(bytes))
    return failure();
  return getArenaPeak(lifetimes, *bytes, memory);
}

int64_t trainc::getHostPeak(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
                            const MemoryTraits &memory) {
  std::vector<trainrt::PlanBuffer> buffers;
  for (auto [life, size] : llvm::zip_equal(lifetimes.buffers, bytes))
    if (life.isHost())
      buffers.push_back({size, life.first, life.last});
  return trainrt::planMemory(buffers, memory.alignment).peak;
}
