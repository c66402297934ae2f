// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading steps, at once or ahead.
#include "cli/data/loader.h"

#include <algorithm>
#include <utility>

namespace trainrt::run {

namespace {
/// Steps that are loaded and not yet asked for. The device holds two more.
constexpr size_t mostReady = 2;
} // namespace

StepLoader::StepLoader(const Dataset &data, std::unique_ptr<BatchOrder> order,
                       const Settings &settings)
    : data(data), settings(settings), order(std::move(order)) {
  // Everything is set before the thread begins to read it.
  if (settings.ahead)
    thread = std::thread([this] { loadAhead(); });
}

StepLoader::~StepLoader() {
  if (!thread.joinable())
    return;
  // The lock is free while the thread ends.
  {
    std::lock_guard lock(mutex);
    stopped = true;
  }
  changed.notify_all();
  thread.join();
}

/// On the loader's thread where it has one, else on the caller's: `order` and `made` are never used
/// by two. `into` may have been used before, and keeps its buffers.
void StepLoader::load(StepData &into) {
  const bool wrap = settings.steps.has_value();
  into.before = order->position();
  std::vector<std::vector<int64_t>> rows;
  into.rows = into.tokens = 0;
  // All ranks walk the same order, and so agree on rows and positions without a word.
  while (int64_t(rows.size()) < settings.microBatches) {
    rows.push_back(order->next(wrap));
    into.rows += int64_t(rows.back().size());
    if (!wrap && order->position().epoch != into.before.epoch)
      break; // an epoch's last step may have fewer micro-batches
  }
  // This rank's, the first ones rank 0's; of what is left over the first ranks have one each.
  const int64_t count = int64_t(rows.size()), share = count / settings.ranks,
                more = count % settings.ranks;
  const int64_t begin = settings.rank * share + std::min(settings.rank, more);
  const int64_t end = begin + share + (settings.rank < more);
  while (int64_t(into.batches.size()) < end - begin)
    into.batches.emplace_back(settings.session, /*copied=*/settings.ahead);
  into.views.clear();
  for (int64_t i = begin; i < end; ++i) {
    Batch &batch = into.batches[size_t(i - begin)];
    data.load(std::move(rows[size_t(i)]), batch);
    into.views.push_back(batch.view());
    const int64_t tokens = data.tokensOf(batch);
    into.tokens = tokens < 0 ? -1 : into.tokens + tokens;
  }
  into.after = order->position();
  // Checked by this thread, so that the step itself does not have to.
  if (settings.checks && !into.views.empty())
    into.status =
        trainrt_session_check(settings.session, into.views.data(), into.views.size(), into.error);
  ++made;
}

/// Ends after the last step, a failure, or `stopped`. Nothing is thrown out of the thread.
void StepLoader::loadAhead() {
  try {
    while (!done()) {
      std::unique_ptr<StepData> next;
      {
        std::unique_lock lock(mutex);
        // No more than the device and the loop need.
        changed.wait(lock, [&] { return stopped || ready.size() < mostReady; });
        if (stopped)
          return;
        if (!unused.empty()) {
          next = std::move(unused.front());
          unused.pop_front();
        }
      }
      // Outside of the lock: loading takes long.
      if (!next)
        next = std::make_unique<StepData>();
      load(*next);
      {
        std::lock_guard lock(mutex);
        ready.push_back(std::move(next));
      }
      changed.notify_all();
    }
    // Told when the steps before it have been given.
  } catch (...) {
    std::lock_guard lock(mutex);
    failure = std::current_exception();
  }
  {
    std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
}

/// Steps come in their order. A failure comes behind all steps that were loaded before it.
std::unique_ptr<StepData> StepLoader::next() {
  std::unique_ptr<StepData> result;
  if (!settings.ahead) {
    if (done())
      return nullptr;
    if (!unused.empty()) {
      result = std::move(unused.front());
      unused.pop_front();
    } else {
      result = std::make_unique<StepData>();
    }
    load(*result);
    return result;
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended || !ready.empty(); });
    if (!ready.empty()) {
      result = std::move(ready.front());
      ready.pop_front();
    } else if (failure) {
      std::rethrow_exception(failure);
    }
  }
  changed.notify_all();
  return result;
}

/// Not before the result of its step is known: a device may read the buffers until then.
void StepLoader::recycle(std::unique_ptr<StepData> data) {
  std::lock_guard lock(mutex);
  unused.push_back(std::move(data));
}

} // namespace trainrt::run
