// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops over the steps of a sequence.
#ifndef TRAINC_DIALECTS_TRAIN_LOOPS_LOOPS_H
#define TRAINC_DIALECTS_TRAIN_LOOPS_LOOPS_H

#include "dialects/Train/TrainBuilder.h"

#define GET_OP_CLASSES
#include "dialects/Train/TrainLoops.h.inc"

namespace trainc::train {

/// What a loop runs over; see `train.loop`.
struct LoopInputs {
  llvm::SmallVector<mlir::Value> initial, scanned, invariants;
  DimAttr steps;
  bool reverse = false;
};

/// What a step gets, and what it makes of it.
struct LoopStep {
  llvm::SmallVector<mlir::Value> carried, slices, invariants;
  llvm::SmallVector<mlir::Value> next, stacked;
};

/// Makes a loop whose body `build` fills: `tb` builds in it then. What it reads from outside
/// becomes an invariant; what it makes of invariants alone is made in front of the loop, unless
/// that is larger than what it is made of.
LoopOp buildLoop(TrainBuilder &tb, const LoopInputs &inputs,
                 llvm::function_ref<void(LoopStep &)> build);

/// The type of a step's slice of a scanned or stacked value.
mlir::RankedTensorType getSliceType(mlir::Type type);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_LOOPS_LOOPS_H
