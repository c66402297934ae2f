// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread for what ranks exchange, one exchange behind the other, beside the computation.
#ifndef TRAINRT_DEVICE_CPU_EXCHANGE_LANE_H
#define TRAINRT_DEVICE_CPU_EXCHANGE_LANE_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trainrt {

/// Used by one thread. Whatever is given to `start` may be looked at again when `await` has
/// returned for it.
class ExchangeLane {
public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point began, ended;
  };

  ExchangeLane();
  ~ExchangeLane();
  ExchangeLane(const ExchangeLane &) = delete;
  ExchangeLane &operator=(const ExchangeLane &) = delete;

  /// Behind all that were started before. It does not throw.
  void start(std::function<void()> exchange);
  /// How many were started since the last `finish`.
  size_t started() const { return given; }
  /// Waits for exchange `index` of those; when it ran.
  Span await(size_t index);
  /// Waits for all, and counts from 0 again.
  void finish();

private:
  void work();

  size_t given = 0;
  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex.
  std::vector<std::function<void()>> exchanges;
  std::vector<Span> done;
  bool ends = false;
  std::thread thread;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_EXCHANGE_LANE_H
