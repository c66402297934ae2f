// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks are of one machine, a node: between these bytes go by quicker links.
#ifndef TRAINRT_COMM_NODES_H
#define TRAINRT_COMM_NODES_H

#include "format/status.h"

#include <cstdint>
#include <span>
#include <string>

namespace trainrt {

/// What a rank knows of its node.
struct NodePlace {
  std::string host;
  int64_t asked = 0; ///< ranks of each node, as a person says; 0: not said
  /// Ranks of this one and which it is among them, as a launcher says; 0 and -1: not said.
  int64_t local = 0, localRank = -1;
};

/// Ranks of each node as all ranks find it, by rank: as they are asked for, else as the launcher
/// says, else as their hosts have one name. The number of ranks where there is one node, or where
/// nodes are not of as many neighbours each; `told` says that for people, and is empty for one
/// node. InvalidArgument where what is asked for cannot be.
Status findNodes(std::span<const NodePlace> ranks, int &ranksPerNode, std::string &told);

} // namespace trainrt

#endif // TRAINRT_COMM_NODES_H
