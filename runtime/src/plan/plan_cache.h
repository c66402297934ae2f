// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plans of a session, and which of them a batch gets whose counts may be rounded up
// (docs/design/counts.md).
#ifndef TRAINRT_PLAN_PLAN_CACHE_H
#define TRAINRT_PLAN_PLAN_CACHE_H

#include "plan/execution_plan.h"

#include <list>
#include <memory>
#include <vector>

namespace trainrt {

/// What a function costs with these symbol values: its work, or else the product of its counts.
double costOf(const Program &program, const Function &function,
              const std::vector<int64_t> &symbols);

/// The most recently used plans. All that is chosen is a function of the calls so far.
class PlanCache {
public:
  /// A plan that is there or will be when it is asked for.
  struct Key {
    const Function *function = nullptr;
    /// Of the program; 0 where the function does not need one.
    std::vector<int64_t> symbols;
    bool operator==(const Key &) const = default;
  };

  explicit PlanCache(size_t capacity) : capacity(capacity) {}
  /// Makes the counts of `symbols` those of the plan to use: a plan that is there, covers them and
  /// costs hardly more; a new one while there are few; else the cheapest that covers them, or a new
  /// one in the place of the one that was used the longest ago.
  void choose(const Program &program, const Function &function, std::vector<int64_t> &symbols);
  /// The plan is valid until `capacity` others have been asked for.
  Status get(const Program &program, const Function &function, const std::vector<int64_t> &symbols,
             const ExecutionPlan *&plan);
  void setCapacity(size_t most) { capacity = most; }
  size_t mostPlans() const { return capacity; }
  /// How many have been made so far.
  int64_t made() const { return count; }

  /// The most recently used first.
  std::vector<Key> keys() const;
  /// In place of what is there.
  void restore(std::vector<Key> keys);

  /// More plans are not made as long as another one covers what a batch needs.
  static constexpr size_t few = 16;
  /// So much more a plan may cost than one of its own would.
  static constexpr double slack = 1.05;

private:
  struct Entry {
    Key key;
    double cost = -1; ///< unknown
    std::unique_ptr<ExecutionPlan> plan;
  };
  using Entries = std::list<Entry>;
  static Key keyOf(const Function &function, const std::vector<int64_t> &symbols);
  Entries::iterator find(const Key &key);
  Entries::iterator cheapestCover(const Program &program, const Key &key);
  void add(Key key, double cost);

  size_t capacity;
  Entries entries; ///< most recent first
  int64_t count = 0;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_PLAN_CACHE_H
