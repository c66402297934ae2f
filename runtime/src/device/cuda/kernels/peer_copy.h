// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies to and from the memory of other GPUs, of a GPU and, in tests, of the host.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_PEER_COPY_H
#define TRAINRT_DEVICE_CUDA_KERNELS_PEER_COPY_H

#include <stdint.h>

#ifdef __CUDA__
#define TRAINRT_PEER_COPY __attribute__((device)) inline
#else
#define TRAINRT_PEER_COPY inline
#endif

namespace trainrt::cuda {

/// What a launch copies, and what it then tells other ranks.
struct PeerCopyArguments {
  static constexpr int mostRanges = 128, mostSignals = 16;
  uint64_t flags; ///< 32 bits each, which others write: what they wrote before is seen, too
  uint64_t ended; ///< not 0: nothing is copied or told
  uint64_t done;  ///< blocks that are; 0 before and after
  int32_t numFlags, numRanges, numSignals, blocks;
  struct Range {
    uint64_t from, to;
    int64_t bytes;
  } ranges[mostRanges];
  struct Signal {
    uint64_t flag; ///< of another rank
    uint64_t value;
  } signals[mostSignals];
};

namespace device {

/// Units first, first + step, ...; four are under way at a time, as other GPUs are far.
template <typename T>
TRAINRT_PEER_COPY void copyUnits(uint64_t from, uint64_t to, int64_t count, int64_t first,
                                 int64_t step) {
  const T *source = reinterpret_cast<const T *>(from);
  T *target = reinterpret_cast<T *>(to);
  int64_t i = first;
  for (; i + 3 * step < count; i += 4 * step) {
    const T a = source[i], b = source[i + step], c = source[i + 2 * step], d = source[i + 3 * step];
    target[i] = a;
    target[i + step] = b;
    target[i + 2 * step] = c;
    target[i + 3 * step] = d;
  }
  for (; i < count; i += step)
    target[i] = source[i];
}

/// A thread's share of a range, in units as large as its addresses allow.
TRAINRT_PEER_COPY void copyRange(const PeerCopyArguments::Range &range, int64_t first,
                                 int64_t step) {
  typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
  typedef uint32_t Word __attribute__((may_alias));
  typedef uint8_t Byte __attribute__((may_alias));
  const uint64_t both = range.from | range.to;
  const int64_t unit = both % 16 == 0 ? 16 : both % 4 == 0 ? 4 : 1;
  const int64_t count = range.bytes / unit, whole = count * unit;
  if (unit == 16)
    copyUnits<Vector>(range.from, range.to, count, first, step);
  else if (unit == 4)
    copyUnits<Word>(range.from, range.to, count, first, step);
  else
    copyUnits<Byte>(range.from, range.to, count, first, step);
  copyUnits<Byte>(range.from + uint64_t(whole), range.to + uint64_t(whole), range.bytes - whole,
                  first, step);
}

/// A thread's share of all ranges. Each begins with the next block, so that short ones are shared
/// out as well.
TRAINRT_PEER_COPY void copyRanges(const PeerCopyArguments &args, int64_t block, int64_t thread,
                                  int64_t threads) {
  for (int64_t i = 0; i < args.numRanges; ++i)
    copyRange(args.ranges[i], (block + i) % args.blocks * threads + thread, args.blocks * threads);
}

} // namespace device
} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_PEER_COPY_H
