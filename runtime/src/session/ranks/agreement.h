// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranks of a run tell each other around a step, so that all of them make it or none.
#ifndef TRAINRT_SESSION_RANKS_AGREEMENT_H
#define TRAINRT_SESSION_RANKS_AGREEMENT_H

#include "comm/communicator.h"
#include "session/checkpoint_file.h"

#include <array>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace trainrt {

/// Before anything is changed: what a rank brings.
struct RankProposal {
  /// What ranks do that send this, for messages.
  static constexpr const char *call = "makes a step";
  /// Why it cannot make the step.
  Status status;
  /// What all ranks must have in common, for people too: "step 3 with learning rate 0.1, ...".
  std::string settings;
  int64_t microBatches = 0;
  /// What each of them counts for, in labels or rows; empty: all the same, or as the caller says.
  std::vector<double> weights;
  bool hasFactors = false; ///< the caller has given a factor for each micro-batch
  bool isLast = false;     ///< it wants no step behind this one
  bool mayLag = false;     ///< it can begin this step before the one before it has ended
  int64_t count = -1;      ///< StepNotes::count
};

/// Behind its gradients, before any update; or behind a step that is one function.
struct RankOutcome {
  static constexpr const char *call = "has its gradients";
  Status status;
  bool nonfinite = false;
  bool isLeftOut = false;           ///< the device has changed nothing, which is so on all ranks
  std::vector<std::string> numbers; ///< parameters whose gradients are not finite
  /// Factors and losses of the micro-batches that were computed.
  std::vector<std::pair<double, double>> losses;
};

/// While a checkpoint is saved: what a rank has done for it.
struct RankSave {
  static constexpr const char *call = "saves a checkpoint";
  Status status;
  /// What all ranks must have in common: "step-3 with the tensors 0123456789abcdef".
  std::string settings;
  std::string folder; ///< of rank 0: the name of what the others write into
  /// Of the files for parameters and state.
  std::array<std::vector<WrittenBytes>, 2> written;
  int64_t nonfinite = -1; ///< the first tensor with such values among those that it has written
};

/// Runs `body`; no memory is an error that the other ranks are told.
template <typename Body> Status attempt(const Body &body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory, "out of memory");
  }
}

/// All ranks call these. An error is that of the first rank that has one, and the same on all of
/// them: "rank 2: ...".
Status exchangeProposals(Communicator &ranks, const RankProposal &mine,
                         std::vector<RankProposal> &all);
Status exchangeOutcomes(Communicator &ranks, const RankOutcome &mine,
                        std::vector<RankOutcome> &all);
Status exchangeSaves(Communicator &ranks, const RankSave &mine, std::vector<RankSave> &all);

} // namespace trainrt

#endif // TRAINRT_SESSION_RANKS_AGREEMENT_H
