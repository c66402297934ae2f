// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bias through which parameters get a gradient, as the op takes it.
#ifndef TRAINC_TRANSFORMS_TRAINEDBIAS_H
#define TRAINC_TRANSFORMS_TRAINEDBIAS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// The bias [1, heads, rows, columns], whose gradient the op has. `bias`: [batch or 1, heads or 1,
/// rows or 1, columns]. One that differs by sample is that of as many heads of one sample: the
/// first two axes of `operands` (q, keys, values) are merged then, too.
mlir::Value prepareTrainedBias(train::TrainBuilder &tb, mlir::Value bias,
                               llvm::ArrayRef<mlir::Value *> operands);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_TRAINEDBIAS_H
