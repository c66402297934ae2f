// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generated definitions of all operations, with the formulas of the pointwise ops inlined into
// them.

#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainScalar.h"
#include "dialects/Train/TrainVJP.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

#define GET_OP_CLASSES
#include "dialects/Train/TrainOps.cpp.inc"
