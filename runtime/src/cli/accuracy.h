// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many labels a model gets right: of outputs that are scores of classes. Which output and which
// labels that are is found by the loss itself: their cross-entropy is it.
#ifndef TRAINRT_CLI_ACCURACY_H
#define TRAINRT_CLI_ACCURACY_H

#include "cli/data/dataset.h"

#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

class Accuracy {
public:
  /// `wanted`: also where the scores of a batch are so many that copying them takes its time.
  Accuracy(const Package &package, bool wanted);

  /// What a batch says about one of the pairs of outputs and labels that may be the loss's.
  struct Part {
    uint64_t pair = 0;
    bool explains = false;
    int64_t right = 0, counted = 0;
    double distance = 0;
  };
  struct Counts {
    bool looked = false;  ///< else it says nothing
    std::string tooLarge; ///< why the scores of a pair were not read
    std::vector<Part> parts;
  };

  /// Of the batch that has just been evaluated, its loss, and what that is divided by, where the
  /// package tells it.
  Counts count(trainrt_session *session, const trainrt_batch &batch, double loss,
               std::optional<double> weight) const;
  /// In the order of the batches. They may have been counted anywhere, from where this one is now
  /// or has been since the last `restart`.
  void add(const Counts &counts);

  /// Of the labels since `restart`, the part that is right; nullopt where that is not known.
  std::optional<double> value() const;
  int64_t labels() const;
  void restart();
  /// Whether the loss is a cross-entropy, as far as that is known.
  bool isCrossEntropy() const { return knownLabels || isFound; }
  /// Why there is no value; "" while that may change.
  const std::string &reason() const { return why; }
  /// The same where a person would expect one, the first time that it is asked for.
  std::string untold();

private:
  /// Scores [..., classes] and labels [...] of one another.
  struct Pair {
    uint64_t number; ///< among those that there were at first
    const char *scores, *labels;
    int64_t shift; ///< places that labels lie behind their scores on the last axis
    std::optional<int64_t> ignored;
    int64_t right = 0, counted = 0;
    double distance = 0; ///< of their cross-entropies from the losses, summed
  };
  Part count(const Pair &pair, const trainrt_tensor &scores, const trainrt_tensor &labels,
             double loss, std::optional<double> weight) const;
  const Pair *best() const;

  const bool wanted;
  bool knownLabels = false, isFound = false, told = false;
  /// Those that could be it. A model that has learnt nothing yet may have the same loss by tokens
  /// that are no labels; with every batch fewer of them are left.
  std::vector<Pair> pairs;
  std::string why;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_ACCURACY_H
