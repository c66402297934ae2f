// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a session lays out what outlives a step.
#ifndef TRAINRT_SESSION_SESSION_MEMORY_H
#define TRAINRT_SESSION_SESSION_MEMORY_H

#include "plan/package.h"

#include <vector>

namespace trainrt {

/// Offsets of the gradient accumulators, one for each trainable parameter; returns the end.
int64_t layOutGradients(const Package &package, std::vector<int64_t> &offsets);
/// Those of the state.
int64_t layOutState(const Program &program, std::vector<int64_t> &offsets);

} // namespace trainrt

#endif // TRAINRT_SESSION_SESSION_MEMORY_H
