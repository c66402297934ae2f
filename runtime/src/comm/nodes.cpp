// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ranks look at the same words, and so come to the same nodes.

#include "comm/nodes.h"

#include <algorithm>

namespace trainrt {

namespace {

/// Launchers may deal ranks out to nodes in turn: then those of a node are no neighbours.
bool launcherAgrees(std::span<const NodePlace> ranks) {
  const int64_t each = ranks.front().local, all = int64_t(ranks.size());
  if (each < 1 || all % each)
    return false;
  for (int64_t rank = 0; rank < all; ++rank)
    if (ranks[size_t(rank)].local != each || ranks[size_t(rank)].localRank != rank % each)
      return false;
  return true;
}

/// Ranks of a host are behind each other, as many as of the first one; 0: they are not.
int64_t ofHosts(std::span<const NodePlace> ranks) {
  const auto isOther = [&](size_t rank) { return ranks[rank].host != ranks[rank - 1].host; };
  size_t each = 1;
  while (each < ranks.size() && !isOther(each))
    ++each;
  for (size_t rank = each; rank < ranks.size(); ++rank)
    if (isOther(rank) != (rank % each == 0))
      return 0;
  // One that comes again further behind is no node of its own.
  for (size_t rank = each; rank < ranks.size(); rank += each)
    for (size_t before = 0; before < rank; before += each)
      if (ranks[rank].host == ranks[before].host)
        return 0;
  return ranks.size() % each ? 0 : int64_t(each);
}

} // namespace

/// What a person says holds against what can be seen, so that processes of one machine can stand
/// for several.
Status findNodes(std::span<const NodePlace> ranks, int &ranksPerNode, std::string &told) {
  const auto all = int64_t(ranks.size());
  int64_t each = ranks.front().asked;
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].asked != each)
      return fail(Code::InvalidArgument,
                  "the ranks of a run are of the same nodes, but rank 0 was told of nodes of ",
                  each, " ranks and rank ", rank, " of ", ranks[rank].asked);
  if (each && all % each)
    return fail(Code::InvalidArgument, all, " ranks are no nodes of ", each, " each");
  if (!each)
    each = launcherAgrees(ranks) ? ranks.front().local : ofHosts(ranks);
  ranksPerNode = int(each ? each : all);
  told.clear();
  if (!each)
    told = "they are not of as many neighbouring ranks each, so gradients take the direct way "
           "between all ranks, not from node to node (--ranks-per-node N says it otherwise)";
  else if (each < all)
    told = std::to_string(all / each) + " of " + std::to_string(each) +
           (each == 1 ? " rank each"
                      : " ranks each; gradients are added up within a node, and go from node to "
                        "node");
  return {};
}

} // namespace trainrt
