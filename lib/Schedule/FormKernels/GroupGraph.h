// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which group reads which while groups still grow: kept in a topological order, so that a question
// looks only at what stands between the two groups (D. J. Pearce, P. H. J. Kelly, "A dynamic
// topological sort algorithm for directed acyclic graphs", 2006).

#ifndef TRAINC_SCHEDULE_FORMKERNELS_GROUPGRAPH_H
#define TRAINC_SCHEDULE_FORMKERNELS_GROUPGRAPH_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <utility>

namespace trainc {

/// An acyclic graph of groups, numbered from 0 in the order of `add`.
class GroupGraph {
public:
  int add() {
    int g = sources.size();
    index.push_back(order.size());
    order.push_back(g);
    sources.emplace_back();
    readers.emplace_back();
    marks.push_back(0);
    return g;
  }
  /// `reader` reads `source`, which does not depend on it.
  void addSource(int reader, int source) {
    if (llvm::is_contained(sources[reader], source))
      return;
    if (index[source] > index[reader])
      moveBehind(reader, source);
    sources[reader].push_back(source);
    readers[source].push_back(reader);
  }
  /// Whether `from` is `target` or needs a result of it.
  bool dependsOn(int from, int target) {
    ++mark;
    llvm::SmallVector<int, 16> work{from};
    while (!work.empty()) {
      int g = work.pop_back_val();
      if (g == target)
        return true;
      if (index[g] < index[target] || std::exchange(marks[g], mark) == mark)
        continue;
      work.append(sources[g].begin(), sources[g].end());
    }
    return false;
  }
  /// `other` becomes part of `kept`: neither depends on the other but by reading it at once.
  void merge(int kept, int other) {
    for (auto [x, y] : {std::pair(kept, other), std::pair(other, kept)}) {
      llvm::erase(sources[x], y);
      llvm::erase(readers[x], y);
    }
    auto [early, late] =
        index[kept] < index[other] ? std::pair(kept, other) : std::pair(other, kept);
    moveBehind(early, late);
    // All that is read by either stands before both, all that reads either behind.
    for (int source : std::exchange(sources[other], {})) {
      llvm::erase(readers[source], other);
      addSource(kept, source);
    }
    for (int reader : std::exchange(readers[other], {})) {
      llvm::erase(sources[reader], other);
      addSource(reader, kept);
    }
  }

private:
  /// Moves `g` and what depends on it to places just behind `pivot`, which stands later and does
  /// not depend on it.
  void moveBehind(int g, int pivot) {
    unsigned first = index[g], last = index[pivot];
    ++mark;
    llvm::SmallVector<int, 16> work{g};
    while (!work.empty()) {
      int next = work.pop_back_val();
      if (index[next] > last || std::exchange(marks[next], mark) == mark)
        continue;
      work.append(readers[next].begin(), readers[next].end());
    }
    llvm::SmallVector<int> moved;
    unsigned place = first;
    for (unsigned i = first; i <= last; ++i) {
      if (marks[order[i]] == mark)
        moved.push_back(order[i]);
      else
        order[place++] = order[i];
    }
    llvm::copy(moved, order.begin() + place);
    for (unsigned i = first; i <= last; ++i)
      index[order[i]] = i;
  }

  llvm::SmallVector<llvm::SmallVector<int>, 0> sources, readers;
  /// Groups in a topological order, and the place of each in it.
  llvm::SmallVector<int> order;
  llvm::SmallVector<unsigned> index;
  /// Of the last walk that came by.
  llvm::SmallVector<unsigned> marks;
  unsigned mark = 0;
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_GROUPGRAPH_H
