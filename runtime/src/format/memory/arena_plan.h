// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory planner: places buffers with known lifetimes into one arena. It is a library of its
// own, since the compiler's report states the same peak that the runtime will use.
#ifndef TRAINRT_FORMAT_MEMORY_ARENA_PLAN_H
#define TRAINRT_FORMAT_MEMORY_ARENA_PLAN_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainrt {

/// Alignment of every offset of the CPU target, in bytes; that of the CUDA target is larger.
inline constexpr int64_t planAlignment = 64;
inline constexpr int64_t cudaPlanAlignment = 256;

/// The next multiple of `alignment`.
inline constexpr int64_t padded(int64_t bytes, int64_t alignment = planAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Whether most commands are so small that a GPU has room for others beside them; `touched`: the
/// bytes of each one's buffers.
bool leavesRoomBeside(std::vector<int64_t> touched);

/// By how much the arena of a GPU may grow so that commands that run beside others delay them less,
/// where these leave room.
inline constexpr int64_t roomForOverlap(int64_t peak) {
  return std::max(peak / 50, int64_t(32) << 20);
}

/// A buffer of `bytes` (>= 0) that is live in commands `first`..`last`, inclusive.
struct PlanBuffer {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

struct Plan {
  /// One per buffer, multiples of the alignment. Buffers of no bytes are at 0.
  std::vector<int64_t> offsets;
  /// Bytes of the arena.
  int64_t peak = 0;
  /// The most (aligned) bytes live in one command: no plan can need less.
  int64_t lowerBound = 0;
};

/// Buffers whose lifetimes share a command never share a byte. Deterministic: depends on `buffers`
/// only. Takes some milliseconds at most for thousands of buffers; the plans of real steps are
/// within 2 % of the bound.
Plan planMemory(const std::vector<PlanBuffer> &buffers, int64_t alignment = planAlignment);

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_ARENA_PLAN_H
