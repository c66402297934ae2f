// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generated definitions of the operations of one shard, with the formulas of the pointwise ops
// inlined into them. CMake compiles this file once a shard, with GET_OP_DEFS_<shard> defined.

#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainScalar.h"
#include "dialects/Train/TrainVJP.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

#include "dialects/Train/TrainShards.h.inc"

#include "dialects/Train/TrainOps.cpp.inc"
