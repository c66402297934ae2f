// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The permutation of an epoch and the walk through it.
#include "cli/data/data_order.h"

#include "io/permutation.h"

#include <cassert>

namespace trainrt::run {

/// As the library's sampler makes it: runs with and without one see the same order.
std::vector<int64_t> shuffledRows(int64_t rows, uint64_t seed, uint64_t epoch) {
  return makePermutation(rows, seed, epoch);
}

/// A position behind the last row is the next epoch's first.
void DataOrder::seek(Position position) {
  at = position;
  if (at.index >= rows)
    at = {at.epoch + 1, 0};
}

int64_t DataOrder::row(int64_t index) {
  assert(index >= 0 && index < rows && "a position behind the last row is the next epoch's first");
  if (!shuffle)
    return index;
  // One order is kept: an epoch is walked through once.
  if (orderEpoch != at.epoch) {
    order = shuffledRows(rows, seed, uint64_t(at.epoch));
    orderEpoch = at.epoch;
  }
  return order[size_t(index)];
}

/// With `wrap` a batch may end in the next epoch; else it ends with this one.
std::vector<int64_t> DataOrder::next(bool wrap, bool dropShort) {
  std::vector<int64_t> result;
  assert(batch > 0 && "a batch has rows");
  if (!wrap && dropShort && batch > rows)
    return result;
  result.reserve(size_t(batch));
  while (int64_t(result.size()) < batch) {
    // The order of the epoch that the row is in.
    result.push_back(row(at.index));
    if (++at.index == rows) {
      at = {at.epoch + 1, 0};
      if (!wrap)
        break;
    }
  }
  // What is left is no batch, so the next one is the next epoch's.
  if (!wrap && dropShort && rows - at.index < batch)
    at = {at.epoch + 1, 0};
  return result;
}

} // namespace trainrt::run
