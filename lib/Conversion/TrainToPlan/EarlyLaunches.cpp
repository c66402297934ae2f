// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where buffers are touched, by position of the commands as they were, and what follows from it.

#include "lib/Conversion/TrainToPlan/EarlyLaunches.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// A launch of more bytes keeps a whole GPU busy for longer than a launch costs (11 us at 3 TB/s),
/// and is better beside a matmul.
constexpr int64_t kMostBytes = 32 << 20;

/// A command that has a buffer among its operands. Calls of libraries may write all of theirs.
struct Touch {
  size_t position;
  bool isWrite;
};

/// A launch that may move up to the first one of its kernel.
struct Member {
  plan::LaunchOp launch;
  size_t position;
  /// Of what it writes.
  int64_t bytes;
  size_t lastUse;
};

class Mover {
public:
  Mover(plan::FunctionOp function, GroupedKernelSource grouped) : grouped(grouped) {
    size_t position = 0;
    for (Operation &op : function.getBody().front()) {
      if (isa<plan::BufferOp>(op))
        continue;
      note(&op, position);
      commands.push_back(&op);
      ++position;
    }
  }

  /// In the order of the block: the first launch of a kernel is where the others go.
  void run() {
    llvm::MapVector<std::string, SmallVector<Member>, std::map<std::string, unsigned>> kernels;
    for (auto [position, command] : llvm::enumerate(commands))
      if (auto launch = dyn_cast<plan::LaunchOp>(command); launch && isSmall(launch, position)) {
        auto &members = kernels[getGroupKey(launch)];
        if (members.empty() || canMove(launch, members.front().position, position))
          members.push_back(describe(launch, position));
      }
    for (auto &[kernel, members] : kernels)
      join(members);
  }

private:
  /// Commands with regions, too: all that is within may be written.
  void note(Operation *command, size_t position) {
    auto launch = dyn_cast<plan::LaunchOp>(command);
    command->walk([&](Operation *op) {
      for (auto [number, value] : llvm::enumerate(op->getOperands()))
        touches[value].push_back({position, !launch || number >= size_t(launch.getNumInputs())});
    });
  }

  /// One stage alone, of little and known size.
  bool isSmall(plan::LaunchOp launch, size_t position) {
    auto isStageOf = [&](size_t other) {
      auto next = other < commands.size() ? dyn_cast<plan::LaunchOp>(commands[other]) : nullptr;
      return next && next.getBuffers() == launch.getBuffers();
    };
    std::optional<int64_t> bytes = getBytesOf(launch.getBuffers());
    return bytes && *bytes <= kMostBytes && !isStageOf(position + 1) &&
           (position == 0 || !isStageOf(position - 1));
  }

  /// Whether a launch may stand at `to` instead of `from`: nothing in between writes what it reads,
  /// or touches what it writes.
  bool canMove(plan::LaunchOp launch, size_t to, size_t from) {
    for (auto [number, value] : llvm::enumerate(launch.getBuffers())) {
      const bool isRead = number < size_t(launch.getNumInputs());
      for (const Touch &touch : touches[value])
        if (touch.position >= to && touch.position < from && (touch.isWrite || !isRead))
          return false;
    }
    return true;
  }

  Member describe(plan::LaunchOp launch, size_t position) {
    ValueRange written = launch.getBuffers().drop_front(launch.getNumInputs());
    Member member{launch, position, *getBytesOf(written), commands.size()};
    for (Value value : written)
      member.lastUse = std::min(member.lastUse, touches[value].back().position);
    return member;
  }

  /// Decided by where they were: a launch that moved stands earlier than it is taken to, never
  /// later, so that what was free of conflicts stays so.
  void join(SmallVectorImpl<Member> &members) {
    int64_t held = 0;
    for (const Member &member : members)
      held += member.bytes;
    const size_t last = members.back().position;
    plan::LaunchOp place = members.front().launch;
    llvm::erase_if(members, [&](const Member &member) {
      return member.launch == place || (held > kHeldBytes && member.lastUse <= last);
    });
    // The last one is always read behind itself: alone it says nothing about the others.
    if (members.empty() || (held > kHeldBytes && members.front().position == last))
      return;
    if (grouped(place.getKernel()).empty())
      return;
    plan::LaunchOp first = place;
    for (Member &member : members) {
      for (Value value : member.launch.getBuffers())
        // Declared in front of the first command that uses it.
        if (Operation *buffer = value.getDefiningOp(); first->isBeforeInBlock(buffer))
          buffer->moveBefore(first);
      member.launch->moveAfter(place);
      place = member.launch;
    }
  }

  GroupedKernelSource grouped;
  SmallVector<Operation *> commands;
  DenseMap<Value, SmallVector<Touch>> touches;
};

} // namespace

void trainc::moveLaunchesUp(plan::FunctionOp function, GroupedKernelSource grouped) {
  Mover(function, grouped).run();
}
