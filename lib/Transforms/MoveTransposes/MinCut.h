// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cheapest way to part the nodes of a graph in two (Ford and Fulkerson 1956; the flow by
// Dinitz 1970).
#ifndef TRAINC_TRANSFORMS_MOVETRANSPOSES_MINCUT_H
#define TRAINC_TRANSFORMS_MOVETRANSPOSES_MINCUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace trainc {

class MinCut {
public:
  using Node = uint32_t;
  /// On the side of the source and on that of the sink, whatever it costs.
  static constexpr Node kSource = 0, kSink = 1;
  /// The cost of what must not be.
  static constexpr double kNever = 1e300;

  Node addNode();
  /// `cost` where `from` is on the side of the source and `to` on that of the sink.
  void addCost(Node from, Node to, double cost);
  /// Of each node whether it is on the side of the source. Of the cheapest ways the one with the
  /// fewest nodes there.
  std::vector<bool> solve();

private:
  struct Edge {
    Node to;
    double left;
  };
  bool findLevels();
  /// Pushes what fits along one way of rising levels; returns how much.
  double push();

  /// Edge 2i and its reverse 2i + 1.
  std::vector<Edge> edges;
  std::vector<llvm::SmallVector<uint32_t>> edgesOf = {{}, {}};
  std::vector<int> levels;
  std::vector<uint32_t> next;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_MOVETRANSPOSES_MINCUT_H
