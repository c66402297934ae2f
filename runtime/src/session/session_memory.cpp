// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The account of a session's memory: beforehand, while it runs, and by the phases of a step.

#include "session/session_memory.h"
#include "device/cpu/executor.h"
#include "device/cuda/device.h"
#include "format/memory/arena_plan.h"
#include "session/session.h"

#include <algorithm>

namespace trainrt {

namespace {

/// Offsets of blocks of these sizes behind each other; returns the end.
template <typename Size>
int64_t layOut(const Program &program, size_t count, std::vector<int64_t> &offsets,
               const Size &size) {
  int64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    offsets.push_back(end);
    end += padded(size(i), alignmentOf(program.target));
  }
  return end;
}

} // namespace

int64_t layOutGradients(const Package &package, std::vector<int64_t> &offsets) {
  const auto &parameters = package.program().parameters;
  return layOut(package.program(), parameters.size(), offsets, [&](size_t i) {
    return package.parameter(i).trainable ? gradientBytes(parameters[i]) : int64_t(0);
  });
}

int64_t layOutState(const Program &program, std::vector<int64_t> &offsets) {
  return layOut(program, program.state.size(), offsets,
                [&](size_t i) { return program.state[i].staticBytes; });
}

Status estimateMemory(const Package &package, const std::vector<int64_t> &symbols,
                      unsigned microBatches, unsigned threads, MemoryUse &use, bool byVariants) {
  const Program &program = package.program();
  std::vector<const Function *> functions;
  std::vector<int64_t> ignored;
  if (microBatches == 0) {
    if (!package.eval())
      return fail(Code::Unsupported, "the package has no evaluation function");
    functions = {package.eval()};
  } else if (!package.manifest().training) {
    return fail(Code::Unsupported, "the package is for inference only");
  } else if (microBatches == 1 && package.step()) {
    functions = {package.step()};
  } else if (!package.micro() || !package.update()) {
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches");
  } else {
    functions = {package.micro(), package.update()};
  }
  if (microBatches)
    use.state = layOutState(program, ignored);
  const bool cuda = program.target == Target::Cuda;
  bool usesGradients = false;
  std::vector<ExecutionPlan> plans;
  for (size_t i = 0, end = functions.size(); i < end; ++i)
    for (uint32_t variant : functions[i]->variants)
      functions.push_back(&program.functions[variant]);
  if (byVariants)
    std::erase_if(functions, [](const Function *function) { return !function->variants.empty(); });
  for (const Function *function : functions) {
    ExecutionPlan &plan = plans.emplace_back();
    TRAINRT_TRY(makePlan(program, *function, symbols, plan));
    use.arena = std::max(use.arena, plan.arenaBytes);
    use.arenaLowerBound = std::max(use.arenaLowerBound, plan.arenaLowerBound);
    use.outputs = std::max(use.outputs, plan.outputBytes);
    use.pinned = std::max(use.pinned, plan.hostBytes);
    if (cuda)
      cuda::addEstimate(program, plan, use);
    usesGradients |= function->usesGradients;
  }
  if (usesGradients)
    use.gradients = layOutGradients(package, ignored);
  if (!cuda) {
    std::vector<const ExecutionPlan *> all;
    for (const ExecutionPlan &plan : plans)
      all.push_back(&plan);
    use.scratch = estimateScratch(all, threads ? threads : availableCores());
  }
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Manifest::Tensor &parameter = package.parameter(i);
    const bool inBlock = cuda || (microBatches && package.isWritten(i));
    // As ParameterStore::fromPackage does: a file may hold values where they cannot be read, and
    // others are made while loading.
    const bool made = parameter.quantized || !parameter.partOf.empty() ||
                      (parameter.init && !parameter.hasWeights);
    const bool copied =
        made || (parameter.hasWeights && !parameter.embedded &&
                 parameter.offset % int64_t(sizeOf(program.parameters[i].dtype)) != 0);
    const int64_t bytes = program.parameters[i].staticBytes;
    (inBlock || copied ? use.parameters : use.mapped) +=
        inBlock ? padded(bytes, alignmentOf(program.target)) : bytes;
  }
  if (!cuda)
    for (const Constant &constant : program.constants)
      use.mapped += int64_t(constant.data.size());
  return {};
}

MemoryUse Session::memory() const {
  MemoryUse use;
  use.parameters = parameters.heldBytes();
  use.mapped = parameters.mappedBytes();
  use.state = stateBlock.size() + savedStates.size();
  use.gradients = gradientBlock.size();
  device->addMemory(use);
  return use;
}

void Session::measure() { peak = std::max(peak, memory().total()); }

void Session::tellMemory(int64_t step, const ExecutionPlan &plan) {
  const MemoryUse use = memory();
  const int64_t lasting = use.total() - use.arena;
  const Function &function = *plan.function;
  const int32_t count = int32_t(function.commands.size());
  auto tell = [&](const char *phase, int64_t live, int64_t most) {
    const int64_t allocated = lasting + live;
    phasePeak = std::max({phasePeak, allocated, lasting + most});
    memoryDone({step, phase, allocated, phasePeak, use.total()});
  };
  const ExecutionPlan::PhaseMarks &marks = plan.marks;
  if (function.forwardEnd < 0) {
    tell("pre_step", 0, 0);
    return tell("post_step", 0, marks.most[2]);
  }
  if (function.forwardEnd > 0) {
    tell("pre_forward", 0, 0);
    tell("post_forward", marks.between[0], marks.most[0]);
  }
  if (function.backwardEnd > function.forwardEnd) {
    tell("pre_backward", marks.between[0], 0);
    tell("post_backward", marks.between[1], marks.most[1]);
  }
  if (count > function.backwardEnd) {
    tell("pre_update", marks.between[1], 0);
    tell("post_update", 0, marks.most[2]);
  }
}

} // namespace trainrt
