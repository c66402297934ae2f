// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One sweep over the commands with the groups that can still grow. A kernel with several stages is
// one unit: its launches follow each other with the same buffers.

#include "lib/Conversion/TrainToPlan/GroupLaunches.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::string trainc::getGroupKey(plan::LaunchOp launch) {
  return launch.getKernel().str() + "/" + std::to_string(launch.getGrain()) + "/" +
         launch.getScratch().str();
}

std::optional<int64_t> trainc::getBytesOf(ValueRange buffers) {
  int64_t sum = 0;
  for (Value value : buffers) {
    auto buffer = value.getDefiningOp<plan::BufferOp>();
    std::optional<int64_t> bytes = train::getBytes(buffer.getType()).getConstant();
    if (!bytes)
      return std::nullopt;
    sum += *bytes;
  }
  return sum;
}

namespace {

constexpr unsigned kMostMembers = 1024;

/// The launches of one kernel's stages. Of some sizes the first ones do all: others are left out.
using Unit = SmallVector<plan::LaunchOp, 2>;

struct Group {
  SmallVector<Unit> units;
  llvm::DenseSet<Value> reads, writes;
  /// Arena bytes of the units; more than kHeldBytes where they are not known.
  int64_t bytes = 0;
};

/// Whether the stages of one are those of the other, as far as both have them.
bool haveSameStages(const Unit &a, const Unit &b) {
  return llvm::all_of(llvm::zip(a, b), [](auto pair) {
    return getGroupKey(std::get<0>(pair)) == getGroupKey(std::get<1>(pair));
  });
}

/// Stages have the same buffers: asked of the first.
int64_t arenaBytes(plan::LaunchOp launch) {
  auto isInArena = [](Value value) {
    return value.getDefiningOp<plan::BufferOp>().getSpace() == plan::Space::arena;
  };
  SmallVector<Value> buffers = llvm::filter_to_vector(launch.getBuffers(), isInArena);
  return getBytesOf(buffers).value_or(kHeldBytes + 1);
}

/// A launch may move down to where its group closes, if nothing between touches what it writes, or
/// writes what it reads.
class Grouper {
public:
  Grouper(plan::FunctionOp function, GroupedKernelSource grouped)
      : function(function), grouped(grouped) {}

  void run() {
    // Taken down first: launches are erased and made while groups close.
    SmallVector<Operation *> commands;
    for (Operation &op : function.getBody().front())
      if (!isa<plan::BufferOp>(op))
        commands.push_back(&op);
    for (size_t i = 0; i < commands.size();) {
      auto launch = dyn_cast<plan::LaunchOp>(commands[i]);
      if (!launch) {
        closeConflicts(commands[i]);
        ++i;
        continue;
      }
      // A unit is taken whole: stages of one kernel follow each other.
      Unit unit;
      for (; i < commands.size(); ++i) {
        auto next = dyn_cast<plan::LaunchOp>(commands[i]);
        if (!next || next.getBuffers() != launch.getBuffers())
          break;
        unit.push_back(next);
      }
      add(unit);
    }
    // In the order in which groups were opened.
    while (!open.empty())
      close(open.begin()->first);
  }

private:
  ValueRange inputs(plan::LaunchOp launch) {
    return launch.getBuffers().take_front(launch.getNumInputs());
  }
  ValueRange outputs(plan::LaunchOp launch) {
    return launch.getBuffers().drop_front(launch.getNumInputs());
  }

  /// By buffers: places do not overlap in part.
  bool conflicts(const Group &group, plan::LaunchOp launch) {
    auto in = [](const llvm::DenseSet<Value> &set) {
      return [&set](Value value) { return set.contains(value); };
    };
    return llvm::any_of(launch.getBuffers(), in(group.writes)) ||
           llvm::any_of(outputs(launch), in(group.reads));
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
      if (touches || (library && group.bytes > kHeldBytes))
        closing.push_back(key);
    }
    llvm::for_each(closing, [&](const std::string &key) { close(key); });
  }

  /// First closes what the unit conflicts with, so that the order of dependent launches stays.
  void add(const Unit &unit) {
    std::string key = getGroupKey(unit.front());
    SmallVector<std::string> closing;
    for (auto &[other, group] : open)
      if (conflicts(group, unit.front()) || (other == key && !haveSameStages(longest(group), unit)))
        closing.push_back(other);
    llvm::for_each(closing, [&](const std::string &key) { close(key); });
    Group &group = open[key];
    group.units.push_back(unit);
    group.reads.insert_range(inputs(unit.front()));
    group.writes.insert_range(outputs(unit.front()));
    group.bytes += arenaBytes(unit.front());
    // A limit on the size of the launch's arguments.
    if (group.units.size() == kMostMembers)
      close(key);
  }

  /// The unit that has all stages of its group.
  static const Unit &longest(const Group &group) {
    return *std::max_element(group.units.begin(), group.units.end(),
                             [](const Unit &a, const Unit &b) { return a.size() < b.size(); });
  }

  /// One launch for each stage, at the place of the last unit: there every member's operands are
  /// written.
  void close(std::string key) {
    Group group = std::move(open[key]);
    open.erase(key);
    // One alone stays as it is.
    if (group.units.size() < 2)
      return;
    plan::LaunchOp place = group.units.back().front();
    OpBuilder builder(place);
    Unit replaced;
    for (size_t stage = 0, end = longest(group).size(); stage < end; ++stage) {
      Unit members;
      for (const Unit &unit : group.units)
        if (stage < unit.size())
          members.push_back(unit[stage]);
      plan::LaunchOp last = members.back();
      // Its only member's launch moves down with the others.
      if (members.size() == 1) {
        last->moveBefore(place);
        continue;
      }
      std::string kernel = grouped(last.getKernel());
      if (kernel.empty()) {
        assert(stage == 0 && "a target groups all stages of a kernel or none");
        return;
      }
      SmallVector<Value> buffers;
      SmallVector<DimAttr> dims, work;
      SmallVector<Location> locations;
      const DimAttr none = DimAttr::constant(builder.getContext(), 0);
      DimAttr total = none, moved = none, flops = none;
      for (plan::LaunchOp member : members) {
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
          last.getNumInputsAttr(), DimsAttr::get(builder.getContext(), dims), total,
          last.getGrainAttr(), last.getScratch(), DimsAttr::get(builder.getContext(), work),
          ArrayAttr(), DimsAttr(), DenseI64ArrayAttr(), last.getFormAttr(),
          last.getMoved() ? moved : DimAttr(), last.getMoved() ? flops : DimAttr());
      replaced.append(members);
    }
    // Only when all stages have been made.
    for (plan::LaunchOp launch : replaced)
      launch.erase();
  }

  plan::FunctionOp function;
  GroupedKernelSource grouped;
  llvm::MapVector<std::string, Group, std::map<std::string, unsigned>> open;
};

} // namespace

void trainc::groupLaunches(plan::FunctionOp function, GroupedKernelSource grouped) {
  Grouper(function, grouped).run();
}
