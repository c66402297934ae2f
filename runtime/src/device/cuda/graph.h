// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of a plan's commands: captured on several streams at once, and executable such that a
// launch costs the host the same, however many nodes there are.
#ifndef TRAINRT_DEVICE_CUDA_GRAPH_H
#define TRAINRT_DEVICE_CUDA_GRAPH_H

#include "device/cuda/commands.h"
#include "device/cuda/context.h"

namespace trainrt::cuda {

/// A stream for each lane (Commands::lane).
using LaneStreams = std::array<CUstream, Commands::numLanes>;

/// Enqueues the commands of a part: each waits for those of other lanes that must be done before
/// it, and the first stream for all at the end. `events` must outlive the capture. `where` begins
/// errors.
Status enqueueLanes(const Context &context, const Commands &commands, const Commands::Part &part,
                    const LaneStreams &streams, const std::string &where,
                    std::vector<Event> &events);

/// Makes `captured` executable; `asBody`: as the body of one conditional node whose condition
/// always holds: the driver keeps a body on the device and starts it there. Launched by itself, a
/// graph of thousands of nodes, some of which are no kernels, keeps the host busy until the device
/// has taken nearly all of them. But in a body nothing runs beside a copy from or to the host.
/// TRAINRT_GRAPHS=plain makes no bodies, for tools that cannot look into one (compute-sanitizer
/// takes it for a fault). The context is current; `captured`
/// may be destroyed afterwards. `what` begins the error.
Status instantiate(const Context &context, CUgraph captured, bool asBody, const char *what,
                   CUgraphExec &executable);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_GRAPH_H
