// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime's only thread pool. Work is a range of independent items; idle threads take chunks of
// it from a shared counter. Results never depend on who computed what, so neither the number of
// threads nor the timing changes a bit. The pool also owns the scratch memory that its users (the
// GEMM's packing buffers above all) reuse from call to call.
#ifndef TRAINRT_DEVICE_THREAD_POOL_H
#define TRAINRT_DEVICE_THREAD_POOL_H

#include "device/memory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trainrt {

/// A memory block that only grows, 64-byte aligned. Contents are not kept when it grows.
class GrowingBuffer {
public:
  /// At least `bytes` bytes; throws std::bad_alloc.
  void *get(size_t bytes);
  size_t bytes() const { return size_t(memory.size()); }

private:
  Memory memory;
};

class ThreadPool {
public:
  /// Receives the index of the worker that calls it (0 is the thread that called parallelFor) and a
  /// range of items.
  using Body = std::function<void(unsigned worker, int64_t begin, int64_t end)>;

  /// `threads` counts the calling thread; 0 means 1.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned size() const { return numThreads; }
  /// Whether the calling thread is within a parallelFor of this pool.
  bool inside() const;

  /// Calls `fn` over disjoint chunks that cover [0, n), each of at least `grain` items (but the
  /// last one). Returns when all of them are done. Runs in the calling thread alone when n <=
  /// grain, when the pool has one thread, or from within another parallelFor of this pool. The
  /// first exception that `fn` throws is thrown here, after the chunks under way have ended; the
  /// others are skipped.
  void parallelFor(int64_t n, int64_t grain, const Body &fn);

  /// Memory of `worker` alone, valid until its next call; to be used from within parallelFor (or,
  /// for worker 0, by the thread that would call it).
  void *scratch(unsigned worker, size_t bytes) { return buffers[worker].get(bytes); }
  /// Memory that the calling thread shares with the workers of the parallelFor it starts next;
  /// `slot` is 0 or 1, or 2 for what stays packed while a loop runs.
  void *shared(unsigned slot, size_t bytes) { return sharedBuffers[slot].get(bytes); }
  /// Bytes of all these buffers together.
  size_t scratchBytes() const;

private:
  void workerMain(unsigned worker);
  void runChunks(unsigned worker);

  const unsigned numThreads;
  std::unique_ptr<GrowingBuffer[]> buffers;
  GrowingBuffer sharedBuffers[3];
  std::vector<std::thread> workers;
  std::mutex callers; // one parallelFor at a time

  // The current job. Written by the caller while it is closed and nobody is in it.
  const Body *body = nullptr;
  int64_t total = 0, chunk = 0;
  std::exception_ptr error;
  std::mutex errorMutex;

  alignas(64) std::atomic<int64_t> next{0};
  /// Bit 31: the job is open to be joined. The rest: how many workers are in it.
  alignas(64) std::atomic<uint32_t> control{0};
  /// Counts jobs; what idle workers wait on.
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stopping{false};
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_THREAD_POOL_H
