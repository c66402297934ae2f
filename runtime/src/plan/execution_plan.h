// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of a program for given symbol values: all sizes evaluated, all references checked
// against them, the arena laid out. Made when a shape is first seen, then reused.
#ifndef TRAINRT_PLAN_EXECUTION_PLAN_H
#define TRAINRT_PLAN_EXECUTION_PLAN_H

#include "format/program.h"

#include <memory>
#include <utility>
#include <vector>

namespace trainrt {

/// What a device has made of a plan (a captured graph, for instance).
class CompiledPlan {
public:
  virtual ~CompiledPlan() = default;
};

struct ExecutionPlan {
  /// One command; its places and sizes begin at these indices.
  struct Step {
    const Command *command;
    uint32_t firstPlace, firstSize;
  };
  struct Output {
    uint32_t index; ///< in Program::outputs
    std::vector<int64_t> shape;
    int64_t bytes, offset; ///< within the memory for outputs
  };

  /// How much of the arena is in use where phases begin and end (Function::forwardEnd and
  /// backwardEnd): at most within each of them, and at the two marks between them. All within the
  /// last one where the package tells of no phases.
  struct PhaseMarks {
    int64_t most[3] = {}, between[2] = {};
  };

  const Function *function = nullptr;
  /// Only the symbols that the function needs; 0 elsewhere.
  std::vector<int64_t> symbols;
  std::vector<Step> steps;
  /// Of all commands' operands, and sizes with the costs behind them, in their order.
  std::vector<Place> places;
  std::vector<int64_t> sizes;
  /// Of the function's buffers; offsets of arena buffers within the arena, of those on the host
  /// within their block.
  std::vector<int64_t> bufferBytes, bufferOffsets;
  std::vector<Output> outputs;
  /// Of CUDA: by command, whether it belongs on the second lane (plan/overlap.h).
  std::vector<bool> aside;
  /// By step (plan/exchange_waits.h); empty where ranks do nothing together.
  std::vector<uint32_t> exchangeWaits;
  int64_t arenaBytes = 0, arenaLowerBound = 0, outputBytes = 0;
  int64_t hostBytes = 0; ///< pinned, beside a GPU
  /// A thread.
  int64_t scratchBytes = 0;
  PhaseMarks marks;
  /// Made by the device when the plan first runs; null on the CPU.
  mutable std::unique_ptr<CompiledPlan> compiled;

  StepView view(const Step &step) const {
    const Command &command = *step.command;
    return {*function,
            command,
            bufferBytes,
            command.operands,
            std::span(places).subspan(step.firstPlace, command.operands.size()),
            std::span(sizes).subspan(step.firstSize, command.sizes.size()),
            std::span(sizes).subspan(step.firstSize + command.sizes.size(), command.costs.size())};
  }
  /// Calls `fn(op, view)` with the kind of a step and its view.
  template <typename Fn> decltype(auto) visit(const Step &step, Fn &&fn) const {
    return std::visit([&](const auto &op) { return fn(op, viewOf(view(step), op)); },
                      step.command->op);
  }
};

/// `symbols`: a value for each symbol of the program (only those the function needs are used; they
/// satisfy their bounds). BadData if the sizes overflow; BadPackage if the program contradicts
/// itself.
Status makePlan(const Program &program, const Function &function,
                const std::vector<int64_t> &symbols, ExecutionPlan &plan);

} // namespace trainrt

#endif // TRAINRT_PLAN_EXECUTION_PLAN_H
