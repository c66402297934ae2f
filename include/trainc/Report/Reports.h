// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel tells the runtime beside its results.
#ifndef TRAINC_REPORT_REPORTS_H
#define TRAINC_REPORT_REPORTS_H

#include "llvm/ADT/StringRef.h"

namespace trainc::train {

/// On a pointwise op whose first operand is a condition (unit): the runtime is told that a number
/// was not finite where the condition holds for an element that is wanted. The value is the same
/// with and without it.
inline constexpr llvm::StringLiteral kReportsAttr = "train.reports";

} // namespace trainc::train

#endif // TRAINC_REPORT_REPORTS_H
