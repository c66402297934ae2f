// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many labels of a batch its loss is the mean of: what an evaluation weights its batches by.
#ifndef TRAINRT_RUN_DATA_LABEL_COUNT_H
#define TRAINRT_RUN_DATA_LABEL_COUNT_H

#include "run/data/dataset.h"

#include <functional>

namespace trainrt::run {

class LabelCount {
public:
  /// The loss of a batch.
  using Loss = std::function<double(const trainrt_batch &)>;

  explicit LabelCount(const Package &package);

  /// Whether the package has just one input of labels that a loss may ignore; else rows are what
  /// counts.
  bool isKnown() const { return !input.empty(); }
  /// Labels that are not ignored, without those of the first or last place of a row where the loss
  /// leaves these out, as one that predicts the next token does: it then is `loss` as well if they
  /// are ignored, which is tried once. `rows` where the batch has no such input.
  double count(const trainrt_batch &batch, int64_t rows, double loss, const Loss &again);

private:
  /// Whether places `place` of the rows count.
  bool counts(size_t end, const trainrt_batch &batch, size_t index, double loss, const Loss &again);

  std::string input;
  int64_t ignored = 0;
  std::optional<bool> ends[2]; ///< whether the first and the last place count
};

} // namespace trainrt::run

#endif // TRAINRT_RUN_DATA_LABEL_COUNT_H
