// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-recompute`.
#ifndef TRAINC_LIB_SCHEDULE_MEMORY_CHOOSERECOMPUTE_H
#define TRAINC_LIB_SCHEDULE_MEMORY_CHOOSERECOMPUTE_H

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "trainc/Schedule/Memory/MemoryBudget.h"
#include <functional>

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/Memory/ChooseRecompute.h.inc"

/// How a program follows the search.
struct ChooseRecomputeHooks {
  /// What is tried has remarks that are not about the program: on before, off behind.
  std::function<void(bool)> muteRemarks;
  /// What was chosen, with the seconds that it took to find it.
  std::function<void(const BudgetChoice &, double seconds)> onChosen;
  /// The budget cannot be met; an error was emitted.
  std::function<void()> onRefused;
};
std::unique_ptr<mlir::Pass> createChooseRecomputePass(const ChooseRecomputePassOptions &options,
                                                      const ChooseRecomputeHooks &hooks);

} // namespace trainc

#endif // TRAINC_LIB_SCHEDULE_MEMORY_CHOOSERECOMPUTE_H
