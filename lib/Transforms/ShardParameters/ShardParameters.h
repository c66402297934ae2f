// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `shard-parameters`.
#ifndef TRAINC_TRANSFORMS_SHARDPARAMETERS_H
#define TRAINC_TRANSFORMS_SHARDPARAMETERS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/ShardParameters/ShardParameters.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_SHARDPARAMETERS_H
