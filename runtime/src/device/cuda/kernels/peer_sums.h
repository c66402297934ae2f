// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums and copies in the memory of several GPUs at once, of a GPU and, in tests, of the host: of an
// element 0 + that of rank 0 + that of rank 1 + ..., as accumulators add up micro-batches.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H

#include <stdint.h>

#ifdef __CUDA__
#define TRAINRT_PEER_SUMS __attribute__((device)) inline
#else
#define TRAINRT_PEER_SUMS inline
#endif

namespace trainrt::cuda {

/// What a launch adds up or copies, and what it then tells the other ranks: not more than the 4 KiB
/// that a kernel's parameters may have.
struct PeerSumsArguments {
  static constexpr int mostRanks = 16, mostWords = 440;
  uint64_t flags; ///< 32 bits each, which others write: what they wrote before is seen, too
  uint64_t ended; ///< not 0: nothing is read, written or told
  uint64_t done;  ///< blocks that are; 0 before and after
  int32_t numFlags, numSignals, blocks, numRanges, numFrom, numTo;
  uint64_t turn;               ///< that is told
  uint64_t signals[mostRanks]; ///< the flags, of other ranks
  /// Of each range how many elements, their addresses in the memories that are added up, in this
  /// order, and those where each of the sums goes. Without these (`numTo` 0) sums go to where the
  /// elements were. Of a copy elements are bytes, and there is one address that they come from.
  uint64_t words[mostWords];
};

namespace device {

/// What is added up, one at a time and as many as a thread takes at once; or copied.
struct PeerF32 {
  typedef float One __attribute__((may_alias));
  typedef float Vector __attribute__((vector_size(16), may_alias));
  static constexpr bool adds = true;
};
struct PeerF64 {
  typedef double One __attribute__((may_alias));
  typedef double Vector __attribute__((vector_size(16), may_alias));
  static constexpr bool adds = true;
};
struct PeerBytes {
  typedef uint8_t One __attribute__((may_alias));
  typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
  static constexpr bool adds = false;
};

/// Addresses of a range.
struct PeerPlaces {
  const uint64_t *from, *to;
  int32_t numFrom, numTo;
};

/// Four units under way at a time, as other GPUs are far.
template <typename Unit> struct PeerFour {
  Unit a, b, c, d;
  TRAINRT_PEER_SUMS static PeerFour load(uint64_t address, int64_t first, int64_t step) {
    const Unit *from = reinterpret_cast<const Unit *>(address) + first;
    return {from[0], from[step], from[2 * step], from[3 * step]};
  }
  TRAINRT_PEER_SUMS void store(uint64_t address, int64_t first, int64_t step) const {
    Unit *to = reinterpret_cast<Unit *>(address) + first;
    to[0] = a;
    to[step] = b;
    to[2 * step] = c;
    to[3 * step] = d;
  }
  TRAINRT_PEER_SUMS void add(const PeerFour &other) {
    a += other.a;
    b += other.b;
    c += other.c;
    d += other.d;
  }
};
/// And one.
template <typename Unit> struct PeerOne {
  Unit a;
  TRAINRT_PEER_SUMS static PeerOne load(uint64_t address, int64_t first, int64_t) {
    return {reinterpret_cast<const Unit *>(address)[first]};
  }
  TRAINRT_PEER_SUMS void store(uint64_t address, int64_t first, int64_t) const {
    reinterpret_cast<Unit *>(address)[first] = a;
  }
  TRAINRT_PEER_SUMS void add(const PeerOne &other) { a += other.a; }
};

/// The units first, first + step, ... of a range that begins `offset` bytes behind its addresses.
/// Those of two ranks are asked for at once.
template <bool adds, typename Units>
TRAINRT_PEER_SUMS void combineUnits(const PeerPlaces &places, uint64_t offset, int64_t first,
                                    int64_t step) {
  Units sum{};
  int32_t rank = 0;
  if constexpr (adds) {
    for (; rank + 1 < places.numFrom; rank += 2) {
      const Units one = Units::load(places.from[rank] + offset, first, step),
                  next = Units::load(places.from[rank + 1] + offset, first, step);
      sum.add(one);
      sum.add(next);
    }
    if (rank < places.numFrom)
      sum.add(Units::load(places.from[rank] + offset, first, step));
  } else {
    sum = Units::load(places.from[0] + offset, first, step);
  }
  for (int32_t i = 0; i < places.numTo; ++i)
    sum.store(places.to[i] + offset, first, step);
}

/// A thread's share of a tile: of `count` units four times as many as there are threads.
template <bool adds, typename Unit>
TRAINRT_PEER_SUMS void combineTile(const PeerPlaces &places, uint64_t offset, int64_t count,
                                   int64_t tile, int64_t thread, int64_t threads) {
  const int64_t begin = tile * 4 * threads, rest = count - begin;
  if (rest >= 4 * threads) {
    combineUnits<adds, PeerFour<Unit>>(places, offset, begin + thread, threads);
    return;
  }
  for (int64_t i = thread; i < rest; i += threads)
    combineUnits<adds, PeerOne<Unit>>(places, offset, begin + i, 0);
}

/// A thread's share of all ranges, whose tiles are dealt out to the blocks, those of one range
/// behind those of the one before. Where all addresses of a range are as far from a multiple of 16,
/// units are vectors, with single elements before and behind them.
template <typename Type>
TRAINRT_PEER_SUMS void combineRanges(const PeerSumsArguments &args, int64_t block, int64_t thread,
                                     int64_t threads) {
  using One = typename Type::One;
  using Vector = typename Type::Vector;
  constexpr int64_t width = sizeof(One), perVector = int64_t(sizeof(Vector)) / width;
  const int32_t numAddresses = args.numFrom + args.numTo;
  int64_t next = block; // of this block's tiles, counted from the range's first
  for (int64_t i = 0; i < args.numRanges; ++i) {
    const uint64_t *words = args.words + i * (1 + numAddresses);
    const auto elements = int64_t(words[0]);
    const uint64_t *from = words + 1;
    const PeerPlaces places{from, args.numTo ? from + args.numFrom : from, args.numFrom,
                            args.numTo ? args.numTo : args.numFrom};
    uint64_t differences = 0;
    for (int32_t k = 1; k < numAddresses; ++k)
      differences |= from[k] ^ from[0];
    const bool areVectors = differences % 16 == 0;
    int64_t before = areVectors ? int64_t(-from[0] % 16) / width : 0;
    before = before < elements ? before : elements;
    const int64_t units = areVectors ? (elements - before) / perVector : elements;
    const int64_t single = areVectors ? elements - units * perVector : 0;
    int64_t tiles = (units + 4 * threads - 1) / (4 * threads);
    tiles = tiles || !single ? tiles : 1;
    for (; next < tiles; next += args.blocks) {
      if (areVectors)
        combineTile<Type::adds, Vector>(places, uint64_t(before * width), units, next, thread,
                                        threads);
      else
        combineTile<Type::adds, One>(places, 0, units, next, thread, threads);
      for (int64_t k = thread; next == 0 && k < single; k += threads)
        combineUnits<Type::adds, PeerOne<One>>(places, 0, k < before ? k : k + units * perVector,
                                               0);
    }
    next -= tiles;
  }
}

} // namespace device
} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H
