// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes that depend on the values of a batch: how many elements of an input differ from a number,
// rounded up to one of few values, so that few plans serve all batches (docs/design/counts.md).
#ifndef TRAINRT_PLAN_COUNTS_H
#define TRAINRT_PLAN_COUNTS_H

#include "format/dtype.h"
#include "format/program.h"

#include <vector>

namespace trainrt {

/// The value of the count `symbol` where `needed` of `whole` elements count: at least `needed`, a
/// multiple of the divisor, one of about eight within a factor of two; at most `whole` (rounded up
/// to the divisor), at least the symbol's minimum. `needed` is within the symbol's maximum.
int64_t bucketOf(const Symbol &symbol, int64_t needed, int64_t whole);

/// How many elements of an array in host memory are not `value`. Of floats, only 0 is a `value`.
int64_t countDiffering(const ArrayView &array, int64_t value);

/// What `symbol` counts of an array in host memory.
int64_t countOf(const Symbol &symbol, const ArrayView &array);
/// The most that it can be of one of that shape, which has no more elements than fit.
int64_t mostOf(const Symbol &symbol, const std::vector<int64_t> &shape);

/// Gives the counts that are not known their largest value, as far as the sizes of their inputs are
/// known.
void fillCounts(const Program &program, std::vector<int64_t> &symbols, std::vector<bool> &known);

} // namespace trainrt

#endif // TRAINRT_PLAN_COUNTS_H
