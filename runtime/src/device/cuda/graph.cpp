// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between streams: an event after each command that another one waits for, and each wait once.

#include "device/cuda/graph.h"

#include <cassert>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>

namespace trainrt::cuda {

/// Commands of a lane keep their order; everything begins and ends on the first stream. The events
/// are the caller's and live until the capture has ended.
Status enqueueLanes(const Context &context, const Commands &commands, const Commands::Part &part,
                    const LaneStreams &streams, const std::string &where,
                    std::vector<Event> &events) {
  constexpr unsigned numLanes = Commands::numLanes;
  const Driver &driver = context.driver();
  const std::vector<std::array<int32_t, numLanes>> dependencies = commands.dependencies();
  std::vector<bool> isAwaited(commands.size());
  /// Of each lane, up to which commands of the other ones it has waited.
  std::array<int32_t, numLanes> waited[numLanes];
  // What is in earlier parts is done.
  for (auto &upTo : waited)
    upTo.fill(int32_t(part.begin) - 1);
  // The first lane is where everything begins and ends.
  bool isUsed[numLanes] = {true};
  std::vector<std::vector<int32_t>> waits(commands.size());
  for (size_t i = part.begin; i < part.end; ++i) {
    const unsigned lane = commands.lane(i);
    isUsed[lane] = true;
    for (unsigned other = 0; other < numLanes; ++other) {
      const int32_t last = dependencies[i][other];
      // A lane has waited for all before the last that it has waited for.
      if (other == lane || last <= waited[lane][other])
        continue;
      assert(last < int32_t(i) && "commands wait for earlier ones");
      // This pass finds which commands need an event behind them; the second one enqueues.
      waits[i].push_back(last);
      waited[lane][other] = last;
      isAwaited[size_t(last)] = true;
    }
  }
  // By command; -1 is the beginning.
  std::map<int32_t, CUevent> done;
  auto mark = [&](int32_t command, CUstream on) {
    Event event;
    TRAINRT_TRY(event.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(driver.check(driver.cuEventRecord(event.get(), on), "cannot record an event"));
    done[command] = event.get();
    events.push_back(std::move(event));
    return Status();
  };
  auto wait = [&](CUstream on, int32_t command) {
    return driver.check(driver.cuStreamWaitEvent(on, done[command], 0), "cannot wait for an event");
  };
  // A capture has to fork from the stream that it began on.
  for (unsigned lane = 1; lane < numLanes; ++lane)
    if (isUsed[lane]) {
      if (!done.count(-1))
        TRAINRT_TRY(mark(-1, streams[0]));
      TRAINRT_TRY(wait(streams[lane], -1));
    }
  for (size_t i = part.begin; i < part.end; ++i) {
    const CUstream on = streams[commands.lane(i)];
    for (int32_t earlier : waits[i])
      TRAINRT_TRY(wait(on, earlier));
    TRAINRT_TRY(commands.enqueue(i, on).within(where + ", " + commands.describe(i) + ": "));
    if (isAwaited[i])
      TRAINRT_TRY(mark(int32_t(i), on));
  }
  // And to join it again, or the capture fails.
  for (unsigned lane = 1; lane < numLanes; ++lane)
    if (isUsed[lane]) {
      // Numbers that no command has.
      const int32_t end = INT32_MAX - int32_t(lane);
      TRAINRT_TRY(mark(end, streams[lane]));
      TRAINRT_TRY(wait(streams[0], end));
    }
  return {};
}

/// The captured graph stays the caller's.
Status instantiate(const Context &context, CUgraph captured, bool asBody, const char *what,
                   CUgraphExec &executable) {
  assert(captured && "a captured graph");
  const Driver &driver = context.driver();
  const char *form = std::getenv("TRAINRT_GRAPHS");
  // The graph as it is, where a body may not have copies to the host.
  if (!asBody || (form && std::strcmp(form, "plain") == 0))
    return driver.check(driver.cuGraphInstantiate(&executable, captured, 0), what);
  CUgraph graph = nullptr;
  TRAINRT_TRY(driver.check(driver.cuGraphCreate(&graph, 0), what));
  // A body that always runs: the driver starts its commands without the host's order between them.
  CUgraphConditionalHandle always = 0;
  CUresult result = driver.cuGraphConditionalHandleCreate(&always, graph, context.get(), 1,
                                                          CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNodeParams conditional = {};
  conditional.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  conditional.conditional = {always, CU_GRAPH_COND_TYPE_IF, 1, nullptr, context.get()};
  CUgraphNode node = nullptr;
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &conditional);
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphAddChildGraphNode(&node, conditional.conditional.phGraph_out[0], nullptr,
                                             0, captured);
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphInstantiate(&executable, graph, 0);
  // The executable has its own copy.
  driver.cuGraphDestroy(graph);
  return driver.check(result, what);
}

} // namespace trainrt::cuda
