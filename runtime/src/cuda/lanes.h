// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The commands of a plan on several streams at once, to be captured as a graph.
#ifndef TRAINRT_CUDA_LANES_H
#define TRAINRT_CUDA_LANES_H

#include "cuda/commands.h"
#include "cuda/context.h"

namespace trainrt::cuda {

/// A stream for each lane (Commands::lane).
using LaneStreams = std::array<CUstream, Commands::numLanes>;

/// Enqueues all commands: each waits for those of other lanes that must be done before it, and the
/// first stream for all at the end. `events` must outlive the capture. `where` begins errors.
Status enqueueLanes(const Context &context, const Commands &commands, const LaneStreams &streams,
                    const std::string &where, std::vector<Event> &events);

} // namespace trainrt::cuda

#endif // TRAINRT_CUDA_LANES_H
