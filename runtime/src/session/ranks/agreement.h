// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranks of a run tell each other around a step, so that all of them make it or none.
#ifndef TRAINRT_SESSION_RANKS_AGREEMENT_H
#define TRAINRT_SESSION_RANKS_AGREEMENT_H

#include "comm/communicator.h"

#include <string>
#include <utility>
#include <vector>

namespace trainrt {

/// Before anything is changed: what a rank brings.
struct RankProposal {
  /// Why it cannot make the step.
  Status status;
  /// What all ranks must have in common, for people too: "step 3 with learning rate 0.1, ...".
  std::string settings;
  int64_t microBatches = 0;
  /// What each of them counts for, in labels or rows; empty: all the same, or as the caller says.
  std::vector<double> weights;
  bool hasFactors = false; ///< the caller has given a factor for each micro-batch
  bool isLast = false;     ///< it wants no step behind this one
};

/// Behind its gradients, before any update.
struct RankOutcome {
  Status status;
  bool nonfinite = false;
  std::vector<std::string> numbers; ///< parameters whose gradients are not finite
  /// Factors and losses of the micro-batches that were computed.
  std::vector<std::pair<double, double>> losses;
};

/// All ranks call these two. An error is that of the first rank that has one, and the same on all
/// of them: "rank 2: ...".
Status exchangeProposals(Communicator &ranks, const RankProposal &mine,
                         std::vector<RankProposal> &all);
Status exchangeOutcomes(Communicator &ranks, const RankOutcome &mine,
                        std::vector<RankOutcome> &all);

} // namespace trainrt

#endif // TRAINRT_SESSION_RANKS_AGREEMENT_H
