// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lib/Transforms/MoveTransposes/MinCut.h"

#include <algorithm>
#include <cassert>

using namespace trainc;

MinCut::Node MinCut::addNode() {
  edgesOf.emplace_back();
  return Node(edgesOf.size() - 1);
}

void MinCut::addCost(Node from, Node to, double cost) {
  assert(cost >= 0 && "a cut would have no minimum");
  if (from == to || cost == 0)
    return;
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, cost});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

bool MinCut::findLevels() {
  levels.assign(edgesOf.size(), -1);
  levels[kSource] = 0;
  std::vector<Node> queue = {kSource};
  for (size_t at = 0; at < queue.size(); ++at)
    for (uint32_t edge : edgesOf[queue[at]])
      if (edges[edge].left > 0 && levels[edges[edge].to] < 0) {
        levels[edges[edge].to] = levels[queue[at]] + 1;
        queue.push_back(edges[edge].to);
      }
  return levels[kSink] >= 0;
}

double MinCut::push() {
  // Without recursion: ways are as long as nets are deep.
  llvm::SmallVector<uint32_t> way;
  Node at = kSource;
  while (at != kSink) {
    bool advanced = false;
    for (uint32_t &i = next[at]; i < edgesOf[at].size(); ++i) {
      const uint32_t edge = edgesOf[at][i];
      if (edges[edge].left > 0 && levels[edges[edge].to] == levels[at] + 1) {
        way.push_back(edge);
        at = edges[edge].to;
        advanced = true;
        break;
      }
    }
    if (advanced)
      continue;
    if (way.empty())
      return 0;
    // A dead end: never again in this phase.
    at = edges[way.pop_back_val() ^ 1].to;
    ++next[at];
  }
  double most = kNever;
  for (uint32_t edge : way)
    most = std::min(most, edges[edge].left);
  for (uint32_t edge : way) {
    edges[edge].left -= most;
    edges[edge ^ 1].left += most;
  }
  return most;
}

std::vector<bool> MinCut::solve() {
  while (findLevels()) {
    next.assign(edgesOf.size(), 0);
    while (push() > 0) {
    }
  }
  // What the source still reaches.
  std::vector<bool> inSource(edgesOf.size());
  for (size_t node = 0; node < edgesOf.size(); ++node)
    inSource[node] = levels[node] >= 0;
  return inSource;
}
