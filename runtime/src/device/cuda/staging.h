// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a run's hyper-parameters and inputs get from the host to the device: one block there, a
// pinned block of the same layout, and what need not go through it because it is pinned already.
#ifndef TRAINRT_DEVICE_CUDA_STAGING_H
#define TRAINRT_DEVICE_CUDA_STAGING_H

#include "device/cuda/context.h"
#include "device/device.h"
#include "format/program.h"
#include "plan/execution_plan.h"

#include <map>
#include <mutex>
#include <vector>

namespace trainrt::cuda {

/// Where the hyper-parameters and inputs of a run lie, in the pinned block and in the device's
/// alike.
struct StagingLayout {
  /// Bytes that go to `offset` of the device's block, from there in the pinned one if `from` is
  /// null.
  struct Part {
    int64_t offset, bytes;
    const void *from;
  };
  std::vector<int64_t> hypers;
  int64_t hyperBytes = 0; ///< of all of them; they are first
  /// By index in Program::inputs; only those that have a buffer are staged.
  std::vector<int64_t> inputs;
  std::vector<bool> staged;
  int64_t bytes = 0;
};
StagingLayout layOutStaging(const Program &program, const ExecutionPlan &plan);

/// Writes to the pinned `block` what does not go to the device from where it lies.
Status fillStaging(const Program &program, const StagingLayout &layout, const Device::Run &run,
                   ThreadPool &pool, unsigned char *block);
/// What is to be copied, without inputs that are on the device.
std::vector<StagingLayout::Part> partsToSend(const Program &program, const StagingLayout &layout,
                                             const Device::Run &run);

/// Blocks of pinned memory that the caller fills. Any thread; with the context current.
class PinnedBlocks {
public:
  Status allocate(const Context &context, int64_t bytes, void *&memory);
  void release(void *memory);
  /// Whether all of these bytes lie in one of them.
  bool contain(const void *data, int64_t bytes) const;

private:
  mutable std::mutex mutex;
  std::map<const unsigned char *, PinnedMemory> blocks;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_STAGING_H
