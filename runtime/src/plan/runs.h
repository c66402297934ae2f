// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Documents that were packed into the rows of an input: runs of equal elements, their numbers,
// padding left out; or sequences of positions that ascend by one (docs/design/counts.md).
#ifndef TRAINRT_PLAN_RUNS_H
#define TRAINRT_PLAN_RUNS_H

#include "format/dtype.h"

#include <vector>

namespace trainrt {

struct Run {
  uint64_t value; ///< bits of the elements
  int64_t length;
};

/// Those of row `row` of an array of integers [rows, columns] in host memory, without the elements
/// that are `padding`.
void findRuns(const ArrayView &array, int64_t row, int64_t padding, std::vector<Run> &runs);

/// Adds those of the row's elements that follow each other, each one more than the one before, to
/// their number and to the length of the longest.
void countSequences(const ArrayView &array, int64_t row, int64_t &number, int64_t &longest);

/// Whether all equal elements of the row are in one run.
bool hasWholeRuns(const std::vector<Run> &runs);

} // namespace trainrt

#endif // TRAINRT_PLAN_RUNS_H
