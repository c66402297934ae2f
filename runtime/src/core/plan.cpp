// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Greedy placement: buffers in some order, each into the tightest gap between the placed buffers
// that live at the same time. The order decides the quality, and none is best for every graph:
// several are tried, then the best ones are repaired, by placing earlier what ended above the
// bound, until nothing does or enough has been tried. What is tried depends on the buffers only.

#include "core/plan.h"

#include <iterator>
#include <numeric>

namespace trainrt {

namespace {

/// How many placed buffers are looked at before the best plan so far has to do: some milliseconds.
constexpr int64_t kMostWork = 6'000'000;
/// What placing one costs besides, as many looks.
constexpr int64_t kWorkOfEach = 96;
/// Near enough: a part of the bound that is not worth the time.
constexpr int64_t kNearEnough = 256;
/// With more buffers, those that hardly decide are placed last and once.
constexpr size_t kManyBuffers = 500;
constexpr int64_t kNextToNothing = 400;
/// An order is repaired so many times before the next one has its turn.
constexpr int kRepairs = 4;

/// Buffers with places, by offset.
class Placement {
public:
  void clear() {
    lives.clear();
    ranges.clear();
  }
  /// The buffer gets the tightest gap; returns its offset.
  int64_t add(const PlanBuffer &buffer, int64_t size) {
    const size_t count = lives.size();
    overlapping.resize(count + 1);
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) { // without branches
      overlapping[found] = uint32_t(i);
      found += size_t(lives[i].last >= buffer.first) & size_t(lives[i].first <= buffer.last);
    }
    work += int64_t(count) + kWorkOfEach;
    int64_t best = -1, bestGap = INT64_MAX, end = 0;
    for (size_t i = 0; i < found; ++i) {
      const Range &range = ranges[overlapping[i]];
      const int64_t gap = range.offset - end;
      if (gap >= size && gap < bestGap) {
        bestGap = gap;
        best = end;
      }
      end = std::max(end, range.end);
    }
    const int64_t offset = best >= 0 ? best : end;
    insert(buffer, offset, size);
    return offset;
  }
  void insert(const PlanBuffer &buffer, int64_t offset, int64_t size) {
    auto position =
        std::upper_bound(ranges.begin(), ranges.end(), offset,
                         [](int64_t offset, const Range &range) { return offset < range.offset; });
    lives.insert(lives.begin() + (position - ranges.begin()), {buffer.first, buffer.last});
    ranges.insert(position, {offset, offset + size});
  }

  /// Placed buffers that were looked at, and will have to be.
  int64_t work = 0;

private:
  struct Life {
    int32_t first, last;
  };
  struct Range {
    int64_t offset, end;
  };
  std::vector<Life> lives;
  std::vector<Range> ranges;
  std::vector<uint32_t> overlapping;
};

class Planner {
public:
  Planner(const std::vector<PlanBuffer> &buffers, int64_t alignment)
      : buffers(buffers), sizes(buffers.size()) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      sizes[i] = padded(std::max<int64_t>(buffers[i].bytes, 0), alignment);
      if (sizes[i])
        ids.push_back(uint32_t(i));
      commands = std::max(commands, size_t(buffers[i].last) + 1);
    }
  }

  Plan run() {
    Plan plan;
    plan.offsets.assign(buffers.size(), 0);
    if (ids.empty())
      return plan;
    const std::vector<int64_t> live = liveBytes(ids);
    plan.lowerBound = *std::max_element(live.begin(), live.end());
    congestion.assign(buffers.size(), 0);
    for (uint32_t id : ids)
      congestion[id] =
          *std::max_element(live.begin() + buffers[id].first, live.begin() + buffers[id].last + 1);
    const Order rest = splitRest(plan.lowerBound);
    const std::vector<int64_t> deciding = liveBytes(ids);
    bound = *std::max_element(deciding.begin(), deciding.end());
    offsets.assign(buffers.size(), 0);
    placement.work = int64_t(rest.size()) * int64_t(ids.size() + rest.size() / 2);
    search();
    placement.clear();
    for (uint32_t id : ids)
      placement.insert(buffers[id], best[id], sizes[id]);
    for (uint32_t id : rest) {
      best[id] = placement.add(buffers[id], sizes[id]);
      peak = std::max(peak, best[id] + sizes[id]);
    }
    plan.offsets = std::move(best);
    plan.peak = peak;
    return plan;
  }

private:
  using Order = std::vector<uint32_t>;

  /// By command.
  std::vector<int64_t> liveBytes(const Order &of) const {
    std::vector<int64_t> live(commands + 1, 0);
    for (uint32_t id : of) {
      live[buffers[id].first] += sizes[id];
      live[buffers[id].last + 1] -= sizes[id];
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    return live;
  }

  /// Takes those out of `ids`, where there are many, that hardly decide about the peak: the
  /// smallest, and what lives where much less is needed. The larger ones first.
  Order splitRest(int64_t lowerBound) {
    Order rest;
    if (ids.size() <= kManyBuffers)
      return rest;
    // The largest size up to which all together need next to nothing.
    int64_t limit = 0;
    for (int shift = 18; shift >= 8; shift -= 2) {
      Order small;
      std::copy_if(ids.begin(), ids.end(), std::back_inserter(small),
                   [&](uint32_t id) { return sizes[id] <= lowerBound >> shift; });
      const std::vector<int64_t> live = liveBytes(small);
      if (*std::max_element(live.begin(), live.end()) <= lowerBound / kNextToNothing)
        limit = lowerBound >> shift;
    }
    auto decides = [&](uint32_t id) {
      return sizes[id] > limit && congestion[id] > lowerBound / 4 * 3;
    };
    auto middle = std::stable_partition(ids.begin(), ids.end(), decides);
    rest.assign(middle, ids.end());
    ids.erase(middle, ids.end());
    std::sort(rest.begin(), rest.end(), [&](uint32_t a, uint32_t b) { return isLarger(a, b); });
    return rest;
  }

  bool isLarger(uint32_t a, uint32_t b) const {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  }
  int64_t duration(uint32_t id) const { return int64_t(buffers[id].last) - buffers[id].first + 1; }

  /// Largest keys first, larger buffers first among equal ones.
  template <typename Key> Order orderBy(Key key) const {
    Order order = ids;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto x = key(a), y = key(b);
      return x != y ? x > y : isLarger(a, b);
    });
    return order;
  }

  /// Places in this order as far as that may be better than what there is. `above` gets the buffers
  /// that end above the bound. Returns the peak as far as it came.
  int64_t attempt(const Order &order) {
    placement.clear();
    above.clear();
    int64_t reached = 0;
    for (uint32_t id : order) {
      offsets[id] = placement.add(buffers[id], sizes[id]);
      const int64_t end = offsets[id] + sizes[id];
      if (end > bound)
        above.push_back(id);
      reached = std::max(reached, end);
      if (reached >= peak)
        return reached;
    }
    peak = reached;
    best = offsets;
    return reached;
  }

  void search() {
    struct Candidate {
      Order order;
      int64_t reached;
    };
    std::vector<Candidate> candidates;
    auto tryOrder = [&](Order order) {
      if (peak == bound)
        return;
      const int64_t reached = attempt(order);
      candidates.push_back({std::move(order), reached});
    };
    tryOrder(orderBy([&](uint32_t id) { return sizes[id]; }));
    tryOrder(orderBy([&](uint32_t id) { return duration(id); }));
    // Where most is needed there is the least choice.
    tryOrder(orderBy([&](uint32_t id) { return congestion[id]; }));
    tryOrder(orderBy([&](uint32_t id) { return std::pair(congestion[id], duration(id)); }));
    tryOrder(orderBy([&](uint32_t id) { return double(sizes[id]) * double(duration(id)); }));
    tryOrder(orderBy([&](uint32_t id) { return -int64_t(buffers[id].first); }));
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate &a, const Candidate &b) { return a.reached < b.reached; });
    auto isDone = [&] {
      return peak - bound <= bound / kNearEnough || placement.work >= kMostWork;
    };
    while (!isDone())
      for (Candidate &candidate : candidates)
        for (int i = 0; i < kRepairs && !isDone(); ++i) {
          attempt(candidate.order);
          repair(candidate.order);
        }
  }

  /// What ended above the bound is placed in half the time.
  void repair(Order &order) {
    position.resize(buffers.size());
    for (size_t i = 0; i < order.size(); ++i)
      position[order[i]] = 2 * int64_t(i);
    for (uint32_t id : above)
      position[id] = position[id] / 2 - 1;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return position[a] != position[b] ? position[a] < position[b] : a < b;
    });
  }

  const std::vector<PlanBuffer> &buffers;
  std::vector<int64_t> sizes;
  size_t commands = 0;
  /// Of some bytes; without those that are placed last.
  Order ids;
  /// The most bytes that are live in a command of the buffer.
  std::vector<int64_t> congestion;
  /// The most bytes of `ids` that are live in one command.
  int64_t bound = 0;
  Placement placement;
  std::vector<int64_t> offsets, best, position;
  int64_t peak = INT64_MAX;
  Order above;
};

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
  return Planner(buffers, alignment).run();
}

} // namespace trainrt
