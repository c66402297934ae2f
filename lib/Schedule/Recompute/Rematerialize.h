// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rewrite of `recompute`: copies of forward ops for the backward pass.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_REMATERIALIZE_H
#define TRAINC_SCHEDULE_RECOMPUTE_REMATERIALIZE_H

#include "trainc/Schedule/Recompute/Opportunities.h"

namespace trainc {

/// Lets the backward pass read copies of `again`, each made once, in front of the first op that
/// needs it. Ops that move elements are copied with what reads them. Returns the number of copies
/// of `again`.
unsigned rematerialize(const StepGraph &graph, const llvm::DenseSet<mlir::Operation *> &again);

} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_REMATERIALIZE_H
