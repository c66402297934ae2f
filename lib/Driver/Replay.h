// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --replay: the phase of a reproducer, run again.
#ifndef TRAINC_LIB_DRIVER_REPLAY_H
#define TRAINC_LIB_DRIVER_REPLAY_H

#include "lib/Driver/PhaseRunner.h"
#include "lib/Driver/Reproducer.h"

namespace trainc {

/// Runs the phase of a reproducer whose header was read, on its module. Returns an exit code.
int replayPhase(Compilation &c, PhaseRunner &runner, ParsedReproducer &reproducer);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REPLAY_H
