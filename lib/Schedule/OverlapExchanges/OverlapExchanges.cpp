// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two sweeps over the commands of a function: collectives up, then what waits for them down.

#include "lib/Schedule/OverlapExchanges/OverlapExchanges.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_OVERLAPEXCHANGESPASS
#include "lib/Schedule/OverlapExchanges/OverlapExchanges.h.inc"
} // namespace trainc

namespace {
/// Memory of its own, by number: a buffer of the arena, or a tensor elsewhere.
using Memory = unsigned;

/// A command, or all of a loop.
struct Command {
  SmallVector<Operation *, 1> ops;
  SmallVector<Memory> reads, writes;

  Operation *first() const { return ops.front(); }
  bool isExchange() const { return isa<plan::CollectiveOp>(first()); }
  /// Brings whole tensors of shards, which take room from here on.
  bool isGather() const {
    auto collective = dyn_cast<plan::CollectiveOp>(first());
    return collective && collective.getKind() == plan::CollectiveKind::all_gather;
  }
};

/// Commands by what they touch, each with a number: the last collective that it waits for, or is.
class Pending {
public:
  void add(const Command &command, unsigned number) {
    for (Memory memory : command.reads)
      readers[memory] = std::max(readers.lookup(memory), number);
    for (Memory memory : command.writes)
      writers[memory] = std::max(writers.lookup(memory), number);
  }
  /// The largest number of those that the command cannot change places with; 0: of none.
  unsigned conflict(const Command &command) const {
    unsigned most = 0;
    for (Memory memory : command.reads)
      most = std::max(most, writers.lookup(memory));
    for (Memory memory : command.writes)
      most = std::max({most, writers.lookup(memory), readers.lookup(memory)});
    return most;
  }

private:
  DenseMap<Memory, unsigned> readers, writers;
};

class Overlapper {
public:
  explicit Overlapper(plan::FunctionOp function) : function(function) {}

  void run() {
    collect();
    if (llvm::none_of(commands, [](const Command &one) { return one.isExchange(); }))
      return;
    hoist();
    sink();
    // Buffers stand before all commands.
    Block &block = function.getBody().front();
    for (const Command &command : commands)
      for (Operation *op : command.ops)
        op->moveBefore(&block, block.end());
    release();
  }

private:
  void collect() {
    llvm::StringMap<Memory> elsewhere;
    DenseMap<Value, Memory> memories;
    unsigned count = 0, depth = 0; // of loops
    for (Operation &op : function.getBody().front()) {
      if (auto buffer = dyn_cast<plan::BufferOp>(op)) {
        Memory &memory = memories[buffer];
        const bool isNamed = buffer.getName().has_value();
        std::string place =
            isNamed
                ? (stringifySpace(buffer.getSpace()) + " " + buffer.getName().value_or("")).str()
                : "";
        memory = isNamed ? elsewhere.try_emplace(place, count).first->second : count;
        ++count;
        continue;
      }
      assert(isa<plan::PlanCommandOpInterface>(op) && "nothing has been released yet");
      if (depth == 0)
        commands.emplace_back();
      Command &command = commands.back();
      command.ops.push_back(&op);
      if (auto loop = dyn_cast<plan::LoopOp>(op))
        depth += loop.getEnd() ? -1 : 1;
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(op).getEffects(effects);
      for (const MemoryEffects::EffectInstance &effect : effects) {
        const Memory memory = memories.lookup(effect.getValue());
        (isa<MemoryEffects::Write>(effect.getEffect()) ? command.writes : command.reads)
            .push_back(memory);
      }
    }
  }

  /// Each collective to behind the last command that it cannot change places with, or the
  /// collective before it. Of what is gathered one is on its way while the one before it is used.
  void hoist() {
    size_t used = 0; // what reads the last gather first
    for (size_t i = 0; i < commands.size(); ++i) {
      if (!commands[i].isExchange())
        continue;
      Pending own;
      own.add(commands[i], 1);
      const size_t least = commands[i].isGather() ? used : 0;
      size_t to = i;
      while (to > least && !commands[to - 1].isExchange() && !own.conflict(commands[to - 1]))
        --to;
      std::rotate(commands.begin() + to, commands.begin() + i, commands.begin() + i + 1);
      if (!commands[to].isGather())
        continue;
      for (used = to + 1; used < commands.size() && !own.conflict(commands[used]);)
        ++used;
    }
  }

  /// What waits for a collective moves behind the begin of the next one.
  void sink() {
    std::vector<Command> order;
    struct Waiting {
      Command command;
      unsigned number;
    };
    std::vector<Waiting> waiting;
    // Collectives wait for none of their own, but for commands that were moved.
    Pending moved, all;
    unsigned current = 0, done = 0; // collectives
    const auto emit = [&](unsigned upTo) {
      llvm::erase_if(waiting, [&](const Waiting &one) {
        if (one.number > upTo)
          return false;
        order.push_back(one.command);
        return true;
      });
      done = std::max(done, upTo);
    };
    for (const Command &command : commands) {
      if (command.isExchange()) {
        if (const unsigned number = moved.conflict(command); number > done)
          emit(number);
        order.push_back(command);
        emit(current);
        all.add(command, ++current);
        continue;
      }
      const unsigned number = all.conflict(command);
      if (number <= done) {
        order.push_back(command);
        continue;
      }
      waiting.push_back({command, number});
      moved.add(command, number);
      all.add(command, number);
    }
    emit(current);
    commands = std::move(order);
  }

  /// What a collective reads lives until it is waited for, or two others have begun: what takes its
  /// place then waits for it.
  void release() {
    OpBuilder builder(function.getContext());
    Block &block = function.getBody().front();
    for (size_t i = 0; i < commands.size(); ++i) {
      if (!commands[i].isExchange())
        continue;
      Pending started;
      started.add(commands[i], 1);
      // They are done in their order: a wait for a later one is a wait for this one.
      size_t wait = i + 1;
      unsigned others = 0;
      for (; wait < commands.size(); ++wait) {
        if (commands[wait].isExchange()) {
          if (++others > 2)
            break;
          started.add(commands[wait], 1);
        } else if (started.conflict(commands[wait])) {
          break;
        }
      }
      Operation *const waits = wait < commands.size() ? commands[wait].first() : nullptr;
      if (waits)
        builder.setInsertionPoint(waits);
      else
        builder.setInsertionPointToEnd(&block);
      Operation *const own = commands[i].first();
      // What several collectives read is released behind the last of them.
      const auto isDone = [&](Operation *user) {
        const bool isLater = isa<plan::CollectiveOp>(user) && own->isBeforeInBlock(user);
        return !isLater && (!waits || user->isBeforeInBlock(waits));
      };
      llvm::SmallDenseSet<Value> seen;
      for (Value buffer : own->getOperands())
        if (buffer.getDefiningOp<plan::BufferOp>().getSpace() == plan::Space::arena &&
            seen.insert(buffer).second && llvm::all_of(buffer.getUsers(), isDone))
          plan::ReleaseOp::create(builder, own->getLoc(), buffer);
    }
  }

  plan::FunctionOp function;
  std::vector<Command> commands;
};

struct OverlapExchangesPass : trainc::impl::OverlapExchangesPassBase<OverlapExchangesPass> {
  void runOnOperation() override { overlapExchanges(getOperation()); }
};
} // namespace

void trainc::overlapExchanges(plan::FunctionOp function) { Overlapper(function).run(); }
