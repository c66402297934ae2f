// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory a step takes with one recompute configuration or another: its schedule is made on
// a copy, as far as the plan of the program goes, and the report's account is taken of it.
#ifndef TRAINC_SCHEDULE_MEMORY_MEMORYTRIALS_H
#define TRAINC_SCHEDULE_MEMORY_MEMORYTRIALS_H

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "mlir/IR/OwningOpRef.h"
#include "trainc/Codegen/Codegen.h"
#include "trainc/Report/MemoryModel.h"
#include "trainc/Schedule/Memory/TrialOptions.h"
#include "trainc/Schedule/Recompute/Opportunities.h"
#include <map>

namespace trainc {

class MemoryTrials {
public:
  /// `module`: as the phase `graph` leaves it, before `recompute`; `interface`: its interface.
  /// `codegen`: of the target, for kernels that nobody runs.
  MemoryTrials(mlir::ModuleOp module, const PackageInterface &interface, TrialOptions options,
               codegen::KernelCodegen &codegen);

  /// Functions that run in a step, variants among them.
  llvm::ArrayRef<mlir::func::FuncOp> functions() const { return originals; }
  /// That with the loss.
  mlir::func::FuncOp step() const { return originals.front(); }
  /// Largest sizes, and counts and ranks as the options say.
  Sizes sizes() const {
    const Sizes largest = Sizes(module, interface).counted(options.density);
    const Sizes all =
        options.world > 1 ? largest.with(train::kWorldSymbol, options.world) : largest;
    return options.shards ? all.with(train::kShardsName, options.shards) : all;
  }

  /// What the step holds with `config` ("": nothing is computed again). Fails with a diagnostic.
  mlir::FailureOr<const StepMemory *> make(const std::string &config);
  mlir::FailureOr<StepMemory::Total> evaluate(const std::string &config, const Sizes &sizes);
  /// The functions without recompute, as they are planned; to be taken last.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> takePlain();
  /// How many schedules have been made.
  size_t count() const { return made.size(); }

private:
  struct Schedule {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::unique_ptr<StepMemory> memory;
  };
  /// With --offload, for these sizes.
  mlir::FailureOr<const StepMemory *> make(const std::string &config, const Sizes &sizes);

  mlir::ModuleOp module;
  const PackageInterface &interface;
  const TrialOptions options;
  codegen::KernelCodegen &codegen;
  llvm::SmallVector<mlir::func::FuncOp> originals;
  std::map<std::string, Schedule> made, offloaded;
  /// Bytes of constants of functions that do not run in a step.
  int64_t otherConstants = 0;
};

/// The plan without recompute of the module that the phase `graph` begins with. Fails with a
/// diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
planWithoutRecompute(mlir::ModuleOp legalized, const GraphOptions &graph,
                     const TrialOptions &options, codegen::KernelCodegen &kernels);

} // namespace trainc

#endif // TRAINC_SCHEDULE_MEMORY_MEMORYTRIALS_H
