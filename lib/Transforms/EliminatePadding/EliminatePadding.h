// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes that compute tokens only: `find-padding`, `eliminate-padding`, `merge-variants`.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {

/// On @forward: what was proved of its padding; a list of dictionaries with `input` (its name),
/// `value`, `conditions`, and what the proof took for granted of inputs (`binary`, `above`,
/// `beside`, `labels`, `ids`).
inline constexpr llvm::StringLiteral kPaddingAttr = "train.padding";
/// Name of the nested module that the packed variant is made in.
inline constexpr llvm::StringLiteral kPackedModule = "packed";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/EliminatePadding/EliminatePadding.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_H
