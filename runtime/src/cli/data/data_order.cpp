// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The permutation of an epoch and the walk through it.
#include "cli/data/data_order.h"

#include "io/permutation.h"

#include <cassert>

namespace trainrt::run {

std::vector<int64_t> shuffledRows(int64_t rows, uint64_t seed, uint64_t epoch) {
  return makePermutation(rows, seed, epoch);
}

void DataOrder::seek(Position position) {
  at = position;
  if (at.index >= rows)
    at = {at.epoch + 1, 0};
}

int64_t DataOrder::row(int64_t index) {
  assert(index >= 0 && index < rows && "a position behind the last row is the next epoch's first");
  if (!shuffle)
    return index;
  if (orderEpoch != at.epoch) {
    order = shuffledRows(rows, seed, uint64_t(at.epoch));
    orderEpoch = at.epoch;
  }
  return order[size_t(index)];
}

std::vector<int64_t> DataOrder::next(bool wrap, bool dropShort) {
  std::vector<int64_t> result;
  if (!wrap && dropShort && batch > rows)
    return result;
  result.reserve(size_t(batch));
  while (int64_t(result.size()) < batch) {
    result.push_back(row(at.index));
    if (++at.index == rows) {
      at = {at.epoch + 1, 0};
      if (!wrap)
        break;
    }
  }
  if (!wrap && dropShort && rows - at.index < batch)
    at = {at.epoch + 1, 0};
  return result;
}

} // namespace trainrt::run
