// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where in a schedule the forward ends and where the backward does.
#ifndef TRAINC_ANALYSIS_PHASES_H
#define TRAINC_ANALYSIS_PHASES_H

#include "trainc/Analysis/Lifetimes.h"

namespace trainc {

enum class Phase { forward, backward, update };

/// A schedule cut into three: the forward until the last command that the loss depends on, then the
/// backward until the last one that reads an input or what the forward has made, then the updates
/// that are left, among them those that sum up their gradient themselves, as an embedding's; those
/// that run as soon as a gradient is there lie within the backward. Each may be empty.
struct Phases {
  int32_t forwardEnd = 0, backwardEnd = 0;

  Phase of(int32_t command) const {
    return command < forwardEnd    ? Phase::forward
           : command < backwardEnd ? Phase::backward
                                   : Phase::update;
  }
};

/// `loss`: the name of the output that is minimised, "" for none. A function that changes no
/// parameter and makes no gradient is forward altogether; one that reads no input is an update.
Phases getPhases(const FunctionLifetimes &lifetimes, llvm::StringRef loss);

} // namespace trainc

#endif // TRAINC_ANALYSIS_PHASES_H
