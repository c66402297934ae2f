// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The permutation of an epoch: the same on every machine and in every version.
#ifndef TRAINRT_IO_PERMUTATION_H
#define TRAINRT_IO_PERMUTATION_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace trainrt {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
inline uint64_t mixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// The numbers 0 .. count - 1 in the order of epoch `epoch` (from 0): Fisher-Yates from the back,
/// its random numbers SplitMix64 started at mix(mix(seed) + epoch), bounded without bias by
/// rejection.
inline std::vector<int64_t> makePermutation(int64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(size_t(std::max<int64_t>(count, 0)));
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = mixBits(mixBits(seed) + epoch);
  for (uint64_t left = order.size(); left > 1; --left) {
    // Values below 2^64 mod left would make small remainders likelier.
    const uint64_t unfair = (0 - left) % left;
    uint64_t value;
    do {
      value = mixBits(state);
      state += 0x9e3779b97f4a7c15;
    } while (value < unfair);
    std::swap(order[left - 1], order[value % left]);
  }
  return order;
}

} // namespace trainrt

#endif // TRAINRT_IO_PERMUTATION_H
