// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One mutex: there are some dozens of exchanges in a step, of a millisecond or so each.

#include "device/cpu/exchange_lane.h"

#include <cassert>

namespace trainrt {

ExchangeLane::ExchangeLane() : thread([this] { work(); }) {}

ExchangeLane::~ExchangeLane() {
  {
    std::lock_guard lock(mutex);
    ends = true;
    changed.notify_all();
  }
  thread.join();
}

void ExchangeLane::start(std::function<void()> exchange) {
  std::lock_guard lock(mutex);
  exchanges.push_back(std::move(exchange));
  given = exchanges.size();
  changed.notify_all();
}

ExchangeLane::Span ExchangeLane::await(size_t index) {
  assert(index < given && "what was not started does not end");
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done.size() > index; });
  return done[index];
}

void ExchangeLane::finish() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done.size() == exchanges.size(); });
  exchanges.clear();
  done.clear();
  given = 0;
}

void ExchangeLane::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ends || done.size() < exchanges.size(); });
    if (done.size() == exchanges.size())
      return;
    // Others may be added meanwhile, which moves the list.
    const std::function<void()> exchange = exchanges[done.size()];
    lock.unlock();
    Span span{Clock::now(), {}};
    exchange();
    span.ended = Clock::now();
    lock.lock();
    done.push_back(span);
    changed.notify_all();
  }
}

} // namespace trainrt
