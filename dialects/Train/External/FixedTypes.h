// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops whose operands and results are of the types that somebody else has written code for.
#ifndef TRAINC_DIALECTS_TRAIN_EXTERNAL_FIXEDTYPES_H
#define TRAINC_DIALECTS_TRAIN_EXTERNAL_FIXEDTYPES_H

#include "mlir/IR/OpDefinition.h"

namespace trainc::train {

/// No pass gives such an op other element types: casts are put around it.
template <typename Op> class FixedTypes : public mlir::OpTrait::TraitBase<Op, FixedTypes> {};

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_EXTERNAL_FIXEDTYPES_H
