// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Levels of commands: a command that could run many levels later than its operands are there has
// time.

#include "core/overlap.h"

#include <algorithm>
#include <climits>

namespace trainrt {

namespace {

/// Commands that one may be late by to be aside.
constexpr int32_t minSlack = 6;

struct AccessLister {
  Accesses result;

  void operator()(const Launch &op) {
    const uint32_t members = uint32_t(std::max<size_t>(op.group.size(), 1));
    const uint32_t args = uint32_t(op.args.size()) / members;
    for (uint32_t i = 0; i < op.args.size(); ++i) {
      const bool isInput = op.numInputs >= 0 && int32_t(i % args) < op.numInputs;
      (isInput ? result.reads : result.writes).push_back(i);
    }
  }
  // A bias or a stored value may be read or written; hardly anything else reads it.
  void operator()(const Gemm &op) {
    result = {{0, 1}, {2}};
    if (hasBias(op.epilogue))
      result.writes.push_back(3);
    if (hasAux(op.epilogue))
      result.writes.push_back(4);
  }
  void operator()(const Attention &op) {
    for (uint32_t i = 0; i < numAttentionOperands; ++i) {
      if (!op.operands[i].present)
        continue;
      const auto which = static_cast<AttentionOperand>(i);
      const bool isResult = op.backward
                                ? which == AttentionOperand::DQ || which == AttentionOperand::DK ||
                                      which == AttentionOperand::DV
                                : which == AttentionOperand::O || which == AttentionOperand::Stats;
      (isResult ? result.writes : result.reads).push_back(i);
    }
  }
  void operator()(const Copy &) { result = {{0}, {1}}; }
  void operator()(const Fill &) { result = {{}, {0}}; }
};

} // namespace

Accesses accessesOf(const Command &command) {
  AccessLister lister;
  std::visit(lister, command.op);
  return std::move(lister.result);
}

std::vector<uint32_t> placesOf(const Command &command) {
  if (auto *gemm = std::get_if<Gemm>(&command.op))
    return {gemm->a.buffer, gemm->b.buffer, gemm->c.buffer, gemm->bias.buffer, gemm->aux.buffer};
  if (auto *copy = std::get_if<Copy>(&command.op))
    return {copy->from.buffer, copy->to.buffer};
  if (auto *fill = std::get_if<Fill>(&command.op))
    return {fill->to.buffer};
  std::vector<uint32_t> buffers;
  if (auto *launch = std::get_if<Launch>(&command.op))
    for (const Ref &ref : launch->args)
      buffers.push_back(ref.buffer);
  if (auto *attention = std::get_if<Attention>(&command.op))
    for (const Attention::Operand &operand : attention->operands)
      buffers.push_back(operand.ref.buffer);
  return buffers;
}

std::vector<uint32_t> buffersOf(const Command &command) {
  const std::vector<uint32_t> buffers = placesOf(command);
  const Accesses accesses = accessesOf(command);
  std::vector<uint32_t> result;
  for (const auto *places : {&accesses.reads, &accesses.writes})
    for (uint32_t place : *places)
      result.push_back(buffers[place]);
  return result;
}

std::vector<bool> findAside(const Function &function) {
  const size_t n = function.commands.size();
  std::vector<std::vector<uint32_t>> buffers(n);
  std::vector<Accesses> accesses(n);
  for (size_t i = 0; i < n; ++i) {
    buffers[i] = placesOf(function.commands[i]);
    accesses[i] = accessesOf(function.commands[i]);
  }
  // By what is computed, not by where it is stored: the planner gives those that are aside time.
  std::vector<int32_t> early(n, 0), level(function.buffers.size(), 0);
  int32_t depth = 0;
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t place : accesses[i].reads)
      early[i] = std::max(early[i], level[buffers[i][place]]);
    for (uint32_t place : accesses[i].writes)
      early[i] = std::max(early[i], level[buffers[i][place]]);
    for (uint32_t place : accesses[i].writes)
      level[buffers[i][place]] = early[i] + 1;
    depth = std::max(depth, early[i] + 1);
  }
  std::vector<int32_t> needed(function.buffers.size(), depth);
  std::vector<bool> aside(n);
  for (size_t i = n; i-- > 0;) {
    int32_t due = depth;
    for (uint32_t place : accesses[i].writes)
      due = std::min(due, needed[buffers[i][place]]);
    aside[i] = due - 1 - early[i] >= minSlack && !isTransfer(function, function.commands[i]);
    for (const auto *places : {&accesses[i].reads, &accesses[i].writes})
      for (uint32_t place : *places)
        needed[buffers[i][place]] = std::min(needed[buffers[i][place]], due - 1);
  }
  return aside;
}

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
