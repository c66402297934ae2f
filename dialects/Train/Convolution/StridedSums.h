// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums over the taps of windows that moved by more than one position.
#ifndef TRAINC_DIALECTS_TRAIN_CONVOLUTION_STRIDEDSUMS_H
#define TRAINC_DIALECTS_TRAIN_CONVOLUTION_STRIDEDSUMS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/PatternMatch.h"

namespace trainc::train {

/// Rewrites a sum over the taps of `train.spread` with a stride s above 1 as sums over a stride of
/// 1: position s * q + r gets elements from the taps s * g + r alone, so that each phase r is a sum
/// over the g, and the phases lie side by side. Fails on anything else, on dilated windows, and
/// where an axis of taps or windows is no number.
llvm::LogicalResult sumPhases(ReduceOp op, mlir::PatternRewriter &rewriter);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_CONVOLUTION_STRIDEDSUMS_H
