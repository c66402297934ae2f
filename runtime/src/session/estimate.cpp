// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The account of a session's memory beforehand.

#include "session/estimate.h"
#include "format/memory/arena_plan.h"
#include "session/create_device.h"
#include "session/values.h"

#include <algorithm>
#include <cassert>
#include <sched.h>
#include <thread>

namespace trainrt {

/// Those that this process may use, not those of the machine.
unsigned availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return unsigned(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

Status estimateMemory(const Package &package, const std::vector<int64_t> &ofBatch,
                      unsigned microBatches, unsigned threads, MemoryUse &use, bool byVariants,
                      int64_t world, int64_t perReplica) {
  const RunPlace place{world, 0, perReplica};
  if (world < 1)
    return fail(Code::InvalidArgument, "symbol 'world': ", world, " is no number of ranks");
  if (perReplica < 0 || (perReplica && world % perReplica))
    return fail(Code::InvalidArgument, "symbol 'shards': ", perReplica,
                " is no divisor of the number of ranks, ", world);
  const Program &program = package.program();
  std::vector<int64_t> symbols = ofBatch;
  program.setRunSymbols(place, symbols);
  std::vector<const Function *> functions;
  std::vector<int64_t> ignored;
  // The functions of one step, or of one evaluation.
  if (microBatches == 0) {
    if (!package.eval())
      return fail(Code::Unsupported, "the package has no evaluation function");
    functions = {package.eval()};
  } else if (!package.manifest().training) {
    return fail(Code::Unsupported,
                "the package is for inference only; compile it without --inference");
  } else if (microBatches == 1 && package.step() && (world == 1 || package.absentStep())) {
    functions = {package.step()};
    if (world > 1)
      functions.push_back(package.absentStep());
  } else if (!package.micro() || !package.update()) {
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches; compile it again");
  } else {
    functions = {package.micro(), package.update()};
    if (world > 1 && package.absent())
      functions.push_back(package.absent());
  }
  // Evaluations keep no state.
  if (microBatches)
    use.state = layOutState(program, place, ignored);
  bool usesGradients = false;
  std::vector<ExecutionPlan> plans;
  // Variants behind their functions; the list grows, `end` does not.
  for (size_t i = 0, end = functions.size(); i < end; ++i)
    for (uint32_t variant : functions[i]->variants)
      functions.push_back(&program.functions[variant]);
  // Where a variant runs, its function does not.
  if (byVariants)
    std::erase_if(functions, [](const Function *function) { return !function->variants.empty(); });
  for (const Function *function : functions) {
    ExecutionPlan &plan = plans.emplace_back();
    TRAINRT_TRY(makePlan(program, *function, symbols, plan));
    // One after the other in the same memory: the largest of each counts.
    use.arena = std::max(use.arena, plan.arenaBytes);
    use.arenaLowerBound = std::max(use.arenaLowerBound, plan.arenaLowerBound);
    use.outputs = std::max(use.outputs, plan.outputBytes);
    use.pinned = std::max(use.pinned, plan.hostBytes);
    usesGradients |= function->usesGradients;
  }
  if (usesGradients)
    use.gradients = layOutGradients(package, place, ignored);
  if (microBatches)
    use.parameters += layOutDerived(program, ignored);
  assert(!plans.empty() && "a package has a function for it");
  addDeviceEstimate(program, plans, threads ? threads : availableCores(), place, use);
  const TargetTraits &target = traitsOf(program.target);
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Manifest::Tensor &parameter = package.parameter(i);
    const bool inBlock = target.isSeparate || (microBatches && package.isWritten(i));
    // As ParameterStore::fromPackage does: a file may hold values where they cannot be read, and
    // others are made while loading.
    const bool made = parameter.quantized || !parameter.partOf.empty() ||
                      (parameter.init && !parameter.hasWeights);
    const bool copied =
        made || (parameter.hasWeights && !parameter.embedded &&
                 parameter.offset % int64_t(sizeOf(program.parameters[i].dtype)) != 0);
    // In the device's block, copied for itself, or read where it is.
    const bool isCut = microBatches && place.shards() > 1 && program.parameters[i].shardUnit;
    // Written ones have whole units, of one rank as well.
    const int64_t bytes = isCut || inBlock || copied ? shardOf(program.parameters[i], place).held
                                                     : program.parameters[i].staticBytes;
    (inBlock || copied || isCut ? use.parameters : use.mapped) +=
        inBlock ? padded(bytes, target.alignment) : bytes;
  }
  if (!target.isSeparate)
    for (const Constant &constant : program.constants)
      use.mapped += int64_t(constant.data.size());
  return {};
}

} // namespace trainrt
