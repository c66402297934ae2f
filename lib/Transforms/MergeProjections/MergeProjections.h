// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `merge-projections`: projections of one input are one matmul where rows are few.
#ifndef TRAINC_TRANSFORMS_MERGEPROJECTIONS_H
#define TRAINC_TRANSFORMS_MERGEPROJECTIONS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/MergeProjections/MergeProjections.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_MERGEPROJECTIONS_H
