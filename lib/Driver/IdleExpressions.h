// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options that name parameters by expressions, and match none.
#ifndef TRAINC_LIB_DRIVER_IDLEEXPRESSIONS_H
#define TRAINC_LIB_DRIVER_IDLEEXPRESSIONS_H

#include "lib/Driver/Log.h"
#include "trainc/Driver/Driver.h"

namespace trainc {

/// A warning for --trainable and groups to freeze each, where the expression matches no parameter.
void warnOfIdleChoice(const CompileOptions &options, Log &log, const LegalizeResult &legalized);
/// The same for other groups, by the names of the parameters that are trained.
void warnOfIdleGroups(const CompileOptions &options, Log &log,
                      llvm::ArrayRef<GroupDecision> trained);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_IDLEEXPRESSIONS_H
