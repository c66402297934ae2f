// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a function's buffers lie in the arena, and what calls of libraries need for as long as they
// run.
#ifndef TRAINRT_PLAN_ARENA_LAYOUT_H
#define TRAINRT_PLAN_ARENA_LAYOUT_H

#include "format/memory/arena_plan.h"
#include "plan/execution_plan.h"

#include <span>
#include <vector>

namespace trainrt {

struct ArenaLayout {
  /// By buffer of the function; 0 of those that are elsewhere.
  std::vector<int64_t> offsets;
  /// By command; 0 of those that need none, empty where none does.
  std::vector<int64_t> workspaces;
  int64_t bytes = 0, lowerBound = 0;
};

/// Sizes and lives of a function's buffers of `space`; of no bytes where they are elsewhere.
std::vector<PlanBuffer> lifetimesOf(const Function &function,
                                    const std::vector<int64_t> &bufferBytes, Space space);

/// Without workspaces. What commands that are `aside` touch lives longer, so that the first lane
/// does not wait for them to write to the same memory, as far as that costs next to none.
ArenaLayout layOutArena(const Function &function, const std::vector<PlanBuffer> &lifetimes,
                        const std::vector<bool> &aside, int64_t alignment);

/// The plan's arena with a workspace of so many bytes for each command. One behind the arena for
/// each lane, where that is next to nothing more than the least: then neither lane waits for the
/// other's. Else where nothing lives while a command runs, those of the second lane for as long as
/// there is room. Plans with exchanges, whose commands wait by the plan's addresses, get the
/// former.
ArenaLayout layOutWorkspaces(const ExecutionPlan &plan, const std::vector<int64_t> &workspaces,
                             int64_t alignment);

/// No less than `layOutWorkspaces` takes beyond the plan's arena for workspaces of at most so many
/// bytes.
int64_t mostBytesOfWorkspaces(const ExecutionPlan &plan, const std::vector<int64_t> &workspaces,
                              int64_t alignment);

} // namespace trainrt

#endif // TRAINRT_PLAN_ARENA_LAYOUT_H
