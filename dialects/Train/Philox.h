// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Philox4x32-10 in plain C++ (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011), and the two rules that the train dialect builds on it: keys of nodes and
// dropout's mask. The reference evaluator runs these; code generation emits the same arithmetic as
// MLIR.
#ifndef TRAINC_DIALECTS_TRAIN_PHILOX_H
#define TRAINC_DIALECTS_TRAIN_PHILOX_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainc::train::philox {

/// Round multipliers and key increments (Weyl sequence) of the 4x32 variant.
inline constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
inline constexpr unsigned kRounds = 10;

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

/// Four random words for one counter and key.
constexpr Counter philox4x32(Counter counter, Key key) {
  for (unsigned round = 0; round < kRounds; ++round) {
    uint64_t product0 = uint64_t(kMultiplier0) * counter[0];
    uint64_t product1 = uint64_t(kMultiplier1) * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

/// FNV-1a 64, as everywhere in the package: what a name contributes to a key.
constexpr uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char byte : name)
    hash = (hash ^ uint8_t(byte)) * 0x100000001b3ull;
  return hash;
}

/// Bits of the second word that a key keeps: 32 + 21 = 53 bits are exact in a double.
inline constexpr uint32_t kKeyHighMask = 0x1FFFFFu;

/// Key of a node (`train.rng_key`).
constexpr uint64_t nodeKey(uint64_t seed, uint64_t step, uint64_t microBatch, uint64_t rank,
                           uint64_t node) {
  Counter words = philox4x32({uint32_t(step), uint32_t(microBatch), uint32_t(rank), uint32_t(node)},
                             {uint32_t(seed) ^ uint32_t(node >> 32), uint32_t(seed >> 32)});
  return uint64_t(words[0]) | (uint64_t(words[1] & kKeyHighMask) << 32);
}

/// Factor of the n-th outer coordinate (the fourth innermost axis is n = 0) in the last counter
/// word. All are odd, so that no bit of a coordinate is lost.
constexpr uint32_t outerFactor(unsigned n) {
  uint32_t factor = n == 0 ? 1u : 0x9E3779B1u;
  for (unsigned i = 1; i < n; ++i)
    factor *= 0x85EBCA77u;
  return factor;
}

/// Words below this are dropped. `ratio` is in [0, 1).
constexpr uint32_t dropoutThreshold(double ratio) {
  double scaled = ratio * 4294967296.0;
  uint64_t threshold = uint64_t(scaled);
  threshold += double(threshold) < scaled ? 1 : 0;
  return threshold > 0xFFFFFFFFu ? 0xFFFFFFFFu : uint32_t(threshold);
}

/// The word that decides about the element at `index` (outermost coordinate first).
constexpr uint32_t elementWord(uint64_t key, const int64_t *index, size_t rank) {
  auto coordinate = [&](size_t fromInner) {
    return fromInner < rank ? uint64_t(index[rank - 1 - fromInner]) : 0;
  };
  uint32_t outer = 0;
  for (size_t i = 3; i < rank; ++i)
    outer += uint32_t(coordinate(i)) * outerFactor(unsigned(i - 3));
  Counter words = philox4x32(
      {uint32_t(coordinate(0) / 4), uint32_t(coordinate(1)), uint32_t(coordinate(2)), outer},
      {uint32_t(key), uint32_t(key >> 32)});
  return words[coordinate(0) % 4];
}

} // namespace trainc::train::philox

#endif // TRAINC_DIALECTS_TRAIN_PHILOX_H
