// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Greedy placement: buffers in a fixed order, each into the tightest gap between the placed buffers
// that live at the same time. The order decides the quality, and none is best for every graph, so
// several are tried and the smallest arena wins (the first one on ties).

#include "core/plan.h"

#include <numeric>

namespace trainrt {

namespace {

struct Placer {
  const std::vector<PlanBuffer> &buffers;
  const std::vector<int64_t> &sizes;

  /// Places all buffers in `order`; returns the peak.
  int64_t place(const std::vector<uint32_t> &order, std::vector<int64_t> &offsets) const {
    offsets.assign(buffers.size(), 0);
    std::vector<uint32_t> placed; // sorted by offset
    placed.reserve(order.size());
    int64_t peak = 0;
    for (uint32_t id : order) {
      const PlanBuffer &buffer = buffers[id];
      int64_t size = sizes[id], bestOffset = -1, bestGap = INT64_MAX, end = 0;
      for (uint32_t other : placed) {
        if (buffers[other].last < buffer.first || buffer.last < buffers[other].first)
          continue;
        int64_t gap = offsets[other] - end;
        if (gap >= size && gap < bestGap) {
          bestGap = gap;
          bestOffset = end;
        }
        end = std::max(end, offsets[other] + sizes[other]);
      }
      offsets[id] = bestOffset >= 0 ? bestOffset : end;
      peak = std::max(peak, offsets[id] + size);
      auto position =
          std::upper_bound(placed.begin(), placed.end(), offsets[id],
                           [&](int64_t offset, uint32_t other) { return offset < offsets[other]; });
      placed.insert(position, id);
    }
    return peak;
  }
};

int64_t lowerBoundOf(const std::vector<PlanBuffer> &buffers, const std::vector<int64_t> &sizes) {
  struct Event {
    int64_t time;
    int64_t delta;
  };
  std::vector<Event> events;
  events.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    if (sizes[i]) {
      events.push_back({buffers[i].first, sizes[i]});
      events.push_back({int64_t(buffers[i].last) + 1, -sizes[i]});
    }
  // At equal times frees come first: `last` is inclusive and its free is one later.
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return a.time != b.time ? a.time < b.time : a.delta < b.delta;
  });
  int64_t live = 0, most = 0;
  for (const Event &event : events)
    most = std::max(most, live += event.delta);
  return most;
}

} // namespace

bool leavesRoomBeside(std::vector<int64_t> touched) {
  constexpr int64_t small = 16 << 20;
  if (touched.empty())
    return false;
  auto middle = touched.begin() + int64_t(touched.size()) / 2;
  std::nth_element(touched.begin(), middle, touched.end());
  return *middle <= small;
}

Plan planMemory(const std::vector<PlanBuffer> &buffers, int64_t alignment) {
  Plan plan;
  std::vector<int64_t> sizes(buffers.size());
  std::vector<uint32_t> bySize;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = std::max<int64_t>(buffers[i].bytes, 0);
    sizes[i] = padded(bytes, alignment);
    if (sizes[i])
      bySize.push_back(static_cast<uint32_t>(i));
  }
  plan.lowerBound = lowerBoundOf(buffers, sizes);
  plan.offsets.assign(buffers.size(), 0);
  if (bySize.empty())
    return plan;

  Placer placer{buffers, sizes};
  auto duration = [&](uint32_t id) { return int64_t(buffers[id].last) - buffers[id].first + 1; };
  std::vector<uint32_t> byTime = bySize, byArea = bySize, byDuration = bySize;
  auto larger = [&](uint32_t a, uint32_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  };
  std::sort(bySize.begin(), bySize.end(), larger);
  std::sort(byTime.begin(), byTime.end(), [&](uint32_t a, uint32_t b) {
    return buffers[a].first != buffers[b].first ? buffers[a].first < buffers[b].first
                                                : larger(a, b);
  });
  std::sort(byArea.begin(), byArea.end(), [&](uint32_t a, uint32_t b) {
    double x = double(sizes[a]) * double(duration(a)), y = double(sizes[b]) * double(duration(b));
    return x != y ? x > y : a < b;
  });
  std::sort(byDuration.begin(), byDuration.end(), [&](uint32_t a, uint32_t b) {
    return duration(a) != duration(b) ? duration(a) > duration(b) : larger(a, b);
  });

  plan.peak = INT64_MAX;
  std::vector<int64_t> offsets;
  for (const auto *order : {&bySize, &byDuration, &byTime, &byArea}) {
    int64_t peak = placer.place(*order, offsets);
    if (peak < plan.peak) {
      plan.peak = peak;
      plan.offsets.swap(offsets);
    }
    if (plan.peak == plan.lowerBound)
      break;
  }
  return plan;
}

} // namespace trainrt
