// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel reduces, for the passes that join kernels by it.
#ifndef TRAINC_SCHEDULE_JOINCOLUMNSUMS_REDUCTIONS_H
#define TRAINC_SCHEDULE_JOINCOLUMNSUMS_REDUCTIONS_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// What a kernel reduces: axes of tensors of one shape.
struct Reductions {
  llvm::SmallVector<train::DimAttr> space;
  llvm::SmallVector<int64_t> axes;
  unsigned count = 0;

  /// Whether they are along the rows: the last axis alone.
  bool areOfRows() const { return axes.size() == 1 && axes[0] + 1 == int64_t(space.size()); }
};

/// None where there are none, or of more than one kind, or the kernel has a form of its own.
std::optional<Reductions> findReductions(train::FusionOp fusion);

} // namespace trainc

#endif // TRAINC_SCHEDULE_JOINCOLUMNSUMS_REDUCTIONS_H
