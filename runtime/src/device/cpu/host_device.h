// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host as a device: its memory, its cores.
#ifndef TRAINRT_DEVICE_CPU_HOST_DEVICE_H
#define TRAINRT_DEVICE_CPU_HOST_DEVICE_H

#include "device/cpu/executor.h"
#include "device/device.h"
#include "io/free_memory.h"

#include <map>
#include <mutex>
#include <vector>

namespace trainrt {

class HostDevice final : public Device {
public:
  HostDevice(std::shared_ptr<const Package> package, std::shared_ptr<const KernelLibrary> kernels,
             std::shared_ptr<const ExternalFunctions> externals, const DeviceOptions &options,
             AddressOf addressOf);

  bool runsAhead() const override { return false; }
  bool isHost() const override { return true; }
  Status locate(ArrayView &) const override { return {}; } ///< all of it is the host's
  Status allocateHost(int64_t bytes, void *&memory) override;
  void releaseHost(void *memory) override;
  Status write(void *to, int64_t bytes, const Source &source) override;
  Status copy(void *to, const void *from, int64_t bytes) override;
  Status clear(void *to, int64_t bytes) override;
  Status view(const void *from, int64_t bytes, const void *&host) override;
  Status prepare(const ExecutionPlan &plan) override;
  const DeviceMemory &outputs() const override { return outputBlock; }
  Status enqueue(Run &run, Ticket &ticket) override;
  Status repeat(Ticket &ticket) override;
  Status wait(Ticket ticket, Result &result) override;
  void addMemory(MemoryUse &use) const override;
  int64_t freeMemory() const override { return freeHostMemory(); }
  Status measureCopySpeed(double &bytesPerSecond) override;
  Status measureMatmulSpeed(double &flopsPerSecond) override;

private:
  Status allocateBytes(int64_t bytes, const char *what, bool zeroed,
                       std::shared_ptr<unsigned char> &data) override;
  Status stageInput(uint32_t input, const ArrayView &array, const void *&data);

  const std::shared_ptr<const KernelLibrary> kernels;
  const std::shared_ptr<const ExternalFunctions> externals;
  const Allocator allocator;
  CommandObserver *const observer;
  Communicator *const ranks;
  Executor executor;
  DeviceMemory arena, outputBlock;
  std::vector<DeviceMemory> staging;
  std::mutex hostMutex;
  std::map<void *, Memory> hostBlocks; ///< under the mutex
  int64_t arenaLowerBound = 0;
  /// Of the last run, which is the only one that can be waited for.
  Result last;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_HOST_DEVICE_H
