// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of a step that is the norm of its gradients.
#ifndef TRAINC_CONVERSION_GRADNORM_H
#define TRAINC_CONVERSION_GRADNORM_H

#include "llvm/ADT/StringRef.h"

namespace trainc::train {

/// On the output of @step and @update that is the norm of all gradients together (unit).
inline constexpr llvm::StringLiteral kGradNormAttr = "train.grad_norm";

} // namespace trainc::train

#endif // TRAINC_CONVERSION_GRADNORM_H
