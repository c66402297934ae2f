// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that lie on the GPU: read where they are, or copied and said why.

#include "device/cuda/direct_inputs.h"
#include "device/cuda/compiled_plan.h"
#include "format/memory/arena_plan.h"

#include <algorithm>

namespace trainrt::cuda {

/// Null where it may be read in its place. The reasons are literals, which the caller may keep.
const char *CudaDevice::whyCopied(const Run &run, const Compiled &compiled,
                                  const ArrayView &array) const {
  if (compiled.graphs[turn].empty())
    return "commands run one by one, without a graph";
  if (run.mayRepeat)
    return "the step before may be one whose loss is not finite and that is allowed, and this one "
           "is made again then";
  // Algorithms of libraries were chosen for such addresses; and what kernels may read behind an
  // array is in its last block of so many bytes, which no page ends in.
  if (at(array.data) % DeviceAddress(cudaPlanAlignment))
    return "its address is not a multiple of 256";
  // The run may change it before it has read it.
  const auto *begin = static_cast<const unsigned char *>(array.data);
  auto after = blocks.lower_bound(begin + array.bytes);
  if (after != blocks.begin() && std::prev(after)->first + std::prev(after)->second.bytes > begin)
    return "it is the session's own memory";
  return nullptr;
}

/// To this turn's staging block, in order before the run.
Status CudaDevice::copyInput(const Run &run, const Compiled &compiled, uint32_t input,
                             const char *reason) {
  ++copies.count;
  copies.reason = reason;
  const ArrayView &array = run.batch->arrays[input];
  return driver.check(driver.cuMemcpyDtoDAsync(at(staging[turn].data()) +
                                                   DeviceAddress(compiled.layout.inputs[input]),
                                               at(array.data), size_t(array.bytes), runs),
                      "cannot copy the batch");
}

/// `graphs` are those to launch then: of staging, or of the batch's own addresses. Of the
/// inputs that could be read in their place all are, or none.
Status CudaDevice::bindInputs(const Run &run, Compiled &compiled, const Graphs *&graphs) {
  graphs = &compiled.graphs[turn];
  if (!run.batch)
    return {};
  InputAddresses inputs;
  for (uint32_t input : run.plan.function->inputs) {
    const ArrayView &array = run.batch->arrays[input];
    if (!array.onDevice || !compiled.layout.staged[input] || !array.bytes)
      continue;
    if (const char *reason = whyCopied(run, compiled, array)) {
      TRAINRT_TRY(copyInput(run, compiled, input, reason));
      continue;
    }
    // Empty until one is read in its place; 0 for all that are not.
    inputs.resize(package->program().inputs.size());
    inputs[input] = at(array.data);
  }
  if (inputs.empty())
    return {};
  const Graphs *found = nullptr;
  const char *reason = "";
  TRAINRT_TRY(directGraph(run.plan, compiled, inputs, found, reason));
  if (found) {
    graphs = found;
    return {};
  }
  for (uint32_t input : run.plan.function->inputs)
    if (inputs[input])
      TRAINRT_TRY(copyInput(run, compiled, input, reason));
  return {};
}

/// `graphs` stays null where there is none, and `reason` tells why. The list is in the order of
/// use: the one that was not used for longest goes first.
Status CudaDevice::directGraph(const ExecutionPlan &plan, Compiled &compiled,
                               const InputAddresses &inputs, const Graphs *&graphs,
                               const char *&reason) {
  std::vector<Compiled::Direct> &list = compiled.direct;
  auto found = std::find_if(list.begin(), list.end(), [&](const Compiled::Direct &one) {
    return one.side == turn && one.inputs == inputs;
  });
  if (found != list.end()) {
    std::rotate(found, found + 1, list.end());
    compiled.recurring.used();
    graphs = &list.back().graphs;
    return {};
  }
  reason = "no batch of late had its address";
  if (!compiled.recurring.isWorthAGraph(inputs))
    return {};
  if (list.size() >= RecurringAddresses::mostGraphs) {
    compiled.drop(list.front());
    list.erase(list.begin());
  }
  Compiled::Direct made;
  made.side = turn;
  made.inputs = inputs;
  // For the capture only: the commands go back to their usual addresses below, whether it succeeds
  // or not.
  Status status = resolve(compiled, plan, turn, inputs, made.table);
  if (status.ok())
    status = measured(made.bytes, [&] { return capture(compiled, plan, made.graphs); });
  graphBytes += made.bytes;
  // Whoever looks at commands finds the addresses of graphs that stay.
  compiled.commands.resolve(
      [&](uint32_t index) { return addressOfBuffer(compiled, plan, index, 0, {}); },
      addressesOfWorkspaces(compiled), at(errorSlots.data()), at(compiled.tables[0].data()));
  if (!status.ok()) {
    compiled.drop(made);
    reason = "there was no memory for a graph that reads it where it is";
    return status.code() == Code::OutOfMemory ? Status() : status;
  }
  direct.insert(&compiled);
  list.push_back(std::move(made));
  graphs = &list.back().graphs;
  return {};
}

/// Waits for the runs, which may be theirs. True where that gave something back.
bool CudaDevice::dropDirectGraphs() {
  drain();
  bool dropped = false;
  while (!direct.empty())
    dropped |= (*direct.begin())->dropDirect();
  return dropped;
}

} // namespace trainrt::cuda
