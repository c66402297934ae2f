// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `expand-vector-products`.
#ifndef TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_H
#define TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/ExpandVectorProducts/ExpandVectorProducts.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_EXPANDVECTORPRODUCTS_H
