// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slices lie behind each other in their tensors: all of them have to be there.

#include "format/commands/loop.h"
#include "format/program.h"
#include "program_generated.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

Status Loop::read(const fb::Loop &from, const CommandCheck &check) {
  if (!check.kernels.empty())
    return check.bad(".kernels: it runs none");
  scanned = from.scanned();
  stacked = from.stacked();
  isEnd = from.end();
  reverse = from.reverse();
  // 64 bits: the counts come from the package.
  if (2 * (uint64_t(scanned) + stacked) > check.operands.size())
    return check.bad(".operands has ", check.operands.size(), " entries, fewer than ", scanned,
                     " and ", stacked, " tensors and their slices");
  for (size_t i = 0; i < check.operands.size(); ++i) {
    // Tensors that are scanned, slices of those that are stacked, and what is needed beside.
    const bool isRead = i < scanned || i >= 2 * size_t(scanned) + stacked;
    if (check.operands[i].access != (isRead ? Access::Read : Access::Write))
      return check.bad(".operands[", i, "] is not ", isRead ? "read" : "written");
  }
  return check.numSizes(1);
}

Status Loop::checkPlaces(const PlaceCheck &check) const {
  const LoopView view(check.step, *this);
  TRAINRT_TRY(check.notNegative(view.steps()));
  for (size_t i = 0; i < view.numSlices(); ++i)
    TRAINRT_TRY(
        check.covers(view.whole(i), 0, __int128(view.steps()) * view.bytesOf(view.slice(i)), 1));
  return {};
}

std::string Loop::name(const Program &, const StepView &step) const {
  const LoopView view(step, *this);
  return (isEnd ? "end of a loop of " : "loop of ") + std::to_string(view.steps()) + " steps";
}

bool matchLoops(std::vector<Command> &commands, size_t &wrong) {
  std::vector<size_t> open;
  auto same = [](const Operand &a, const Operand &b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.access == b.access;
  };
  for (wrong = 0; wrong < commands.size(); ++wrong) {
    const auto *loop = std::get_if<Loop>(&commands[wrong].op);
    commands[wrong].loop = open.empty() ? -1 : int32_t(open.back());
    if (!loop)
      continue;
    if (!loop->isEnd) {
      open.push_back(wrong);
      continue;
    }
    if (open.empty())
      return false;
    const Command &begin = commands[open.back()], &end = commands[wrong];
    const Loop &first = std::get<Loop>(begin.op);
    if (first.scanned != loop->scanned || first.stacked != loop->stacked ||
        first.reverse != loop->reverse || begin.sizes != end.sizes ||
        !std::ranges::equal(begin.operands, end.operands, same))
      return false;
    open.pop_back();
  }
  if (!open.empty())
    wrong = open.back();
  return open.empty();
}

size_t loopEnd(const std::vector<Command> &commands, size_t begin) {
  size_t depth = 0;
  for (size_t i = begin;; ++i) {
    assert(i < commands.size() && "where the program is read it is checked that loops have an end");
    if (const auto *loop = std::get_if<Loop>(&commands[i].op))
      if ((depth += loop->isEnd ? size_t(-1) : 1) == 0)
        return i;
  }
}

bool isSameInAllSteps(const StepView &step, size_t operand) {
  const int32_t begin = step.command.loop;
  if (begin < 0 || !step.operands[operand].isPresent())
    return false;
  const Buffer &read = step.buffer(operand);
  const std::vector<Command> &commands = step.function.commands;
  // Several buffers of a function may be one tensor of the program; those of the arena are
  // different as long as they live.
  auto isWritten = [&](const Operand &other) {
    if (!other.isWritten())
      return false;
    const Buffer &written = step.function.buffers[other.buffer];
    return other.buffer == step.operands[operand].buffer ||
           (written.space != Space::Arena && written.space == read.space &&
            written.index == read.index);
  };
  for (size_t i = size_t(begin), end = loopEnd(commands, i); i <= end; ++i)
    if (std::ranges::any_of(commands[i].operands, isWritten))
      return false;
  return true;
}

} // namespace trainrt
