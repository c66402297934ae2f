// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Idea: a job is *joined*, not handed out. A worker that wakes up late finds the job closed and
// goes back to sleep, so the caller never waits for a thread that the operating system has not
// scheduled yet, only for chunks that somebody has begun. Waiting spins for some microseconds (the
// usual gap between two commands of a step) and then sleeps in the kernel.
#include "thread_pool.h"

#include <algorithm>
#include <cassert>
#include <new>

namespace trainrt {

namespace {

constexpr uint32_t openBit = 1u << 31;
constexpr int spinRounds = 400; // a `pause` is about 40 ns on current cores
constexpr int64_t chunksPerThread = 16;

/// The pool and the index this thread works for, to recognise nested calls.
thread_local const ThreadPool *currentPool = nullptr;
thread_local unsigned currentWorker = 0;

void cpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Sets the thread's identity for as long as it lives.
struct WorkerScope {
  WorkerScope(const ThreadPool *pool, unsigned worker)
      : savedPool(currentPool), savedWorker(currentWorker) {
    currentPool = pool;
    currentWorker = worker;
  }
  ~WorkerScope() {
    currentPool = savedPool;
    currentWorker = savedWorker;
  }
  const ThreadPool *savedPool;
  unsigned savedWorker;
};

} // namespace

/// Contents are lost when it grows.
void *GrowingBuffer::get(size_t bytes) {
  if (bytes > this->bytes() &&
      !memory.allocate({}, int64_t((bytes + 4095) & ~size_t(4095)), "scratch", false).ok())
    throw std::bad_alloc();
  return memory.data();
}

ThreadPool::ThreadPool(unsigned threads)
    : numThreads(std::max(threads, 1u)), buffers(new GrowingBuffer[numThreads]) {
  workers.reserve(numThreads - 1);
  for (unsigned worker = 1; worker < numThreads; ++worker)
    workers.emplace_back([this, worker] { workerMain(worker); });
}

ThreadPool::~ThreadPool() {
  // The epoch changes after `stopping` is set: a worker that sees the new epoch sees the flag as
  // well.
  stopping.store(true);
  epoch.fetch_add(1);
  epoch.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

bool ThreadPool::inside() const { return currentPool == this; }

size_t ThreadPool::scratchBytes() const {
  size_t bytes = 0;
  for (const GrowingBuffer &buffer : sharedBuffers)
    bytes += buffer.bytes();
  for (unsigned worker = 0; worker < numThreads; ++worker)
    bytes += buffers[worker].bytes();
  return bytes;
}

/// Chunks are handed out in ascending order; which worker gets which differs between runs, so
/// bodies must not depend on it.
void ThreadPool::runChunks(unsigned worker) {
  for (;;) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= total)
      return;
    try {
      assert(begin % chunk == 0 && "chunks are cut at the same places whoever takes them");
      // Chunks begun by others are finished after an error; none is begun any more. The first error
      // in time is told.
      (*body)(worker, begin, std::min(begin + chunk, total));
    } catch (...) {
      std::lock_guard<std::mutex> lock(errorMutex);
      if (!error)
        error = std::current_exception();
      next.store(total, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::workerMain(unsigned worker) {
  // seen starts at the pool's first epoch; a worker that starts late finds that a job has come, and
  // that it is closed.
  WorkerScope scope(this, worker);
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = epoch.load(std::memory_order_acquire);
    for (int round = 0; now == seen && round < spinRounds; ++round) {
      cpuRelax();
      now = epoch.load(std::memory_order_acquire);
    }
    while (now == seen) {
      epoch.wait(seen, std::memory_order_acquire);
      now = epoch.load(std::memory_order_acquire);
    }
    seen = now;
    if (stopping.load())
      return;

    // Joins only while the job is open. The counter is what the caller waits for: `body`, `total`
    // and `chunk` stay valid until it is 0.
    uint32_t state = control.load(std::memory_order_acquire);
    bool joined = false;
    while ((state & openBit) && !joined)
      joined = control.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                             std::memory_order_acquire);
    if (!joined)
      continue;
    runChunks(worker);
    if (control.fetch_sub(1, std::memory_order_acq_rel) == 1) // closed, and the last one in it
      control.notify_one();
  }
}

void ThreadPool::parallelFor(int64_t n, int64_t grain, const Body &fn) {
  if (n <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  // Nested: all on this thread. Waiting for the other workers here could wait for one that waits
  // for us.
  if (currentPool == this) {
    fn(currentWorker, 0, n);
    return;
  }
  // Several threads may share a pool; their loops run behind each other.
  std::lock_guard<std::mutex> lock(callers);
  WorkerScope scope(this, 0);
  if (numThreads == 1 || n <= grain) {
    fn(0, 0, n);
    return;
  }

  assert(control.load() == 0 && "one loop at a time: callers take turns");
  body = &fn;
  total = n;
  // Four chunks a thread: one that is slow or late then costs a quarter of its part, at most.
  int64_t parts = int64_t(numThreads) * chunksPerThread;
  chunk = std::max(grain, (n + parts - 1) / parts);
  error = nullptr;
  next.store(0, std::memory_order_relaxed);
  // Published in this order: a worker joins only if it sees openBit, and then it sees all that was
  // written above.
  control.store(openBit, std::memory_order_release);
  epoch.fetch_add(1, std::memory_order_release);
  epoch.notify_all();

  runChunks(0);

  // Closed: who has not joined yet will not. Only those inside are waited for.
  uint32_t inside = control.fetch_and(~openBit, std::memory_order_acq_rel) & ~openBit;
  for (int round = 0; inside != 0 && round < spinRounds; ++round) {
    cpuRelax();
    inside = control.load(std::memory_order_acquire);
  }
  while (inside != 0) {
    control.wait(inside, std::memory_order_acquire);
    inside = control.load(std::memory_order_acquire);
  }
  body = nullptr;
  if (error) {
    std::exception_ptr thrown = std::move(error);
    error = nullptr;
    std::rethrow_exception(thrown);
  }
}

} // namespace trainrt
