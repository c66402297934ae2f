// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which argument of the function a value has its elements from.
#ifndef TRAINC_ANALYSIS_ELEMENTORIGIN_H
#define TRAINC_ANALYSIS_ELEMENTORIGIN_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// The argument that every element of `value` is an element of, or is a constant that an op puts
/// around them (padding): through ops that only move elements or change the integer type. Null if
/// there is none, as in the body of a loop.
mlir::BlockArgument findOrigin(mlir::Value value);

/// The argument of which `value` is made elementwise, by ops with no other operand (mixed precision
/// converts weights so), or of whose shards on all ranks it is. Null if there is
/// none, as in the body of a loop.
mlir::BlockArgument findConverted(mlir::Value value);

} // namespace trainc

#endif // TRAINC_ANALYSIS_ELEMENTORIGIN_H
