// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Workspaces are buffers that live in one command; lives are made longer for lanes that run side by
// side.

#include "plan/arena_layout.h"

#include <algorithm>
#include <optional>

namespace trainrt {

namespace {

/// By how many commands what the second lane touches outlives it; the longest that there is room
/// for is taken.
constexpr int32_t delays[] = {64, 16, 4};

/// Of one function, with its buffers and workspaces.
class Layouts {
public:
  /// `workspaces`: by command, or empty.
  Layouts(const Function &function, const std::vector<PlanBuffer> &lifetimes,
          const std::vector<bool> &aside, const std::vector<int64_t> &workspaces, int64_t alignment)
      : function(function), lifetimes(lifetimes), aside(aside), workspaces(workspaces),
        alignment(alignment), end(int32_t(function.commands.size()) - 1) {}

  bool runsBeside() const { return std::find(aside.begin(), aside.end(), true) != aside.end(); }

  ArenaLayout tight() const { return layOut(0, false); }

  /// The first one that takes no more than `most`.
  std::optional<ArenaLayout> relaxed(int64_t most) const {
    // All workspaces of the second lane in one place give its commands any time; then its order
    // alone counts.
    for (const bool together : {true, false})
      for (const int32_t delay : delays) {
        if (together && workspaces.empty())
          continue;
        ArenaLayout found = layOut(delay, together);
        if (found.bytes <= most)
          return found;
      }
    return std::nullopt;
  }

private:
  /// `together`: one workspace for the second lane, from the first of its commands that has one to
  /// the last.
  ArenaLayout layOut(int32_t delay, bool together) const {
    std::vector<PlanBuffer> all = lifetimes;
    for (int32_t i = 0; i <= end; ++i)
      if (isAside(i))
        for (const Operand &operand : function.commands[size_t(i)].operands)
          if (operand.isPresent())
            all[operand.buffer].last = std::max(all[operand.buffer].last, std::min(end, i + delay));
    // By command the buffer that is its workspace.
    std::vector<size_t> indices(workspaces.size());
    size_t shared = 0;
    for (int32_t i = 0; i < int32_t(workspaces.size()); ++i) {
      const int64_t bytes = workspaces[size_t(i)];
      if (!bytes)
        continue;
      const int32_t last = isAside(i) ? std::min(end, i + delay) : i;
      if (isAside(i) && together && shared) {
        all[shared].bytes = std::max(all[shared].bytes, bytes);
        all[shared].last = last;
        indices[size_t(i)] = shared;
        continue;
      }
      indices[size_t(i)] = all.size();
      if (isAside(i))
        shared = all.size();
      all.push_back({bytes, i, last});
    }
    Plan plan = planMemory(all, alignment);
    ArenaLayout layout{std::move(plan.offsets), std::vector<int64_t>(workspaces.size()), plan.peak,
                       plan.lowerBound};
    for (size_t i = 0; i < workspaces.size(); ++i)
      if (workspaces[i])
        layout.workspaces[i] = layout.offsets[indices[i]];
    layout.offsets.resize(lifetimes.size());
    return layout;
  }

  bool isAside(int32_t command) const { return !aside.empty() && aside[size_t(command)]; }

  const Function &function;
  const std::vector<PlanBuffer> &lifetimes;
  const std::vector<bool> &aside;
  const std::vector<int64_t> &workspaces;
  int64_t alignment;
  int32_t end; ///< the last command
};

/// One workspace for each lane, behind the plan's arena.
ArenaLayout behindArena(const ExecutionPlan &plan, const std::vector<int64_t> &workspaces,
                        int64_t alignment) {
  ArenaLayout layout{plan.bufferOffsets, std::vector<int64_t>(workspaces.size()), 0,
                     plan.arenaLowerBound};
  int64_t most[2] = {};
  const auto lane = [&](size_t command) { return !plan.aside.empty() && plan.aside[command]; };
  for (size_t i = 0; i < workspaces.size(); ++i)
    most[lane(i)] = std::max(most[lane(i)], padded(workspaces[i], alignment));
  for (size_t i = 0; i < workspaces.size(); ++i)
    if (workspaces[i])
      layout.workspaces[i] = plan.arenaBytes + (lane(i) ? most[0] : 0);
  layout.bytes = plan.arenaBytes + most[0] + most[1];
  return layout;
}

/// What a layout may take beside one of `tight` bytes, so that commands can overlap.
int64_t mostBytes(const Layouts &layouts, int64_t tight) {
  return tight + (layouts.runsBeside() ? roomForOverlap(tight) : int64_t(0));
}

/// `tight`, or where commands run beside others one that lets them, if it is small enough.
ArenaLayout relaxedWithin(const Layouts &layouts, ArenaLayout tight) {
  if (!layouts.runsBeside())
    return tight;
  std::optional<ArenaLayout> relaxed = layouts.relaxed(mostBytes(layouts, tight.bytes));
  if (!relaxed)
    return tight;
  relaxed->lowerBound = tight.lowerBound;
  return std::move(*relaxed);
}

} // namespace

std::vector<PlanBuffer> lifetimesOf(const Function &function,
                                    const std::vector<int64_t> &bufferBytes, Space space) {
  std::vector<PlanBuffer> lifetimes(function.buffers.size());
  for (size_t i = 0; i < lifetimes.size(); ++i)
    if (const Buffer &buffer = function.buffers[i]; buffer.space == space)
      lifetimes[i] = {bufferBytes[i], buffer.first, buffer.last};
  return lifetimes;
}

ArenaLayout layOutArena(const Function &function, const std::vector<PlanBuffer> &lifetimes,
                        const std::vector<bool> &aside, int64_t alignment) {
  const std::vector<int64_t> none;
  const Layouts layouts(function, lifetimes, aside, none, alignment);
  return relaxedWithin(layouts, layouts.tight());
}

ArenaLayout layOutWorkspaces(const ExecutionPlan &plan, const std::vector<int64_t> &workspaces,
                             int64_t alignment) {
  ArenaLayout behind = behindArena(plan, workspaces, alignment);
  if (!plan.exchangeWaits.empty() || behind.bytes == plan.arenaBytes)
    return behind;
  const std::vector<PlanBuffer> lifetimes =
      lifetimesOf(*plan.function, plan.bufferBytes, Space::Arena);
  const Layouts layouts(*plan.function, lifetimes, plan.aside, workspaces, alignment);
  ArenaLayout tight = layouts.tight();
  if (behind.bytes <= mostBytes(layouts, tight.bytes))
    return behind;
  return relaxedWithin(layouts, std::move(tight));
}

int64_t mostBytesOfWorkspaces(const ExecutionPlan &plan, const std::vector<int64_t> &workspaces,
                              int64_t alignment) {
  const int64_t behind = behindArena(plan, workspaces, alignment).bytes - plan.arenaBytes;
  if (!plan.exchangeWaits.empty() || !behind)
    return behind;
  const std::vector<PlanBuffer> lifetimes =
      lifetimesOf(*plan.function, plan.bufferBytes, Space::Arena);
  const Layouts layouts(*plan.function, lifetimes, plan.aside, workspaces, alignment);
  const int64_t most = mostBytes(layouts, layouts.tight().bytes);
  return std::clamp(most - plan.arenaBytes, int64_t(0), behind);
}

} // namespace trainrt
