// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of what `train.loop` makes.
#ifndef TRAINC_DIALECTS_TRAIN_RANGES_LOOPRANGES_H
#define TRAINC_DIALECTS_TRAIN_RANGES_LOOPRANGES_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace trainc::train::detail {

/// Gives loops their RangeOpInterface.
void attachLoopRanges(mlir::MLIRContext *context);

} // namespace trainc::train::detail

#endif // TRAINC_DIALECTS_TRAIN_RANGES_LOOPRANGES_H
