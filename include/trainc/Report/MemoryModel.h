// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a runtime will hold for a module's functions: by category and over time, as
// formulas and, for given sizes, as numbers.
#ifndef TRAINC_REPORT_MEMORYMODEL_H
#define TRAINC_REPORT_MEMORYMODEL_H

#include "trainc/Analysis/CommandTime.h"
#include "trainc/Analysis/Phases.h"
#include "trainc/Report/Sizes.h"

namespace trainc {

/// One schedule.
class FunctionMemory {
public:
  FunctionMemory(plan::FunctionOp function, llvm::StringRef loss, const Target &target);

  struct Numbers {
    /// By buffer; by command what of the arena is in use, every buffer padded.
    llvm::SmallVector<int64_t, 0> bytes, live;
    /// The command at which most is in use.
    int32_t peak = 0;
    ArenaPeak arena;
    int64_t inputs = 0, outputs = 0;
    /// Of kernels and library calls: with one thread, and what each other one adds.
    int64_t workspace = 0, workspaceOfOthers = 0;
    int64_t staging = 0; ///< beside the workspace: of what ranks exchange
    int64_t host = 0;    ///< pinned, for what is moved there
  };
  /// Fails where a size has no value, or is too large for a number.
  mlir::FailureOr<Numbers> evaluate(const Sizes &sizes) const;
  /// A command of several ranks.
  struct Exchange {
    mlir::Operation *command;
    double seconds;
    double sent;   ///< bytes that a rank sends to others
    double waited; ///< of the seconds those that commands wait for it
  };
  /// What it takes by the model of the target, one command behind the other, and exchanges beside
  /// them where the target's are.
  struct Seconds {
    double computing = 0;
    std::vector<Exchange> exchanges; ///< in the order of the commands
    double hidden = 0;               ///< of the exchanges, behind `computing`
    /// The exchanges are those of a step, whatever the number of its micro-batches.
    bool withLast = false;
  };
  mlir::FailureOr<Seconds> estimate(const Sizes &sizes, const LinkSpeed &link) const;
  /// Only how large the arena is.
  mlir::FailureOr<ArenaPeak> evaluateArena(const Sizes &sizes) const;

  plan::FunctionOp function() const { return lifetimes.function; }
  llvm::StringRef name() const { return plan::FunctionOp(lifetimes.function).getSymName(); }
  /// The function that it may take the place of; "".
  llvm::StringRef variantOf() const;
  const Phases &phases() const { return marks; }
  int32_t commands() const { return lifetimes.commands.size(); }
  /// Whether the buffer is in the arena in this command.
  bool isLive(const BufferLifetime &life, int32_t command) const {
    return life.isArena() && life.first <= command && command <= life.last;
  }
  /// Whether the forward makes it and the backward needs it.
  bool isKept(const BufferLifetime &life) const {
    return life.isArena() && life.first < marks.forwardEnd && life.last >= marks.forwardEnd;
  }
  llvm::ArrayRef<BufferLifetime> buffers() const { return lifetimes.buffers; }
  /// Bytes in use in a command: of what is kept for the backward, or of all else.
  train::DimAttr formula(int32_t command, bool kept) const;
  /// Bytes of the buffers of a space, each tensor once.
  train::DimAttr formula(plan::Space space) const;
  /// The ONNX node of a command; "" if it has none.
  llvm::StringRef node(int32_t command) const;
  /// Symbols that its buffers depend on.
  bool dependsOn(llvm::StringRef symbol) const;
  bool usesGradients() const;
  /// Whether something is moved to the host and back.
  bool usesHost() const;

private:
  mlir::LogicalResult addWorkspace(const Sizes &sizes, Numbers &numbers) const;

  FunctionLifetimes lifetimes;
  Phases marks;
  const Target *target;
};

/// Names of the functions that a training step runs, variants among them, or an evaluation where
/// the module has no step. `accumulate`: micro-batches of a rank's step, of which there are
/// `world`.
llvm::SmallVector<llvm::StringRef> functionsOfStep(mlir::ModuleOp module, int64_t accumulate,
                                                   int64_t world);
/// What the function's constants take in memory of the device's own; 0 where it has none, and has
/// them in its kernels.
int64_t constantBytes(plan::FunctionOp function, const MemoryTraits &memory);

/// All that is run for a training step, or for an evaluation in a package without one.
class StepMemory {
public:
  /// `embedded`: weights are in the package. `world`: ranks, of which it is of one; `shards`: so
  /// many of them share a replica of what is in shards, 0: all.
  StepMemory(mlir::ModuleOp module, const PackageInterface &interface, const Target &target,
             int64_t accumulate, bool embedded, int64_t world = 1, int64_t shards = 0);

  /// The largest of what the functions need, and what lasts.
  struct Total {
    int64_t arena = 0, inputs = 0, outputs = 0, workspace = 0, workspaceOfOthers = 0;
    int64_t lasting = 0;
    int64_t host = 0;   ///< of the host's memory, not in `bytes`
    size_t largest = 0; ///< the function whose arena it is
    int64_t bytes() const { return lasting + arena + inputs + outputs + workspace; }
  };
  mlir::FailureOr<Total> evaluate(const Sizes &sizes) const;
  /// The largest value of an axis, at least `first`, with which all fits into `memory`; 0 where
  /// none does.
  int64_t largest(const Sizes &sizes, llvm::StringRef axis, int64_t memory,
                  int64_t first = 1) const;

  const Target *target;
  std::vector<FunctionMemory> functions;
  /// What every step needs, whatever its sizes.
  int64_t parameters = 0, state = 0, gradients = 0, constants = 0;
  bool training = false;
};

/// "86.6 MiB"
std::string formatBytes(int64_t bytes);

} // namespace trainc

#endif // TRAINC_REPORT_MEMORYMODEL_H
