// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules on copies of the step's functions; the same passes make the program itself.

#include "trainc/Schedule/Memory/MemoryTrials.h"

#include "lib/Schedule/Offload/Offload.h"
#include "lib/Schedule/Recompute/Recompute.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Conversion/TrainToPlan/PlanModule.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

MemoryTrials::MemoryTrials(ModuleOp module, const PackageInterface &interface, TrialOptions options,
                           codegen::KernelCodegen &codegen)
    : module(module), interface(interface), options(std::move(options)), codegen(codegen) {
  // Step, or micro-batch and update, and their variants: what a step runs.
  for (StringRef name : functionsOfStep(module, this->options.accumulate, this->options.world))
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      originals.push_back(function);
}

/// The schedule of a configuration, with the plain one made before any other: functions that
/// recompute does not touch are planned once, there.
FailureOr<const StepMemory *> MemoryTrials::make(const std::string &config) {
  if (auto known = made.find(config); known != made.end())
    return known->second.memory.get();
  // The others do not change. They are there once, for what they hold all the time.
  if (!config.empty() && failed(make("")))
    return failure();
  Schedule schedule;
  schedule.module = ModuleOp::create(module.getLoc());
  schedule.module->getOperation()->setAttrs(module->getAttrDictionary());
  OpBuilder builder = OpBuilder::atBlockEnd(schedule.module->getBody());
  for (auto symbol : module.getOps<SymbolOp>())
    builder.clone(*symbol);
  // Copies, as scheduling rewrites its functions; the module's own stay for the next configuration.
  for (auto function : module.getOps<func::FuncOp>())
    if (config.empty() || llvm::is_contained(originals, function))
      builder.clone(*function);
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  // Verified once, in the program itself: here it would double the time.
  pm.enableVerifier(false);
  if (!config.empty()) {
    RecomputePassOptions recompute;
    recompute.config = config;
    pm.addPass(createRecomputePass(recompute));
  }
  buildSchedulePipeline(pm, options.schedule);
  PlanModuleOptions planning;
  planning.tf32 = options.precision == Precision::TF32;
  if (failed(pm.run(*schedule.module)) || failed(planModule(*schedule.module, codegen, planning)))
    return failure();
  schedule.memory =
      std::make_unique<StepMemory>(*schedule.module, interface, *options.target, options.accumulate,
                                   options.embedWeights, options.world, options.shards);
  if (config.empty()) {
    for (auto function : schedule.module->getOps<plan::FunctionOp>())
      if (llvm::none_of(originals, [&](func::FuncOp original) {
            return original.getName() == function.getSymName();
          }))
        // Other functions (evaluation) hold constants all the time: the same in every trial.
        otherConstants += constantBytes(function, options.target->traits.memory);
  } else {
    schedule.memory->constants += otherConstants;
  }
  return made.emplace(config, std::move(schedule)).first->second.memory.get();
}

/// With the transfers of `offload` on top, which depend on sizes and so have a memory of their own.
FailureOr<const StepMemory *> MemoryTrials::make(const std::string &config, const Sizes &sizes) {
  FailureOr<const StepMemory *> plain = make(config);
  if (failed(plain) || !options.offload.enabled)
    return plain;
  // What is moved to the host depends on the sizes.
  OffloadPassOptions offload;
  offload.target = options.target->name().str();
  offload.limit = options.offload.limit;
  offload.rate = options.offload.rate;
  offload.sizes = sizesOf(module, sizes);
  const std::string key = config + " " + llvm::join(offload.sizes, " ");
  if (auto known = offloaded.find(key); known != offloaded.end())
    return known->second.memory.get();
  Schedule moved;
  // On a clone: the schedule without transfers serves other sizes, too.
  moved.module = made.at(config).module->clone();
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addNestedPass<plan::FunctionOp>(createOffloadPass(offload));
  if (failed(pm.run(*moved.module)))
    return failure();
  moved.memory =
      std::make_unique<StepMemory>(*moved.module, interface, *options.target, options.accumulate,
                                   options.embedWeights, options.world, options.shards);
  if (!config.empty())
    moved.memory->constants += otherConstants;
  return offloaded.emplace(key, std::move(moved)).first->second.memory.get();
}

FailureOr<StepMemory::Total> MemoryTrials::evaluate(const std::string &config, const Sizes &sizes) {
  FailureOr<const StepMemory *> memory = make(config, sizes);
  if (failed(memory))
    return failure();
  FailureOr<StepMemory::Total> total = (*memory)->evaluate(sizes);
  if (failed(total))
    return module.emitError("sizes that are too large, or without a number");
  return total;
}

/// The plain schedule becomes the caller's program: it need not be made again.
FailureOr<OwningOpRef<ModuleOp>> MemoryTrials::takePlain() {
  if (failed(make("")))
    return failure();
  OwningOpRef<ModuleOp> plain = std::move(made.at("").module);
  made.erase("");
  return plain;
}

/// Without a step whose ops could be computed again, or for comparisons: the same passes as for the
/// program.
FailureOr<OwningOpRef<ModuleOp>> trainc::planWithoutRecompute(ModuleOp legalized,
                                                              const GraphOptions &graph,
                                                              const TrialOptions &options,
                                                              codegen::KernelCodegen &kernels) {
  OwningOpRef<ModuleOp> module = legalized.clone();
  PassManager pm(module->getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  buildGraphPipeline(pm, graph);
  if (failed(pm.run(*module)))
    return failure();
  FailureOr<PackageInterface> interface = collectInterface(*module);
  if (failed(interface))
    return failure();
  return MemoryTrials(*module, *interface, options, kernels).takePlain();
}
