// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sequences as single steps, for recurrent layers and their gradients.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_RECURRENT_RECURRENT_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_RECURRENT_RECURRENT_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

/// Cuts axis 0 into single steps. Gradients come back through as few long sums as there are levels.
void cutSteps(train::TrainBuilder &tb, mlir::Value x, int64_t steps,
              llvm::SmallVectorImpl<mlir::Value> &parts);

/// The opposite.
mlir::Value joinSteps(train::TrainBuilder &tb, llvm::ArrayRef<mlir::Value> steps);

/// The number of steps that a sequence is unrolled to: its length, or its bound; none with a
/// reason.
std::optional<int64_t> unrolledSteps(NodeContext &c, DimAttr length);

/// Whether a sequence of this length has the step, as booleans of the shape `dims`; null where the
/// length is constant, that is for every step that there is.
mlir::Value isWithin(train::TrainBuilder &tb, int64_t step, DimAttr length,
                     llvm::ArrayRef<DimAttr> dims);

/// Whether a layer of ONNX Runtime's training, or its gradient, is one of the forms that it has
/// itself, with the sequences' lengths in input `lengths`; a reason if not.
llvm::LogicalResult checkTraining(NodeContext &c, int64_t lengths);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_RECURRENT_RECURRENT_H
