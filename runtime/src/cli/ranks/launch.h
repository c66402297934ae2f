// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --ranks N, --gpus N: starts the ranks of a run on this machine, and ends with them.
#ifndef TRAINRT_CLI_RANKS_LAUNCH_H
#define TRAINRT_CLI_RANKS_LAUNCH_H

#include "cli/options.h"

namespace trainrt::run {

/// Returns the exit code of the run: 0, or that of the rank that failed first.
int launchRanks(const Options &options);

/// Whether there is anything in the folder that a run that begins again could go on from.
bool hasCheckpoint(const std::string &folder);

/// A listening socket that the process has got from `launchRanks`; -1: none.
int inheritedSocket();

} // namespace trainrt::run

#endif // TRAINRT_CLI_RANKS_LAUNCH_H
