// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Best fit on a skyline: over the commands lies the line up to which the arena is in use. In a
// valley of it, among the buffers whose lives fit between its walls, the first one by some order is
// placed on the ground; where none fits the valley is filled up to its lower wall. The order
// decides the quality, and none is best for every graph: several are tried in turn, each time with
// what ended above the bound moved forward, until a plan is near enough or enough has been tried.
// What is tried depends on the buffers only.

#include "format/memory/arena_plan.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

namespace trainrt {

namespace {

/// How many looks at a buffer or a part of the line are taken before the best plan so far has to
/// do: some milliseconds.
constexpr int64_t kMostWork = 4'000'000;
/// Near enough: a part of the bound that is not worth the time.
constexpr int64_t kNearEnough = 256;

/// A buffer of some bytes.
struct Life {
  int32_t first, last;
  int64_t size;
  uint32_t id;
};

/// Indices of lives, those that are placed early first.
using Order = std::vector<uint32_t>;

class Skyline {
public:
  /// `lives` are sorted by their first command.
  /// Memory and time of building it: lives plus commands.
  Skyline(const std::vector<Life> &lives, int32_t commands)
      : lives(lives), commands(commands), starts(size_t(commands) + 1), endOf(size_t(commands)),
        beginOf(size_t(commands)), heights(size_t(commands)), ranks(lives.size()),
        groups(lives.size() / kGroup + 1), offsets(lives.size()) {
    for (const Life &life : lives)
      ++starts[size_t(life.first) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
  }

  /// Places everything; returns the peak.
  int64_t place(const Order &order) {
    // Rank 0 is placed first.
    assert(order.size() == lives.size() && "every life once");
    for (size_t i = 0; i < order.size(); ++i)
      ranks[order[i]] = uint32_t(i);
    for (size_t group = 0; group < groups.size(); ++group)
      update(group);
    assert((commands > 0 || lives.empty()) && "every life has a command");
    int64_t peak = 0;
    int32_t begin = 0;
    setLine(begin, commands - 1, 0);
    // Each turn steps down, places a life, or raises a valley to a wall; a step down is followed by
    // one of the others, and a raise leaves one piece less.
    for (size_t placed = 0; placed < lives.size();) {
      // Down to a valley; in which of them first makes no difference, as no life fits into two.
      const int32_t end = endOf[size_t(begin)];
      const int64_t height = heights[size_t(begin)];
      // The sides of the arena are infinitely high walls: the walk never leaves the line, and a
      // line of one piece is never raised.
      const int64_t before = begin > 0 ? heights[size_t(beginOf[size_t(begin) - 1])] : INT64_MAX;
      const int64_t after = end + 1 < commands ? heights[size_t(end) + 1] : INT64_MAX;
      if (before < height || after < height) {
        begin = before < height ? beginOf[size_t(begin) - 1] : end + 1;
        continue;
      }
      // A neighbour of equal height first joins: lives that reach over both would not be found.
      const size_t found = before == height || after == height ? kNone : find(begin, end);
      if (found == kNone) {
        // Filled up to its lower wall it is one piece with what stands there (with both, if they
        // are equal); the room between is lost.
        if (before <= after)
          begin = beginOf[size_t(begin) - 1];
        setLine(begin, after <= before ? endOf[size_t(end) + 1] : end, std::min(before, after));
        continue;
      }
      const Life &life = lives[found];
      assert(begin <= life.first && life.last <= end && "it lies on one piece of the line");
      offsets[found] = height;
      peak = std::max(peak, height + life.size);
      if (life.first > begin)
        setLine(begin, life.first - 1, height);
      setLine(life.first, life.last, height + life.size);
      if (life.last < end)
        setLine(life.last + 1, end, height);
      ranks[found] = kPlaced;
      update(found / kGroup);
      ++placed;
    }
    return peak;
  }
  int64_t offset(size_t life) const { return offsets[life]; }

  /// What it took, in looks.
  int64_t work = 0;

private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr uint32_t kPlaced = UINT32_MAX;
  /// So many lives with neighbouring first commands are left out of a search together.
  static constexpr size_t kGroup = 32;
  static constexpr int64_t kWorkOfFind = 16, kWorkOfLine = 4;

  /// The lowest rank and the earliest last command of those that are not placed.
  struct Group {
    uint32_t rank;
    int32_t last;
  };

  /// Called when a life of the group has been placed, so that its minima are exact in every search.
  void update(size_t group) {
    Group &left = groups[group] = {kPlaced, INT32_MAX};
    for (size_t i = group * kGroup; i < std::min(lives.size(), (group + 1) * kGroup); ++i)
      if (ranks[i] != kPlaced) {
        left.rank = std::min(left.rank, ranks[i]);
        left.last = std::min(left.last, lives[i].last);
      }
    work += int64_t(kGroup);
  }

  /// The first one by rank of those that live in commands `begin`..`end` only.
  /// Skips groups in which nothing can be better than what is found: no rank that is lower, or none
  /// that ends in time. The result is that of looking at each.
  size_t find(int32_t begin, int32_t end) {
    size_t found = kNone;
    uint32_t rank = kPlaced;
    auto look = [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i)
        if (ranks[i] < rank && lives[i].last <= end) {
          rank = ranks[i];
          found = i;
        }
      work += int64_t(to - from);
    };
    // Sorted by first command, those that begin within the valley are one range.
    const size_t from = starts[size_t(begin)], to = starts[size_t(end) + 1];
    const size_t firstGroup = (from + kGroup - 1) / kGroup, lastGroup = to / kGroup;
    work += kWorkOfFind;
    if (firstGroup >= lastGroup) {
      look(from, to);
      return found;
    }
    // Parts of groups at both ends are looked at one by one: their group has lives that begin
    // outside.
    look(from, firstGroup * kGroup);
    for (size_t group = firstGroup; group < lastGroup; ++group)
      if (groups[group].rank < rank && groups[group].last <= end)
        look(group * kGroup, (group + 1) * kGroup);
    look(lastGroup * kGroup, to);
    work += int64_t(lastGroup - firstGroup);
    return found;
  }

  /// Only the ends of a piece are kept up to date: what lies between is never asked.
  void setLine(int32_t begin, int32_t end, int64_t height) {
    endOf[size_t(begin)] = end;
    beginOf[size_t(end)] = begin;
    heights[size_t(begin)] = height;
    work += kWorkOfLine;
  }

  const std::vector<Life> &lives;
  int32_t commands;
  /// How many lives start before a command.
  std::vector<size_t> starts;
  /// The skyline's pieces: the last command by the first one, that by the last one, and the height
  /// by the first one. Other entries are of pieces that are gone.
  std::vector<int32_t> endOf, beginOf;
  std::vector<int64_t> heights;
  /// Places in the order, until it is placed.
  std::vector<uint32_t> ranks;
  std::vector<Group> groups;
  std::vector<int64_t> offsets;
};

/// Empty buffers need no room and stay at 0. The order is total (by id last), so that the plan does
/// not depend on the sort.
std::vector<Life> livesOf(const std::vector<PlanBuffer> &buffers, int64_t alignment) {
  std::vector<Life> lives;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].bytes > 0)
      lives.push_back(
          {buffers[i].first, buffers[i].last, padded(buffers[i].bytes, alignment), uint32_t(i)});
  std::sort(lives.begin(), lives.end(), [](const Life &a, const Life &b) {
    return a.first != b.first ? a.first < b.first : a.id < b.id;
  });
  return lives;
}

/// The most bytes that are live in one command of each life.
/// n log n by a table of maxima over powers of two, asked twice a life.
std::vector<int64_t> congestionOf(const std::vector<Life> &lives, int32_t commands) {
  std::vector<int64_t> live(size_t(commands) + 1, 0);
  for (const Life &life : lives) {
    live[size_t(life.first)] += life.size;
    live[size_t(life.last) + 1] -= life.size;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  // Of 1, 2, 4 ... commands from each one on: two of them cover a life.
  std::vector<std::vector<int64_t>> most{std::move(live)};
  for (size_t length = 1; 2 * length < most[0].size(); length *= 2) {
    const std::vector<int64_t> &half = most.back();
    std::vector<int64_t> twice(half.size() - length);
    for (size_t i = 0; i < twice.size(); ++i)
      twice[i] = std::max(half[i], half[i + length]);
    most.push_back(std::move(twice));
  }
  std::vector<int64_t> congestion;
  for (const Life &life : lives) {
    const size_t to = size_t(life.last) + 1;
    // Both ranges overlap, which does no harm to a maximum.
    const size_t power = size_t(std::bit_width(to - size_t(life.first))) - 1;
    congestion.push_back(
        std::max(most[power][size_t(life.first)], most[power][to - (size_t(1) << power)]));
  }
  return congestion;
}

class Planner {
public:
  Planner(const std::vector<PlanBuffer> &buffers, int64_t alignment)
      : buffers(buffers), lives(livesOf(buffers, alignment)) {}

  Plan run() {
    Plan plan;
    plan.offsets.assign(buffers.size(), 0);
    if (lives.empty())
      return plan;
    int32_t commands = 0;
    for (const Life &life : lives)
      commands = std::max(commands, life.last + 1);
    congestion = congestionOf(lives, commands);
    // No plan is below it: all of these bytes are live at once.
    const int64_t bound = *std::max_element(congestion.begin(), congestion.end());
    plan.peak = INT64_MAX;
    plan.lowerBound = bound;

    // Where most is needed there is the least choice; large ones and long ones leave little either.
    const std::function<Order()> first[] = {
        [&] {
          return orderBy([&](uint32_t i) {
            return std::pair(congestion[i], double(lives[i].size) * double(duration(i)));
          });
        },
        [&] {
          return orderBy(
              [&](uint32_t i) { return double(lives[i].size) * std::sqrt(double(duration(i))); });
        },
        [&] { return orderBy([&](uint32_t i) { return std::pair(congestion[i], duration(i)); }); },
        [&] { return orderBy([&](uint32_t i) { return duration(i); }); },
    };
    // Each order is mended on its own, in turns: which of them is the best one shows late.
    Order orders[std::size(first)];
    Skyline skyline(lives, commands);
    for (size_t turn = 0;; turn = (turn + 1) % std::size(orders)) {
      Order &order = orders[turn];
      if (order.empty())
        order = first[turn]();
      const int64_t peak = skyline.place(order);
      if (peak < plan.peak) {
        plan.peak = peak;
        for (size_t i = 0; i < lives.size(); ++i)
          plan.offsets[lives[i].id] = skyline.offset(i);
      }
      // Counted looks, no clock: the same plan on a slow machine as on a fast one.
      if (plan.peak - bound <= bound / kNearEnough || skyline.work >= kMostWork)
        return plan;
      repair(order, [&](uint32_t i) { return skyline.offset(i) + lives[i].size > bound; });
    }
  }

private:
  int64_t duration(uint32_t i) const { return int64_t(lives[i].last) - lives[i].first + 1; }

  /// Largest keys first, larger buffers first among equal ones.
  template <typename Key> Order orderBy(Key key) const {
    Order order(lives.size());
    std::iota(order.begin(), order.end(), 0);
    // Ties go by size, then index: a total order, whatever the sort does.
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto x = key(a), y = key(b);
      if (x != y)
        return x > y;
      return lives[a].size != lives[b].size ? lives[a].size > lives[b].size : a < b;
    });
    return order;
  }

  /// What ended above the bound comes in half the time.
  template <typename IsAbove> static void repair(Order &order, IsAbove isAbove) {
    Order repaired;
    repaired.reserve(order.size());
    size_t late = 0; // the next one of those that come earlier
    for (size_t i = 0; i < order.size(); ++i) {
      // What is above among the first 2i + 1 comes before the i-th of the others: the place of each
      // is halved, their order among themselves stays.
      for (; late < std::min(2 * i + 1, order.size()); ++late)
        if (isAbove(order[late]))
          repaired.push_back(order[late]);
      if (!isAbove(order[i]))
        repaired.push_back(order[i]);
    }
    order = std::move(repaired);
  }

  const std::vector<PlanBuffer> &buffers;
  std::vector<Life> lives;
  std::vector<int64_t> congestion;
};

} // namespace

bool leavesRoomBeside(std::vector<int64_t> touched) {
  // Bytes that a GPU moves in some microseconds, within which the next command can start.
  constexpr int64_t small = 16 << 20;
  if (touched.empty())
    return false;
  // The median: a few large commands do not matter.
  auto middle = touched.begin() + int64_t(touched.size()) / 2;
  std::nth_element(touched.begin(), middle, touched.end());
  return *middle <= small;
}

Plan planMemory(const std::vector<PlanBuffer> &buffers, int64_t alignment) {
  return Planner(buffers, alignment).run();
}

} // namespace trainrt
