// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory a step takes with one recompute configuration or another: the schedule is made on
// a copy, without its kernels, and what is alive at once is added up.
#ifndef TRAINC_LIB_DRIVER_MEMORYTRIALS_H
#define TRAINC_LIB_DRIVER_MEMORYTRIALS_H

#include "lib/Analysis/Lifetimes.h"
#include "lib/Transforms/Recompute/Opportunities.h"
#include "mlir/IR/OwningOpRef.h"
#include "trainc/Driver.h"
#include <map>

namespace trainc {

/// Values of size symbols: free ones are taken from `values`; counts are as large as their input.
class SymbolBounds {
public:
  explicit SymbolBounds(mlir::ModuleOp module);
  /// Symbols that a size of an input gives, without a number.
  std::vector<std::string> unbound() const;

  std::map<std::string, int64_t> values;
  std::optional<int64_t> lookup(llvm::StringRef name) const;
  std::optional<int64_t> evaluate(train::DimAttr dim) const;
  /// The symbol of the samples; "": none.
  std::string batch;

private:
  std::vector<std::string> axes;
  std::map<std::string, train::DimAttr> counts;
};

class MemoryTrials {
public:
  /// `module`: as the phase `graph` leaves it, before `recompute`.
  MemoryTrials(mlir::ModuleOp module, const CompileOptions &options);

  /// Functions that run in a step: @step, or @micro and @update.
  llvm::ArrayRef<mlir::func::FuncOp> functions() const { return originals; }
  /// That with the loss.
  mlir::func::FuncOp step() const { return originals.front(); }

  /// The most bytes of activations and temporaries alive at once with `config` ("": nothing is
  /// computed again), and with --offload, for these sizes. Fails with a diagnostic.
  mlir::FailureOr<int64_t> liveBytes(const std::string &config, const SymbolBounds &symbols);
  /// Everything else that is held on the target: parameters, state, accumulators, inputs.
  int64_t fixedBytes(const SymbolBounds &symbols) const;
  /// How many schedules have been made.
  size_t count() const { return made.size(); }

private:
  struct Schedule {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::vector<FunctionLifetimes> lifetimes;
  };
  mlir::FailureOr<const Schedule *> make(const std::string &config);
  /// With --offload, for these sizes.
  mlir::FailureOr<const Schedule *> make(const std::string &config, const SymbolBounds &symbols);

  mlir::ModuleOp module;
  const CompileOptions &options;
  llvm::SmallVector<mlir::func::FuncOp> originals;
  std::map<std::string, Schedule> made, offloaded;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_MEMORYTRIALS_H
