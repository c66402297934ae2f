// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One GPU with its primary context, and the streams and events made there.
#ifndef TRAINRT_DEVICE_CUDA_CONTEXT_H
#define TRAINRT_DEVICE_CUDA_CONTEXT_H

#include "device/cuda/driver.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace trainrt::cuda {

class Context {
public:
  /// `ordinal`: as in nvidia-smi, among the GPUs that CUDA_VISIBLE_DEVICES leaves. DeviceError.
  static Status open(int ordinal, std::unique_ptr<Context> &context);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const Driver &driver() const { return api; }
  /// Every call of the driver that is not about an object of its own happens under this.
  [[nodiscard]] CurrentContext makeCurrent() const { return CurrentContext(api, handle); }
  /// Leaves the primary context as it is when this is destroyed: for libraries whose own objects in
  /// it live as long as the process.
  void keep() { kept = true; }
  /// Frees a block, unless it is left to the end of the process, and the context with it, as other
  /// processes may still use it. Any thread; the context is current.
  void free(CUdeviceptr memory) const;
  void leave(CUdeviceptr memory) const;
  CUcontext get() const { return handle; }
  int ordinal() const { return number; }
  /// Compute capability: 90 for 9.0.
  int capability() const { return major * 10 + minor; }
  int capabilityMajor() const { return major; }
  int multiprocessors() const { return numMultiprocessors; }
  /// "GPU 0 (NVIDIA H200)"
  const std::string &name() const { return text; }

private:
  explicit Context(const Driver &driver) : api(driver) {}
  const Driver &api;
  CUdevice device = 0;
  CUcontext handle = nullptr;
  int number = 0, major = 0, minor = 0, numMultiprocessors = 0;
  std::string text;
  mutable std::mutex mutex; ///< of what follows
  mutable std::set<CUdeviceptr> blocksLeft;
  mutable std::atomic<bool> kept{false};
};

/// Events and pinned blocks that destroy themselves; made and destroyed with the context current.
class Event {
public:
  Event() = default;
  ~Event();
  Event(Event &&other) noexcept;
  Event &operator=(Event &&other) noexcept;
  Status create(const Context &context, unsigned flags);
  CUevent get() const { return handle; }
  /// Waits for what other ranks may keep from coming: until `check()` is an error, which it is
  /// then. Short waits end before anything has to be checked.
  template <typename Check> Status awaitWhile(const Check &check) const {
    for (int turn = 0; context->driver().cuEventQuery(handle) == CUDA_ERROR_NOT_READY; ++turn) {
      if (turn < 100)
        continue;
      TRAINRT_TRY(check());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return {};
  }

private:
  const Context *context = nullptr;
  CUevent handle = nullptr;
};

class PinnedMemory {
public:
  PinnedMemory() = default;
  ~PinnedMemory() { release(); }
  PinnedMemory(PinnedMemory &&other) noexcept;
  PinnedMemory &operator=(PinnedMemory &&other) noexcept;
  /// Frees what it held; `what` names the new block in the error.
  Status allocate(const Context &context, int64_t bytes, const char *what);
  void release();
  unsigned char *data() const { return bytes; }
  int64_t size() const { return length; }

private:
  const Context *context = nullptr;
  unsigned char *bytes = nullptr;
  int64_t length = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_CONTEXT_H
