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

  /// The batch that has just been evaluated, its loss, and what that is divided by, where the
  /// package tells it.
  void add(trainrt_session *session, const trainrt_batch &batch, double loss,
           std::optional<double> weight);

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
    const char *scores, *labels;
    int64_t shift; ///< places that labels lie behind their scores on the last axis
    std::optional<int64_t> ignored;
    int64_t right = 0, counted = 0;
    double distance = 0; ///< of their cross-entropies from the losses, summed
  };
  /// Whether the pair's cross-entropy over the batch is its loss; counts its labels.
  bool explains(Pair &pair, trainrt_session *session, const trainrt_batch &batch, double loss,
                std::optional<double> weight);
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
