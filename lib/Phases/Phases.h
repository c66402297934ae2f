// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The phases of a compilation that leave IR behind, and the passes that check it.
#ifndef TRAINC_LIB_PHASES_PHASES_H
#define TRAINC_LIB_PHASES_PHASES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Phases/Phases.h.inc"

/// In their order.
inline constexpr llvm::StringLiteral kPhases[] = {"import", "legalize", "graph", "schedule",
                                                  "codegen"};

/// The pass `verify-PHASE`.
std::unique_ptr<mlir::Pass> createVerifyPass(llvm::StringRef phase);

/// Whether ops of plug-ins implement what compiling them takes, and make parts, and gradients where
/// the module is trained, of the right types; fails after an error for each that does not.
mlir::LogicalResult checkPluginOps(mlir::ModuleOp module, bool isTrained);

} // namespace trainc

#endif // TRAINC_LIB_PHASES_PHASES_H
