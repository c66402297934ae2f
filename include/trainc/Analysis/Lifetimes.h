// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers of a plan function with the commands between which each is needed: what the runtime
// plans the arena from, and what tells how large it will be for given sizes.
#ifndef TRAINC_ANALYSIS_LIFETIMES_H
#define TRAINC_ANALYSIS_LIFETIMES_H

#include "dialects/Plan/PlanDialect.h"
#include "trainc/Target/Target.h"

namespace trainc {

struct BufferLifetime {
  plan::BufferOp buffer;
  train::DimAttr bytes;
  /// The first and the last command that touches it, or before its `plan.release`, both included;
  /// 0 where none does.
  int32_t first = 0, last = 0;

  plan::Space space = plan::Space::arena;

  bool isArena() const { return space == plan::Space::arena; }
  /// In pinned memory of the host.
  bool isHost() const { return space == plan::Space::host; }
};

/// Buffers and commands of a function in their order, which is that of the package.
struct FunctionLifetimes {
  explicit FunctionLifetimes(plan::FunctionOp function);

  plan::FunctionOp function;
  llvm::SmallVector<BufferLifetime, 0> buffers;
  llvm::SmallVector<mlir::Operation *, 0> commands;
  /// Index in `buffers`.
  llvm::DenseMap<mlir::Value, uint32_t> index;
};

/// Value of a size symbol, nothing where it has none.
using SymbolLookup = llvm::function_ref<std::optional<int64_t>(llvm::StringRef)>;

/// Bytes of each buffer for these symbols. Fails on a symbol without a value or an overflow.
mlir::FailureOr<llvm::SmallVector<int64_t, 0>> evaluateBytes(const FunctionLifetimes &lifetimes,
                                                             SymbolLookup symbols);

struct ArenaPeak {
  /// Bytes of the arena as the runtime will lay it out.
  int64_t planned = 0;
  /// The most that is needed by one command: no plan can do with less.
  int64_t lowerBound = 0;
  /// The part of `planned` that is there so that small commands may overlap.
  int64_t room = 0;
};

/// How large the arena is for buffers of these `bytes` (of `evaluateBytes`). Where commands run
/// beside others, these get more time where they are small and that costs little, so that there
/// `planned` is an upper bound.
ArenaPeak getArenaPeak(const FunctionLifetimes &lifetimes, llvm::ArrayRef<int64_t> bytes,
                       const MemoryTraits &memory);

/// The same for values of the symbols; fails as `evaluateBytes` does.
mlir::FailureOr<ArenaPeak> getArenaPeak(plan::FunctionOp function, SymbolLookup symbols,
                                        const MemoryTraits &memory);

/// Bytes of the block of pinned memory for the buffers that are on the host.
int64_t getHostPeak(const FunctionLifetimes &lifetimes, llvm::ArrayRef<int64_t> bytes,
                    const MemoryTraits &memory);

} // namespace trainc

#endif // TRAINC_ANALYSIS_LIFETIMES_H
