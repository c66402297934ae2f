// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random growth of a graph of groups: every answer against a search through all edges.

#include "lib/Schedule/FormKernels/GroupGraph.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace trainc;

namespace {
/// The same graph, asked by walking it.
struct Plain {
  std::vector<std::set<int>> sources;

  bool dependsOn(int from, int target) const {
    std::set<int> seen;
    std::vector<int> work{from};
    while (!work.empty()) {
      int g = work.back();
      work.pop_back();
      if (g == target)
        return true;
      if (seen.insert(g).second)
        work.insert(work.end(), sources[g].begin(), sources[g].end());
    }
    return false;
  }
  /// Whether `from` reaches `target` through a third one.
  bool dependsIndirectly(int from, int target) const {
    for (int source : sources[from])
      if (source != target && dependsOn(source, target))
        return true;
    return false;
  }
  void merge(int kept, int other) {
    sources[kept].insert(sources[other].begin(), sources[other].end());
    sources[other].clear();
    for (auto &list : sources)
      if (list.erase(other))
        list.insert(kept);
    sources[kept].erase(kept);
  }
};
} // namespace

TEST(GroupGraph, AnswersAsASearchDoes) {
  int merges = 0, backwards = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    GroupGraph graph;
    Plain plain;
    std::vector<int> alive;
    auto pick = [&] { return alive[random() % alive.size()]; };
    for (int step = 0; step < 250; ++step) {
      unsigned what = random() % 8;
      if (alive.size() < 3 || what < 3) {
        int g = graph.add();
        ASSERT_EQ(size_t(g), plain.sources.size());
        plain.sources.emplace_back();
        alive.push_back(g);
        continue;
      }
      int a = pick(), b = pick();
      if (a == b)
        continue;
      if (what < 6) {
        // An older group may come to read a younger one.
        if (plain.dependsOn(b, a))
          continue;
        backwards += a < b;
        graph.addSource(a, b);
        plain.sources[a].insert(b);
      } else if (!plain.dependsIndirectly(a, b) && !plain.dependsIndirectly(b, a)) {
        graph.merge(a, b);
        plain.merge(a, b);
        alive.erase(std::find(alive.begin(), alive.end(), b));
        ++merges;
      }
      for (int from : alive)
        for (int target : alive)
          ASSERT_EQ(graph.dependsOn(from, target), plain.dependsOn(from, target))
              << "seed " << seed << " step " << step << ": " << from << " on " << target;
    }
  }
  EXPECT_GT(merges, 100);
  EXPECT_GT(backwards, 100);
}
