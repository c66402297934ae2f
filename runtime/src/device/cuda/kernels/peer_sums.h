// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums and copies in the memory of several GPUs at once, of a GPU and, in tests, of the host: of an
// element 0 + that of rank 0 + that of rank 1 + ..., as accumulators add up micro-batches.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H

#include "format/narrow_float.h"

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

/// What is added up, one at a time and as many as a thread takes at once, and their sums; or
/// copied.
template <typename Number, typename Word, bool isSum> struct PeerNumbers {
  typedef Number One __attribute__((may_alias));
  typedef Word Vector __attribute__((vector_size(16), may_alias));
  typedef One Sum;
  typedef Vector Sums;
  static constexpr bool adds = isSum;
  template <typename Unit> TRAINRT_PEER_SUMS static Unit widen(const Unit &unit) { return unit; }
};
using PeerF32 = PeerNumbers<float, float, true>;
using PeerF64 = PeerNumbers<double, double, true>;
using PeerBytes = PeerNumbers<uint8_t, uint32_t, false>;
/// Of 16 bits, four at once, which are added up in f32.
template <typename Number> struct PeerNarrow {
  typedef uint16_t One __attribute__((may_alias));
  typedef uint16_t Vector __attribute__((vector_size(8), may_alias));
  typedef float Sum __attribute__((may_alias));
  typedef float Sums __attribute__((vector_size(16), may_alias));
  static constexpr bool adds = true;
  TRAINRT_PEER_SUMS static Sum widen(const One &bits) { return Number{bits}; }
  TRAINRT_PEER_SUMS static Sums widen(const Vector &bits) {
    return Sums{Number{bits[0]}, Number{bits[1]}, Number{bits[2]}, Number{bits[3]}};
  }
};
using PeerBF16 = PeerNarrow<BFloat16>;
using PeerF16 = PeerNarrow<Float16>;

/// Addresses of a range.
struct PeerPlaces {
  const uint64_t *from, *to;
  int32_t numFrom, numTo;
};

/// Four units under way at a time, as other GPUs are far.
template <typename Unit> struct PeerFour {
  template <typename Other> using Of = PeerFour<Other>;
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
  template <typename Type, typename From> TRAINRT_PEER_SUMS void add(const PeerFour<From> &other) {
    a += Type::widen(other.a);
    b += Type::widen(other.b);
    c += Type::widen(other.c);
    d += Type::widen(other.d);
  }
};
/// And one.
template <typename Unit> struct PeerOne {
  template <typename Other> using Of = PeerOne<Other>;
  Unit a;
  TRAINRT_PEER_SUMS static PeerOne load(uint64_t address, int64_t first, int64_t) {
    return {reinterpret_cast<const Unit *>(address)[first]};
  }
  TRAINRT_PEER_SUMS void store(uint64_t address, int64_t first, int64_t) const {
    reinterpret_cast<Unit *>(address)[first] = a;
  }
  template <typename Type, typename From> TRAINRT_PEER_SUMS void add(const PeerOne<From> &other) {
    a += Type::widen(other.a);
  }
};

/// The units first, first + step, ... of a range that begins so many elements behind its addresses.
/// Those of two ranks are asked for at once.
template <typename Type, typename Units, typename SumUnit>
TRAINRT_PEER_SUMS void combineUnits(const PeerPlaces &places, int64_t elements, int64_t first,
                                    int64_t step) {
  using Sums = typename Units::template Of<SumUnit>;
  const uint64_t offset = uint64_t(elements) * sizeof(typename Type::One);
  Sums sum{};
  int32_t rank = 0;
  if constexpr (Type::adds) {
    for (; rank + 1 < places.numFrom; rank += 2) {
      const Units one = Units::load(places.from[rank] + offset, first, step),
                  next = Units::load(places.from[rank + 1] + offset, first, step);
      sum.template add<Type>(one);
      sum.template add<Type>(next);
    }
    if (rank < places.numFrom)
      sum.template add<Type>(Units::load(places.from[rank] + offset, first, step));
  } else {
    sum = Units::load(places.from[0] + offset, first, step);
  }
  for (int32_t i = 0; i < places.numTo; ++i)
    sum.store(places.to[i] + uint64_t(elements) * sizeof(typename Type::Sum), first, step);
}

/// A thread's share of a tile: of `count` units four times as many as there are threads.
template <typename Type, typename Unit, typename SumUnit>
TRAINRT_PEER_SUMS void combineTile(const PeerPlaces &places, int64_t elements, int64_t count,
                                   int64_t tile, int64_t thread, int64_t threads) {
  const int64_t begin = tile * 4 * threads, rest = count - begin;
  if (rest >= 4 * threads) {
    combineUnits<Type, PeerFour<Unit>, SumUnit>(places, elements, begin + thread, threads);
    return;
  }
  for (int64_t i = thread; i < rest; i += threads)
    combineUnits<Type, PeerOne<Unit>, SumUnit>(places, elements, begin + i, 0);
}

/// How many elements behind these addresses vectors of so many bytes begin, the same for all; -1
/// where there are none.
TRAINRT_PEER_SUMS int64_t elementsBefore(const uint64_t *addresses, int32_t count, int64_t vector,
                                         int64_t width) {
  uint64_t differences = 0;
  for (int32_t i = 1; i < count; ++i)
    differences |= addresses[i] ^ addresses[0];
  return differences % uint64_t(vector) ? -1 : int64_t(-addresses[0] % uint64_t(vector)) / width;
}

/// A thread's share of all ranges, whose tiles are dealt out to the blocks, those of one range
/// behind those of the one before. Where vectors begin as many elements behind all addresses of a
/// range, they are the units, with single elements before and behind them.
template <typename Type>
TRAINRT_PEER_SUMS void combineRanges(const PeerSumsArguments &args, int64_t block, int64_t thread,
                                     int64_t threads) {
  using One = typename Type::One;
  using Vector = typename Type::Vector;
  using Sum = typename Type::Sum;
  using Sums = typename Type::Sums;
  constexpr int64_t perVector = sizeof(Vector) / sizeof(One);
  const int32_t numAddresses = args.numFrom + args.numTo;
  int64_t next = block; // of this block's tiles, counted from the range's first
  for (int64_t i = 0; i < args.numRanges; ++i) {
    const uint64_t *words = args.words + i * (1 + numAddresses);
    const auto elements = int64_t(words[0]);
    const uint64_t *from = words + 1;
    const PeerPlaces places{from, args.numTo ? from + args.numFrom : from, args.numFrom,
                            args.numTo ? args.numTo : args.numFrom};
    int64_t before = elementsBefore(from, args.numFrom, sizeof(Vector), sizeof(One));
    const bool areVectors =
        before >= 0 && before == elementsBefore(places.to, places.numTo, sizeof(Sums), sizeof(Sum));
    before = !areVectors ? 0 : before < elements ? before : elements;
    const int64_t units = areVectors ? (elements - before) / perVector : elements;
    const int64_t single = areVectors ? elements - units * perVector : 0;
    int64_t tiles = (units + 4 * threads - 1) / (4 * threads);
    tiles = tiles || !single ? tiles : 1;
    for (; next < tiles; next += args.blocks) {
      if (areVectors)
        combineTile<Type, Vector, Sums>(places, before, units, next, thread, threads);
      else
        combineTile<Type, One, Sum>(places, 0, units, next, thread, threads);
      for (int64_t k = thread; next == 0 && k < single; k += threads)
        combineUnits<Type, PeerOne<One>, Sum>(places, 0, k < before ? k : k + units * perVector, 0);
    }
    next -= tiles;
  }
}

} // namespace device
} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_PEER_SUMS_H
