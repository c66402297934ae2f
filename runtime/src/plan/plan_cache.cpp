// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entries are few, so all of them are looked at. Choosing adds an entry without its plan, which is
// made when it is first asked for: so a checkpoint can restore what was chosen before.

#include "plan/plan_cache.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace trainrt {

double costOf(const Program &program, const Function &function,
              const std::vector<int64_t> &symbols) {
  // Where nothing is compared with variants, plans of more counts are chosen by these alone.
  const bool compares = function.base >= 0 || !function.variants.empty();
  if (compares && !function.flops.empty()) {
    thread_local std::vector<int64_t> values;
    int64_t flops;
    return evaluateInOrder(program, function.flops, symbols, values, flops)
               ? double(flops)
               : std::numeric_limits<double>::infinity();
    // Infinity: never cheaper than another, and its own plan then tells the overflow.
  }
  // In floating point: only compared.
  double product = 1;
  for (uint32_t symbol : function.counts)
    product *= double(symbols[symbol]);
  return product;
}

/// Symbols that the function does not use are 0, so that they make no other key.
PlanCache::Key PlanCache::keyOf(const Function &function, const std::vector<int64_t> &symbols) {
  Key key{&function, symbols};
  for (size_t i = 0; i < key.symbols.size(); ++i)
    if (!function.symbols[i])
      key.symbols[i] = 0;
  return key;
}

PlanCache::Entries::iterator PlanCache::find(const Key &key) {
  return std::find_if(entries.begin(), entries.end(),
                      [&](const Entry &entry) { return entry.key == key; });
}

/// The cheapest of the entries that fit: equal sizes, and no count smaller than needed. Ties go by
/// the symbols, not by the order of use: the same plan after a restored checkpoint.
PlanCache::Entries::iterator PlanCache::cheapestCover(const Program &program, const Key &key) {
  auto covers = [&](const Entry &entry) {
    if (entry.key.function != key.function)
      return false;
    assert(entry.key.symbols.size() == key.symbols.size() && "all are of one program");
    for (size_t i = 0; i < key.symbols.size(); ++i)
      if (program.symbols[i].counts ? entry.key.symbols[i] < key.symbols[i]
                                    : entry.key.symbols[i] != key.symbols[i])
        return false;
    return true;
  };
  auto best = entries.end();
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    if (!covers(*it))
      continue;
    // Entries that a checkpoint restored have no cost yet.
    if (it->cost < 0)
      it->cost = costOf(program, *it->key.function, it->key.symbols);
    if (best == entries.end() || it->cost < best->cost ||
        (it->cost == best->cost && it->key.symbols < best->key.symbols))
      best = it;
  }
  return best;
}

/// The least recently used one goes: entries are kept in the order of use.
void PlanCache::add(Key key, double cost) {
  if (entries.size() >= capacity)
    entries.pop_back();
  entries.push_front({std::move(key), cost, nullptr});
}

/// Reuses an entry whose cost is within `slack` of the exact one, so that batches with other counts
/// do not each make a plan. Which one depends on earlier batches alone, never on time.
void PlanCache::choose(const Program &program, const Function &function,
                       std::vector<int64_t> &symbols) {
  // Without counts the sizes are what they are.
  if (function.counts.empty())
    return;
  Key key = keyOf(function, symbols);
  auto chosen = find(key);
  if (chosen == entries.end()) {
    const double cost = costOf(program, function, symbols);
    chosen = cheapestCover(program, key);
    if (chosen == entries.end() ||
        (chosen->cost > slack * cost && entries.size() < std::min(few, capacity))) {
      if (entries.size() >= few)
        entries.pop_back();
      add(std::move(key), cost);
      return;
    }
  }
  // To the front: used last.
  entries.splice(entries.begin(), entries, chosen);
  for (uint32_t symbol : function.counts)
    symbols[symbol] = chosen->key.symbols[symbol];
}

/// The pointer is valid until the entry falls out of the cache.
Status PlanCache::get(const Program &program, const Function &function,
                      const std::vector<int64_t> &symbols, const ExecutionPlan *&plan) {
  Key key = keyOf(function, symbols);
  auto found = find(key);
  std::unique_ptr<ExecutionPlan> made;
  // Made before anything changes: if it fails, the cache is as it was.
  if (found == entries.end() || !found->plan) {
    made = std::make_unique<ExecutionPlan>();
    TRAINRT_TRY(makePlan(program, function, symbols, *made));
    ++count;
  }
  if (found == entries.end())
    add(std::move(key), -1);
  else
    entries.splice(entries.begin(), entries, found);
  Entry &entry = entries.front();
  if (made)
    entry.plan = std::move(made);
  plan = entry.plan.get();
  return {};
}

std::vector<PlanCache::Key> PlanCache::keys() const {
  std::vector<Key> list;
  for (const Entry &entry : entries)
    list.push_back(entry.key);
  return list;
}

/// Plans are made again when they are asked for; the order of use is that of the keys.
void PlanCache::restore(std::vector<Key> keys) {
  entries.clear();
  for (Key &key : keys)
    if (entries.size() < capacity)
      entries.push_back({std::move(key), -1, nullptr});
}

} // namespace trainrt
