// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One sweep over the commands with the groups that can still grow. Where one can grow no more, what
// stands further on and may run already joins it. A kernel with several stages is one unit: its
// launches follow each other with the same buffers.

#include "lib/Conversion/TrainToPlan/GroupLaunches.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// What the arena may hold longer for the sake of a group, in bytes.
constexpr int64_t kDelayedBytes = 1 << 20;
/// What it may hold earlier, in bytes: a layer's weights as matmuls read them, which stay in a
/// GPU's cache until then.
constexpr int64_t kAdvancedBytes = 8 << 20;
/// Commands further on that are looked at.
constexpr size_t kFarthest = 1024;
constexpr unsigned kMostMembers = 1024;

/// The launches of one kernel's stages, which are gone when they have become a group's.
struct Unit {
  SmallVector<plan::LaunchOp, 2> stages;
  SmallVector<Value> reads, writes;
  /// By now it is a member of a group in front of it.
  bool isAdvanced = false;
};

struct Group {
  SmallVector<Unit *> units;
  llvm::DenseSet<Value> reads, writes;
  /// Arena bytes of the units; more than kDelayedBytes where they are not known.
  int64_t bytes = 0;
  /// Where its launches will be, and the number of the command behind.
  plan::LaunchOp anchor;
  size_t behind = 0;

  void touch(ValueRange read, ValueRange written) {
    reads.insert_range(read);
    writes.insert_range(written);
  }
  void pass(const Group &other) {
    reads.insert_range(other.reads);
    writes.insert_range(other.writes);
  }
};

/// Same kernels with the same grain and scratch: their launches differ in buffers and sizes only,
/// which a group passes for each member.
std::string keyOf(const Unit &unit) {
  std::string key;
  for (plan::LaunchOp launch : unit.stages)
    key += launch.getKernel().str() + "/" + std::to_string(launch.getGrain()) + "/" +
           launch.getScratch().str() + ";";
  return key;
}

/// Stages have the same buffers: asked of the first.
int64_t arenaBytes(plan::LaunchOp launch) {
  int64_t sum = 0;
  for (Value value : launch.getBuffers()) {
    auto buffer = value.getDefiningOp<plan::BufferOp>();
    if (buffer.getSpace() != plan::Space::arena)
      continue;
    std::optional<int64_t> bytes = train::getBytes(buffer.getType()).getConstant();
    if (!bytes)
      return kDelayedBytes + 1;
    sum += *bytes;
  }
  return sum;
}

/// Bytes of the arena that others than the unit's own stages read; nothing where they are not
/// known.
std::optional<int64_t> leftBytes(const Unit &unit) {
  int64_t sum = 0;
  for (Value value : unit.writes) {
    auto buffer = value.getDefiningOp<plan::BufferOp>();
    auto isStage = [&](Operation *user) { return llvm::is_contained(unit.stages, user); };
    if (buffer.getSpace() != plan::Space::arena || llvm::all_of(value.getUsers(), isStage))
      continue;
    std::optional<int64_t> bytes = train::getBytes(buffer.getType()).getConstant();
    if (!bytes)
      return std::nullopt;
    sum += *bytes;
  }
  return sum;
}

/// A launch may move down to where its group closes, or up to there, if nothing between touches
/// what it writes, or writes what it reads.
class Grouper {
public:
  Grouper(plan::FunctionOp function, GroupedKernelSource grouped)
      : function(function), grouped(grouped) {}

  void run() {
    // Taken down first: launches are erased and made while groups close.
    for (Operation &op : function.getBody().front())
      if (!isa<plan::BufferOp>(op))
        addCommand(&op);
    for (swept = 0; swept < commands.size();) {
      Command &command = commands[swept++];
      if (!command.unit)
        closeConflicts(command.op);
      else if (!command.unit->isAdvanced)
        add(*command.unit);
    }
    // In the order in which groups were opened.
    while (!open.empty())
      close(open.begin()->first);
  }

private:
  /// A unit of launches, or another op.
  struct Command {
    std::unique_ptr<Unit> unit;
    Operation *op = nullptr;
  };

  /// A unit is taken whole: stages of one kernel follow each other.
  void addCommand(Operation *op) {
    auto launch = dyn_cast<plan::LaunchOp>(op);
    if (!launch) {
      commands.push_back({nullptr, op});
      return;
    }
    Unit *last = commands.empty() ? nullptr : commands.back().unit.get();
    if (last && last->stages.front().getBuffers() == launch.getBuffers()) {
      last->stages.push_back(launch);
      return;
    }
    const unsigned inputs = launch.getNumInputs();
    ++ahead[launch.getKernel()];
    commands.push_back(
        {std::make_unique<Unit>(Unit{{launch},
                                     llvm::to_vector(launch.getBuffers().take_front(inputs)),
                                     llvm::to_vector(launch.getBuffers().drop_front(inputs))})});
  }

  /// By buffers: places do not overlap in part.
  static bool conflicts(const Group &group, const Unit &unit) {
    auto in = [](const llvm::DenseSet<Value> &set) {
      return [&set](Value value) { return set.contains(value); };
    };
    return llvm::any_of(unit.reads, in(group.writes)) ||
           llvm::any_of(unit.writes, in(group.writes)) ||
           llvm::any_of(unit.writes, in(group.reads));
  }

  /// A command that is no launch: all of its buffers may be written. Nor are values kept long over
  /// a library call.
  void closeConflicts(Operation *op) {
    SmallVector<std::string> closing;
    bool library = !isa<plan::CopyOp>(op);
    // A copy for a result may be passed, if it touches nothing.
    for (auto &[key, group] : open) {
      bool touches = llvm::any_of(op->getOperands(), [&](Value value) {
        return group.reads.contains(value) || group.writes.contains(value);
      });
      if (touches || (library && group.bytes > kDelayedBytes))
        closing.push_back(key);
    }
    llvm::for_each(closing, [&](const std::string &key) { close(key); });
  }

  /// First closes what the unit conflicts with, so that the order of dependent launches stays.
  void add(Unit &unit) {
    --ahead[unit.stages.front().getKernel()];
    std::string key = keyOf(unit);
    SmallVector<std::string> closing;
    for (auto &[other, group] : open)
      if (conflicts(group, unit))
        closing.push_back(other);
    llvm::for_each(closing, [&](const std::string &key) { close(key); });
    Group &group = open[key];
    group.units.push_back(&unit);
    group.touch(unit.reads, unit.writes);
    group.bytes += arenaBytes(unit.stages.front());
    group.anchor = unit.stages.front();
    group.behind = swept;
    // A limit on the size of the launch's arguments.
    if (group.units.size() == kMostMembers)
      close(key);
  }

  /// Units further on that may run where a group does. What they read may be freed earlier, what
  /// they write is held longer, which is bounded.
  SmallVector<Unit *> findAdvanced(const std::string &key, const Group &group) {
    plan::LaunchOp first = group.anchor;
    SmallVector<Unit *> found;
    unsigned left = ahead.lookup(first.getKernel());
    if (left == 0)
      return found;
    // All that runs behind the group, and in front of the unit that is looked at.
    Group between;
    // Units of an open group may yet move down over it.
    for (auto &[other, members] : open)
      between.pass(members);
    for (const Group &other : closed)
      if (other.behind > group.behind)
        between.pass(other);
    int64_t bytes = 0;
    const size_t end = std::min(commands.size(), group.behind + kFarthest);
    for (size_t i = group.behind; i < end && left > 0; ++i) {
      const Command &command = commands[i];
      // All of its buffers may be written.
      if (!command.unit) {
        between.writes.insert_range(command.op->getOperands());
        continue;
      }
      Unit &unit = *command.unit;
      if (unit.isAdvanced)
        continue;
      // What has been swept may be gone.
      if (i >= swept && unit.stages.front().getKernel() == first.getKernel()) {
        --left;
        std::optional<int64_t> kept = leftBytes(unit);
        if (keyOf(unit) == key && !conflicts(between, unit) && !conflicts(group, unit) && kept &&
            bytes + *kept <= kAdvancedBytes && group.units.size() + found.size() < kMostMembers) {
          bytes += *kept;
          found.push_back(&unit);
          continue;
        }
      }
      between.touch(unit.reads, unit.writes);
    }
    return found;
  }

  /// One launch for each stage, at the place of the last unit that was swept: there every member's
  /// operands are written.
  void close(std::string key) {
    Group group = std::move(open[key]);
    open.erase(key);
    const SmallVector<Unit *> advanced = findAdvanced(key, group);
    // One alone stays as it is.
    if (group.units.size() + advanced.size() < 2)
      return;
    OpBuilder builder(group.anchor);
    SmallVector<plan::LaunchOp, 2> last = group.units.back()->stages;
    for (size_t stage = 0; stage < last.size(); ++stage) {
      std::string kernel = grouped(last[stage].getKernel());
      if (kernel.empty()) {
        assert(stage == 0 && "a target groups all stages of a kernel or none");
        return;
      }
      if (stage == 0)
        join(group, advanced);
      SmallVector<Value> buffers;
      SmallVector<DimAttr> dims, work;
      SmallVector<Location> locations;
      const DimAttr none = DimAttr::constant(builder.getContext(), 0);
      DimAttr total = none, moved = none, flops = none;
      for (const Unit *unit : group.units) {
        assert(unit->stages.size() == last.size() && "a key is that of all stages");
        plan::LaunchOp member = unit->stages[stage];
        llvm::append_range(buffers, member.getBuffers());
        llvm::append_range(dims, member.getDims().getDims());
        work.push_back(member.getWork());
        total = total + member.getWork();
        moved = moved + member.getMoved().value_or(none);
        flops = flops + member.getFlops().value_or(none);
        locations.push_back(member.getLoc());
      }
      plan::LaunchOp::create(
          builder, builder.getFusedLoc(locations), builder.getStringAttr(kernel), buffers,
          last[stage].getNumInputsAttr(), DimsAttr::get(builder.getContext(), dims), total,
          last[stage].getGrainAttr(), last[stage].getScratch(),
          DimsAttr::get(builder.getContext(), work), ArrayAttr(), DimsAttr(), DenseI64ArrayAttr(),
          last[stage].getFormAttr(), last[stage].getMoved() ? moved : DimAttr(),
          last[stage].getMoved() ? flops : DimAttr());
    }
    // Only when all stages have been made.
    for (Unit *unit : group.units)
      for (plan::LaunchOp launch : unit->stages)
        launch.erase();
    closed.push_back(std::move(group));
  }

  /// Units that the sweep will leave out.
  void join(Group &group, ArrayRef<Unit *> advanced) {
    for (Unit *unit : advanced) {
      unit->isAdvanced = true;
      --ahead[unit->stages.front().getKernel()];
      group.units.push_back(unit);
      group.touch(unit->reads, unit->writes);
      // Buffers stand in front of the first command that has them.
      for (Value value : unit->writes)
        if (Operation *buffer = value.getDefiningOp(); group.anchor->isBeforeInBlock(buffer))
          buffer->moveBefore(group.anchor);
    }
  }

  plan::FunctionOp function;
  GroupedKernelSource grouped;
  SmallVector<Command, 0> commands;
  /// The number of commands that have been looked at.
  size_t swept = 0;
  /// Units of each kernel, by its first stage, that the sweep has not reached and no group taken.
  llvm::StringMap<unsigned> ahead;
  /// Those that are one launch by now.
  SmallVector<Group, 0> closed;
  llvm::MapVector<std::string, Group, std::map<std::string, unsigned>> open;
};

} // namespace

void trainc::groupLaunches(plan::FunctionOp function, GroupedKernelSource grouped) {
  Grouper(function, grouped).run();
}
