// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the device makes of a plan: its commands, and graphs of them.
#ifndef TRAINRT_DEVICE_CUDA_COMPILED_PLAN_H
#define TRAINRT_DEVICE_CUDA_COMPILED_PLAN_H

#include "device/cuda/cuda_device.h"
#include "plan/arena_layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainrt::cuda {

class CudaDevice::Compiled final : public CompiledPlan {
public:
  Compiled(CudaDevice &device, const ExecutionPlan &plan)
      : commands(*device.context, device.package->program(), plan),
        layout(layOutStaging(device.package->program(), plan)), device(device) {
    for (const Buffer &buffer : plan.function->buffers)
      hasFlag |=
          buffer.space == Space::State && int32_t(buffer.index) == device.package->nonfiniteState();
  }
  ~Compiled() override {
    for (Underway &run : device.underway)
      if (run.plan && run.plan->compiled.get() == this)
        run.plan = nullptr;
    dropGraphs();
    for (const DeviceMemory &table : tables)
      device.tableBytes -= table.size();
  }
  void dropGraphs() {
    dropDirect();
    for (Graphs &side : graphs)
      destroy(side);
    device.graphBytes -= std::exchange(graphBytes, 0);
  }
  /// Whether there were any.
  bool dropDirect() {
    device.direct.erase(this);
    for (Direct &one : direct)
      drop(one);
    return !std::exchange(direct, {}).empty();
  }

  /// Those that read inputs where the caller has them.
  struct Direct {
    unsigned side = 0;
    InputAddresses inputs;
    DeviceMemory table; ///< what the commands' groups read
    Graphs graphs;
    int64_t bytes = 0; ///< that the driver took for it
  };
  void drop(Direct &one) {
    destroy(one.graphs);
    device.graphBytes -= std::exchange(one.bytes, 0);
    device.tableBytes -= one.table.size();
    one.table.release();
  }

  Commands commands;
  /// Of the commands, when they are prepared.
  std::vector<Commands::Part> parts;
  ArenaLayout arena;
  bool exchanges() const {
    return std::ranges::any_of(parts, [](const Commands::Part &part) { return part.isCollective; });
  }
  const StagingLayout layout;
  bool hasFlag = false; ///< a run may set the state `nonfinite`
  /// By side: what the commands' groups read.
  DeviceMemory tables[2];
  uint64_t generation = 0; ///< of the addresses in it; 0: none yet
  /// By side: one that is running is not launched again before its end.
  Graphs graphs[2];
  int64_t graphBytes = 0; ///< that the driver took for them
  /// The most recently used last.
  std::vector<Direct> direct;
  RecurringAddresses recurring;

private:
  void destroy(Graphs &graphs) {
    CurrentContext current = device.context->makeCurrent();
    for (CUgraphExec graph : std::exchange(graphs, {}))
      if (graph)
        device.driver.cuGraphExecDestroy(graph); // one that is running is let end
  }

  CudaDevice &device;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMPILED_PLAN_H
