// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The permutation of an epoch and the walk through it.
#include "run/data_order.h"

#include <algorithm>
#include <numeric>

namespace trainrt::run {

namespace {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

} // namespace

std::vector<int64_t> shuffledRows(int64_t rows, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(size_t(std::max<int64_t>(rows, 0)));
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = mix(mix(seed) + epoch);
  for (uint64_t left = order.size(); left > 1; --left) {
    // Values below 2^64 mod left would make small remainders likelier.
    const uint64_t unfair = (0 - left) % left;
    uint64_t value;
    do {
      value = mix(state);
      state += 0x9e3779b97f4a7c15;
    } while (value < unfair);
    std::swap(order[left - 1], order[value % left]);
  }
  return order;
}

void DataOrder::seek(Position position) {
  at = position;
  if (at.index >= rows)
    at = {at.epoch + 1, 0};
}

int64_t DataOrder::row(int64_t index) {
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
