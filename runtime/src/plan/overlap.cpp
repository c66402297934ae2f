// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Levels of commands: a command that could run many levels later than its operands are there has
// time.

#include "plan/overlap.h"

#include <algorithm>
#include <climits>

namespace trainrt {

namespace {

/// Commands that one may be late by to be aside.
constexpr int32_t minSlack = 6;

/// Calls `fn(buffer)` for the operands that are read, or that are written.
template <typename Fn> void forEach(const Command &command, bool written, const Fn &fn) {
  for (const Operand &operand : command.operands)
    if (written ? operand.isWritten() : operand.isRead())
      fn(operand.buffer);
}

} // namespace

/// Two sweeps over the commands, forward for the earliest level of each, backward for the latest;
/// slack is the difference.
std::vector<bool> findAside(const Function &function) {
  const size_t n = function.commands.size();
  // By what is computed, not by where it is stored: the planner gives those that are aside time.
  std::vector<int32_t> early(n, 0), level(function.buffers.size(), 0);
  int32_t depth = 0;
  for (size_t i = 0; i < n; ++i) {
    const Command &command = function.commands[i];
    // Also after earlier writers of what it writes: updates in place keep their order.
    for (bool written : {false, true})
      forEach(command, written,
              [&](uint32_t buffer) { early[i] = std::max(early[i], level[buffer]); });
    forEach(command, true, [&](uint32_t buffer) { level[buffer] = early[i] + 1; });
    depth = std::max(depth, early[i] + 1);
  }
  std::vector<int32_t> needed(function.buffers.size(), depth);
  std::vector<bool> aside(n);
  for (size_t i = n; i-- > 0;) {
    const Command &command = function.commands[i];
    int32_t due = depth;
    forEach(command, true, [&](uint32_t buffer) { due = std::min(due, needed[buffer]); });
    // Transfers have a lane of their own.
    aside[i] = due - 1 - early[i] >= minSlack && !isTransfer(function, command);
    for (bool written : {false, true})
      forEach(command, written,
              [&](uint32_t buffer) { needed[buffer] = std::min(needed[buffer], due - 1); });
  }
  return aside;
}

/// So that a segment begins at `at`, if one lies over it.
void MemoryOrder::cut(uint64_t at) {
  auto it = segments.upper_bound(at);
  if (it == segments.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Segment rest = it->second;
  it->second.end = at;
  segments.emplace(at, std::move(rest));
}

} // namespace trainrt
