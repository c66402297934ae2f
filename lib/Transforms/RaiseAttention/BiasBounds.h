// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the numbers that are added to scores are known to be.
#ifndef TRAINC_TRANSFORMS_BIASBOUNDS_H
#define TRAINC_TRANSFORMS_BIASBOUNDS_H

#include "dialects/Train/Ranges/Ranges.h"

namespace trainc {

/// The range of a value's elements, from the ops that it is made of.
train::Range findRange(mlir::Value value);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_BIASBOUNDS_H
