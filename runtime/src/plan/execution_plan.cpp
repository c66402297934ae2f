// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making a plan: evaluate, check, lay out.

#include "plan/execution_plan.h"
#include "format/memory/arena_plan.h"
#include "plan/arena_layout.h"
#include "plan/exchange_waits.h"
#include "plan/overlap.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

class Planner {
public:
  Planner(const Program &program, const Function &function, ExecutionPlan &plan)
      : program(program), function(function), plan(plan), traits(traitsOf(program.target)) {}

  Status run(const std::vector<int64_t> &symbols) {
    plan.function = &function;
    // Symbols that the function does not use are 0, so that plans for the same sizes are equal.
    plan.symbols.assign(program.symbols.size(), 0);
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (function.symbols[i])
        plan.symbols[i] = symbols[i];
    ExprId wrong;
    // Only this function's expressions: others may overflow for these sizes.
    if (!evaluate(program, function.exprs, plan.symbols, exprs, wrong))
      return fail(Code::BadData, "these sizes are too large: '", program.text(wrong),
                  "' overflows or divides by zero (", symbolText(), ")");
    TRAINRT_TRY(planBuffers());
    for (size_t i = 0; i < function.commands.size(); ++i)
      TRAINRT_TRY(addStep(i));
    plan.exchangeWaits = findExchangeWaits(plan);
    return {};
  }

private:
  std::string symbolText() const {
    std::string text;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (function.symbols[i])
        text += (text.empty() ? "" : ", ") + program.symbols[i].name + " = " +
                std::to_string(plan.symbols[i]);
    return text;
  }

  template <typename... Args> Status bad(const Args &...what) const {
    return fail(Code::BadPackage, "program.fb: function '", function.name, "': ", what...,
                " (with ", symbolText(), ")");
  }

  int64_t value(ExprId id) const { return exprs[id]; }

  /// A function of shards knows the world by its symbol.
  RunPlace place() const {
    RunPlace place;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (program.symbols[i].run == Symbol::Run::World && function.symbols[i])
        place.world = std::max<int64_t>(1, plan.symbols[i]);
    return place;
  }

  std::vector<int64_t> shapeOf(const TensorDecl &tensor) const {
    std::vector<int64_t> shape;
    for (ExprId extent : tensor.shape)
      shape.push_back(value(extent));
    return shape;
  }

  /// Sizes and lifetimes first, then the arena: addresses depend on all buffers of the function
  /// together.
  Status planBuffers() {
    plan.bufferBytes.resize(function.buffers.size());
    plan.bufferOffsets.resize(function.buffers.size());
    for (uint32_t output : function.outputs) {
      // Far below what overflows: padding and the sum are added to it.
      ExecutionPlan::Output result{output, shapeOf(program.outputs[output]), 0, plan.outputBytes};
      if (!countBytes(program.outputs[output].dtype, result.shape.data(), result.shape.size(),
                      result.bytes) ||
          result.bytes > INT64_MAX / 4)
        return fail(Code::BadData, "output '", program.outputs[output].name, "' of shape ",
                    shapeText(result.shape), " is impossible");
      if (__builtin_add_overflow(plan.outputBytes, padded(result.bytes, traits.alignment),
                                 &plan.outputBytes))
        return fail(Code::BadData, "the outputs are too large (", symbolText(), ")");
      plan.outputs.push_back(std::move(result));
    }
    int64_t sum = 0;
    for (size_t i = 0; i < function.buffers.size(); ++i) {
      const Buffer &buffer = function.buffers[i];
      int64_t bytes = value(buffer.bytes), limit = 0;
      plan.bufferBytes[i] = bytes;
      if (bytes < 0)
        return bad("buffer ", i, " has ", bytes, " bytes");
      switch (buffer.space) {
      case Space::Arena:
      case Space::Host:
        // Half of the range leaves room for alignment.
        // The sum of all buffers bounds the arena, so that the planner cannot overflow.
        if (__builtin_add_overflow(sum, bytes, &sum) || sum > INT64_MAX / 2)
          return fail(Code::BadData, "these sizes are too large (", symbolText(), ")");
        continue;
      case Space::Parameter:
        limit = shardOf(program.parameters[buffer.index], place()).held;
        break;
      case Space::State:
        limit = shardOf(program.state[buffer.index], place()).held;
        break;
      case Space::Derived:
        limit = program.derived[buffer.index].staticBytes;
        break;
      case Space::Gradient:
        limit = gradientShard(program.parameters[buffer.index], place()).held;
        break;
      case Space::Hyper:
        limit = program.hypers[buffer.index].staticBytes;
        break;
      case Space::Constant:
        limit = int64_t(program.constants[buffer.index].data.size());
        break;
      case Space::Input: {
        const TensorDecl &input = program.inputs[buffer.index];
        std::vector<int64_t> shape = shapeOf(input);
        if (!countBytes(input.dtype, shape.data(), shape.size(), limit))
          return fail(Code::BadData, "input '", input.name, "' of shape ", shapeText(shape),
                      " is impossible");
        break;
      }
      case Space::Output:
        for (const ExecutionPlan::Output &output : plan.outputs)
          if (output.index == buffer.index)
            limit = output.bytes;
        break;
      }
      // A buffer may be smaller than its tensor (a part of it), never larger: kernels stay inside
      // of it.
      if (bytes > limit)
        return bad("buffer ", i, " has ", bytes, " bytes, its tensor ", limit);
    }
    const std::vector<PlanBuffer> lifetimes = lifetimesOf(function, plan.bufferBytes, Space::Arena);
    // Elsewhere each command fills the GPU by itself: nothing runs beside it.
    if (traits.runsBeside)
      plan.aside =
          leavesRoom() ? findAside(function) : std::vector<bool>(function.commands.size(), false);
    ArenaLayout arena = layOutArena(function, lifetimes, plan.aside, traits.alignment);
    plan.arenaLowerBound = arena.lowerBound;
    plan.arenaBytes = arena.bytes;
    // Lives only become longer.
    assert(plan.arenaBytes >= plan.arenaLowerBound && "what lives at once needs its room");
    markPhases(lifetimes);
    plan.bufferOffsets = std::move(arena.offsets);
    const Plan host =
        planMemory(lifetimesOf(function, plan.bufferBytes, Space::Host), traits.alignment);
    plan.hostBytes = host.peak;
    // Offsets are in blocks of their own: the arena, the host's, and the outputs'.
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (function.buffers[i].space == Space::Host)
        plan.bufferOffsets[i] = host.offsets[i];
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (function.buffers[i].space == Space::Output)
        for (const ExecutionPlan::Output &output : plan.outputs)
          if (output.index == function.buffers[i].index)
            plan.bufferOffsets[i] = output.offset;
    return {};
  }

  /// What is in use in a command is what planMemory counts for its lower bound.
  void markPhases(const std::vector<PlanBuffer> &lifetimes) {
    // An absent phase (-1) ends at 0: everything is of the last one.
    const int32_t ends[2] = {std::max(function.forwardEnd, 0), std::max(function.backwardEnd, 0)};
    std::vector<int64_t> change(function.commands.size() + 1);
    assert(ends[0] <= ends[1] && "phases are checked when the program is read");
    for (const PlanBuffer &buffer : lifetimes) {
      if (!buffer.bytes)
        continue;
      const int64_t bytes = padded(buffer.bytes, traits.alignment);
      change[size_t(buffer.first)] += bytes;
      change[size_t(buffer.last) + 1] -= bytes;
      // Live over the end of a phase: written before it and read at or after it.
      for (int i = 0; i < 2; ++i)
        if (buffer.first < ends[i] && ends[i] <= buffer.last)
          plan.marks.between[i] += bytes;
    }
    int64_t live = 0;
    for (int32_t i = 0; i < int32_t(function.commands.size()); ++i) {
      // Index 0 is the forward, 1 the backward, 2 the update.
      int64_t &most = plan.marks.most[(i >= ends[0]) + (i >= ends[1])];
      most = std::max(most, live += change[size_t(i)]);
    }
  }

  bool leavesRoom() const {
    std::vector<int64_t> touched;
    for (const Command &command : function.commands) {
      int64_t bytes = 0;
      for (const Operand &operand : command.operands)
        if (operand.isPresent())
          bytes += plan.bufferBytes[operand.buffer];
      touched.push_back(bytes);
    }
    return leavesRoomBeside(std::move(touched));
  }

  /// Places and sizes of all steps lie in two lists, one behind the other; a step knows where its
  /// own begin.
  Status addStep(size_t number) {
    const Command &command = function.commands[number];
    const ExecutionPlan::Step step{&command, uint32_t(plan.places.size()),
                                   uint32_t(plan.sizes.size())};
    plan.steps.push_back(step);
    // Every offset is compared with its buffer; how far a command reaches from there its kind
    // checks.
    for (const Operand &operand : command.operands) {
      if (!operand.isPresent()) {
        plan.places.push_back({Place::none, 0});
        continue;
      }
      const int64_t offset = value(operand.offset), bytes = plan.bufferBytes[operand.buffer];
      if (offset < 0 || offset > bytes)
        return bad("command ", number, " leaves buffer ", operand.buffer, " of ", bytes, " bytes");
      plan.places.push_back({operand.buffer, offset});
    }
    for (const auto &list : {command.sizes, command.costs})
      for (ExprId size : list)
        plan.sizes.push_back(value(size));
    if (std::ranges::any_of(plan.view(step).costs, [](int64_t cost) { return cost < 0; }))
      return bad("command ", number, " has negative costs");
    const PlaceCheck check(plan.view(step), function, number, [this] { return symbolText(); });
    TRAINRT_TRY(std::visit([&](const auto &op) { return op.checkPlaces(check); }, command.op));
    // Kinds without scratch have no such member.
    plan.visit(step, [&](const auto &, const auto &view) {
      if constexpr (requires { view.scratch(); })
        plan.scratchBytes = std::max(plan.scratchBytes, view.scratch());
    });
    return {};
  }

  const Program &program;
  const Function &function;
  ExecutionPlan &plan;
  const TargetTraits &traits;
  std::vector<int64_t> exprs;
};

} // namespace

Status makePlan(const Program &program, const Function &function,
                const std::vector<int64_t> &symbols, ExecutionPlan &plan) {
  return Planner(program, function, plan).run(symbols);
}

} // namespace trainrt
