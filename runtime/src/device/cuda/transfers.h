// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Large values between host and GPU, in chunks through two pinned blocks, so that copying on the
// host and on the bus overlap; and copies of device values that the host may look at.
#ifndef TRAINRT_DEVICE_CUDA_TRANSFERS_H
#define TRAINRT_DEVICE_CUDA_TRANSFERS_H

#include "device/cuda/context.h"
#include "device/cuda/libraries.h"
#include "device/device.h"

#include <unordered_map>

namespace trainrt::cuda {

class Transfers {
public:
  Transfers(const Context &context, ThreadPool &pool) : context(context), pool(pool) {}

  // The context is current.
  /// Enqueues the value on `stream`; `source` is not needed once it returns.
  Status upload(DeviceAddress to, int64_t bytes, const Device::Source &source, CUstream stream);
  /// Waits for what is on `stream`, too.
  Status download(DeviceAddress from, int64_t bytes, unsigned char *to, CUstream stream);

  /// The value on the host; the copy is kept until `forget`.
  Status view(DeviceAddress from, int64_t bytes, CUstream stream, const void *&host);
  /// Frees everything.
  void release();
  void forget() {
    if (!views.empty())
      views.clear();
  }

private:
  struct Slot {
    PinnedMemory memory;
    Event done;
    bool busy = false;
  };
  Status prepare();
  Status await(Slot &slot);

  static constexpr int64_t chunk = 16 << 20;
  const Context &context;
  ThreadPool &pool;
  Slot slots[2];
  size_t next = 0;
  struct View {
    Memory memory;
    int64_t bytes;
  };
  std::unordered_map<DeviceAddress, View> views;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_TRANSFERS_H
