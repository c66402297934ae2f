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
constexpr int64_t kMostWork = 8'000'000;
/// What an insertion costs, as many looks.
constexpr int64_t kWorkOfInsert = 16;
/// Near enough: a part of the bound that is not worth the time.
constexpr int64_t kNearEnough = 256;
/// With more buffers, those that hardly decide are placed last first, until that is not enough.
constexpr size_t kManyBuffers = 500;
constexpr int64_t kNextToNothing = 400;
/// An order is repaired so many times before the next one has its turn.
constexpr int kRepairs = 4;

/// Buffers with places, by offset; also those of each window of the commands, since most buffers
/// live shortly and meet few others.
class Placement {
public:
  /// For `buffers` of these sizes, in commands below `commands`.
  Placement(const std::vector<PlanBuffer> &buffers, const std::vector<int64_t> &sizes,
            size_t commands)
      : sizes(sizes), lives(buffers.size()), ranges(buffers.size()),
        overlapping(buffers.size() + 1), windows(commands / kStride + 1) {
    for (size_t i = 0; i < buffers.size(); ++i)
      lives[i] = {buffers[i].first, buffers[i].last};
  }

  void clear() {
    all.clear();
    for (std::vector<uint32_t> &window : windows)
      window.clear();
  }
  /// The buffer gets the tightest gap; returns its end.
  int64_t add(uint32_t id) {
    const Life life = lives[id];
    const size_t first = size_t(life.first) / kStride, last = size_t(life.last) / kStride;
    const std::vector<uint32_t> &placed = last <= first + 1 ? windows[first] : all;
    size_t found = 0;
    for (uint32_t other : placed) { // without branches
      overlapping[found] = other;
      found += size_t(lives[other].last >= life.first) & size_t(lives[other].first <= life.last);
    }
    int64_t best = -1, bestGap = INT64_MAX, end = 0;
    for (size_t i = 0; i < found; ++i) {
      const Range &range = ranges[overlapping[i]];
      const int64_t gap = range.offset - end;
      if (gap >= sizes[id] && gap < bestGap) {
        bestGap = gap;
        best = end;
      }
      end = std::max(end, range.end);
    }
    const int64_t offset = best >= 0 ? best : end;
    work += int64_t(placed.size() + found) + kWorkOfInsert * int64_t(last - first + 3);
    ranges[id] = {offset, offset + sizes[id]};
    insert(all, id);
    for (size_t i = first - (first > 0); i <= last; ++i)
      insert(windows[i], id);
    return offset + sizes[id];
  }
  int64_t offset(uint32_t id) const { return ranges[id].offset; }

  /// What it took, in looks at a placed buffer.
  int64_t work = 0;

private:
  /// A window begins with each stride and is two of them long.
  static constexpr size_t kStride = 64;

  struct Life {
    int32_t first, last;
  };
  struct Range {
    int64_t offset, end;
  };

  void insert(std::vector<uint32_t> &list, uint32_t id) {
    list.insert(std::upper_bound(
                    list.begin(), list.end(), ranges[id].offset,
                    [&](int64_t offset, uint32_t other) { return offset < ranges[other].offset; }),
                id);
  }

  const std::vector<int64_t> &sizes;
  std::vector<Life> lives;
  std::vector<Range> ranges;
  std::vector<uint32_t> overlapping;
  std::vector<uint32_t> all;
  std::vector<std::vector<uint32_t>> windows;
};

class Planner {
public:
  Planner(const std::vector<PlanBuffer> &buffers, int64_t alignment)
      : buffers(buffers), sizes(buffers.size()), commands(countCommands(buffers)),
        placement(buffers, sizes, commands) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      sizes[i] = padded(std::max<int64_t>(buffers[i].bytes, 0), alignment);
      if (sizes[i])
        ids.push_back(uint32_t(i));
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
    // Few orders of many buffers can be tried, so those that decide come before the others.
    const Order everything = ids;
    const Order rest = splitRest(plan.lowerBound);
    if (!rest.empty() && !ids.empty()) {
      search(kMostWork / 2);
      bestOrder.insert(bestOrder.end(), rest.begin(), rest.end());
      ids = everything;
      peak = INT64_MAX;
    }
    search(kMostWork);
    for (uint32_t id : ids)
      plan.offsets[id] = best[id];
    plan.peak = peak;
    return plan;
  }

private:
  using Order = std::vector<uint32_t>;

  static size_t countCommands(const std::vector<PlanBuffer> &buffers) {
    size_t commands = 0;
    for (const PlanBuffer &buffer : buffers)
      commands = std::max(commands, size_t(buffer.last) + 1);
    return commands;
  }

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
  int64_t mostLive(const Order &of) const {
    const std::vector<int64_t> live = liveBytes(of);
    return *std::max_element(live.begin(), live.end());
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
      if (mostLive(small) <= lowerBound / kNextToNothing)
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
      const int64_t end = placement.add(id);
      if (end > bound)
        above.push_back(id);
      reached = std::max(reached, end);
      if (reached >= peak)
        return reached;
    }
    peak = reached;
    best.resize(buffers.size());
    for (uint32_t id : ids)
      best[id] = placement.offset(id);
    bestOrder = order;
    return reached;
  }

  /// Finds places for `ids`, beginning with the best order so far, if there is one.
  void search(int64_t mostWork) {
    bound = mostLive(ids);
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
    auto isDone = [&] { return peak - bound <= bound / kNearEnough || placement.work >= mostWork; };
    if (!bestOrder.empty()) {
      tryOrder(bestOrder);
      if (isDone())
        return;
    }
    tryOrder(orderBy([&](uint32_t id) { return sizes[id]; }));
    tryOrder(orderBy([&](uint32_t id) { return duration(id); }));
    // Where most is needed there is the least choice.
    tryOrder(orderBy([&](uint32_t id) { return congestion[id]; }));
    tryOrder(orderBy([&](uint32_t id) { return std::pair(congestion[id], duration(id)); }));
    tryOrder(orderBy([&](uint32_t id) { return double(sizes[id]) * double(duration(id)); }));
    tryOrder(orderBy([&](uint32_t id) { return -int64_t(buffers[id].first); }));
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate &a, const Candidate &b) { return a.reached < b.reached; });
    while (!isDone())
      for (Candidate &candidate : candidates)
        for (int i = 0; i < kRepairs && !isDone(); ++i) {
          attempt(candidate.order);
          repair(candidate.order);
        }
  }

  /// What ended above the bound is placed in half the time.
  void repair(Order &order) {
    isAbove.assign(buffers.size(), false);
    for (uint32_t id : above)
      isAbove[id] = true;
    Order repaired;
    repaired.reserve(order.size());
    size_t late = 0; // the next one of those that come earlier
    auto addLate = [&](size_t before) {
      for (; late < before; ++late)
        if (isAbove[order[late]])
          repaired.push_back(order[late]);
    };
    for (size_t i = 0; i < order.size(); ++i) {
      addLate(std::min(2 * i + 1, order.size()));
      if (!isAbove[order[i]])
        repaired.push_back(order[i]);
    }
    order = std::move(repaired);
  }

  const std::vector<PlanBuffer> &buffers;
  std::vector<int64_t> sizes;
  size_t commands;
  Placement placement;
  /// Of some bytes; those that are placed.
  Order ids;
  /// The most bytes that are live in a command of the buffer.
  std::vector<int64_t> congestion;
  /// The most bytes of `ids` that are live in one command.
  int64_t bound = 0;
  std::vector<int64_t> best;
  std::vector<bool> isAbove;
  Order bestOrder;
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
