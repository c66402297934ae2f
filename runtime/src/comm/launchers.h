// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which rank of which run this process is, as what started it says: torchrun, Open MPI or Slurm.
#ifndef TRAINRT_COMM_LAUNCHERS_H
#define TRAINRT_COMM_LAUNCHERS_H

#include "format/status.h"

#include <cstdint>
#include <string>

namespace trainrt {

struct LaunchedRank {
  int64_t rank = 0, world = 1;
  int64_t local = 0;              ///< ranks on this machine; 0: not told
  int64_t localRank = -1;         ///< among them, from 0; -1: not told
  std::string coordinator;        ///< HOST:PORT; one that is there already stays
  const char *launcher = nullptr; ///< for people: "torchrun"; null: none has started the process
};

/// By the environment. InvalidArgument where it does not say all that is needed.
Status findLaunched(LaunchedRank &result);

} // namespace trainrt

#endif // TRAINRT_COMM_LAUNCHERS_H
