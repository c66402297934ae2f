// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-lora`.
#ifndef TRAINC_TRANSFORMS_FUSELORA_H
#define TRAINC_TRANSFORMS_FUSELORA_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/FuseLora/FuseLora.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_FUSELORA_H
