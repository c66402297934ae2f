// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the kernels for attention by warpgroups cut it up, which host and device
// agree on.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_SHAPES_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_SHAPES_H

namespace trainrt::cuda {

inline constexpr int groupThreads = 128, groupRows = 64;
/// A bit for each weight of 64 queries and 64 keys.
inline constexpr int maskBlockBytes = groupRows * groupRows / 8;
/// A warpgroup that only copies.
inline constexpr int copyingThreads = groupThreads;

/// `groups` warpgroups with 64 rows each compute, with `rows` rows of others at
/// a time, of which there are up to `stages` blocks in shared memory, and their
/// own rows for up to `owns` turns. `overlaps`: the next scores of keys are
/// computed while sums are added to, which takes registers.
template <int columnsOf, int groupsOf, int rowsOf, int stagesOf, int ownsOf, bool doesOverlap>
struct WarpgroupShape {
  static constexpr int columns = columnsOf, groups = groupsOf, rows = rowsOf, stages = stagesOf,
                       owns = ownsOf;
  static constexpr bool overlaps = doesOverlap;

  static constexpr int threads = copyingThreads + groups * groupThreads;
  /// Of a thread, as warpgroups share them out: at first all have as many. Those
  /// that copy and draw a mask compute several tiles of it side by side.
  static constexpr int copyingRegisters(bool draws) { return draws ? 56 : groups == 2 ? 40 : 32; }
  static constexpr int registers(bool draws) {
    return groups == 2 ? (draws ? 224 : 232) : draws ? 152 : 160;
  }
  static constexpr int allRegisters(bool draws) {
    return copyingRegisters(draws) * copyingThreads + registers(draws) * groups * groupThreads;
  }
  static_assert(groups == 2 || groups == 3);
  static_assert(allRegisters(false) <= 65536 && allRegisters(true) <= 65536);
  /// Of shared memory: the two numbers of the rows of all stages and their
  /// masks; all of it, beginning anywhere.
  static constexpr int numberBytes =
      (stages * (rows * 8 + groups * maskBlockBytes) + 1023) / 1024 * 1024;
  static constexpr int sharedBytes =
      2 * 1024 + numberBytes + 4 * columns * (owns * groups * groupRows + stages * rows);
  static_assert(sharedBytes <= 227 * 1024, "of a thread block on sm_90");
};

/// Of the kernels, for up to so many columns.
template <int columns> struct WarpgroupShapes {
  using Queries = WarpgroupShape<64, 3, 64, 4, 2, true>;
  using Keys = WarpgroupShape<64, 2, 64, 4, 2, true>;
  using Forward = WarpgroupShape<64, 3, 64, 4, 2, true>;
};
template <> struct WarpgroupShapes<128> {
  using Queries = WarpgroupShape<128, 2, 64, 4, 1, true>;
  using Keys = WarpgroupShape<128, 2, 64, 4, 1, false>;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_SHAPES_H
