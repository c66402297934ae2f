// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// device/cuda/kernels/warpgroup.h for the host. A matmul is done when it is waited for, and not
// before, so that sums that are read, operands that are written and shared memory that is given
// back too early give wrong numbers. Where operands lie is told by the bits that the GPU gets.
#ifndef TRAINRT_TEST_CUDA_WARPGROUP_EMULATION_H
#define TRAINRT_TEST_CUDA_WARPGROUP_EMULATION_H

#include "cuda/warp_emulation.h"

namespace trainrt::cuda::warp {

struct Matrix {
  uint32_t low, high;
  bool operator==(const Matrix &) const = default;
};

class WarpgroupEmulation : public Emulation {
public:
  /// Of a grid of `blocks` on the first axis.
  WarpgroupEmulation(unsigned threads, size_t sharedBytes, unsigned blocks)
      : Emulation(threads, sharedBytes), blocks(blocks), lanes(threads), groups(threads / 128) {}
  static WarpgroupEmulation &current() {
    return static_cast<WarpgroupEmulation &>(Emulation::current());
  }

  struct Barrier {
    uint16_t count, missing;
    uint32_t phase;
  };
  Barrier &barrier(uint32_t at) { return *reinterpret_cast<Barrier *>(shared(at, 8)); }
  void arrive(uint32_t at) {
    Barrier &it = barrier(at);
    if (it.missing == 0)
      fail("more threads arrive at a barrier than it counts");
    if (--it.missing == 0)
      it.missing = it.count, ++it.phase;
  }
  void await(uint32_t at, uint32_t phase) {
    Emulation::await([&] { return barrier(at).phase % 2 != phase; });
    own().shown = false;
  }

  /// One lane's share of a matmul.
  struct Matmul {
    float (*sums)[4];
    const uint32_t *left; ///< null: in shared memory
    Matrix leftMatrix, right;
    bool adds, byColumns;
    int columns;
    float (*widen)(uint16_t);
  };
  void enqueue(const Matmul &matmul) {
    if (!own().begun || !own().shown)
      fail("a matmul may not see what was written before");
    own().queue.push_back(matmul);
  }
  void begin() { own().begun = true; }
  void show() { own().shown = true; }
  void endGroup() { own().ends.push_back(own().queue.size()); }
  void wait(size_t groups);

  const unsigned blocks;

private:
  struct Lane {
    std::vector<Matmul> queue;
    std::vector<size_t> ends; ///< of groups
    bool begun = false, shown = false;
  };
  struct Group {
    unsigned arrived = 0;
    uint64_t generation = 0;
  };
  Lane &own() { return lanes[number()]; }
  void run(Lane *all, size_t which);
  /// An element of two bytes, at a place before chunks are permuted.
  uint16_t load(uint32_t place) {
    uint16_t bits;
    std::memcpy(&bits, shared(place ^ (place >> 7 & 7) << 4, 2), 2);
    return bits;
  }
  uint16_t byRows(const Matrix &matrix, int row, int column) {
    return load(check(matrix) + uint32_t(row / 8) * ((matrix.high & 0x3fff) << 4) +
                uint32_t(row % 8) * 128 + uint32_t(column) * 2);
  }
  uint16_t byColumns(const Matrix &matrix, int row, int column) {
    return load(check(matrix) + uint32_t(column / 64) * ((matrix.low >> 16 & 0x3fff) << 4) +
                uint32_t(row / 8) * ((matrix.high & 0x3fff) << 4) + uint32_t(row % 8) * 128 +
                uint32_t(column % 64) * 2);
  }
  static uint32_t check(const Matrix &matrix) {
    const uint32_t at = (matrix.low & 0x3fff) << 4;
    if (matrix.high >> 14 != 1u << 16 || at & 0x380)
      fail("a matrix is not permuted by 128 bytes");
    return at;
  }

  std::vector<Lane> lanes;
  std::vector<Group> groups;
};

inline void WarpgroupEmulation::wait(size_t left) {
  Group &group = groups[number() / 128];
  if (++group.arrived < 128) {
    Emulation::await([&group, mine = group.generation] { return group.generation != mine; });
    return;
  }
  Lane *all = &lanes[number() / 128 * 128];
  const size_t done = all->ends.size() > left ? all->ends.size() - left : 0;
  const size_t matmuls = done ? all->ends[done - 1] : 0;
  for (size_t i = 0; i < matmuls; ++i)
    run(all, i);
  for (Lane *lane = all; lane != all + 128; ++lane) {
    if (lane->ends != all->ends && lane != all)
      fail("lanes of a warpgroup have other groups of matmuls");
  }
  std::vector<size_t> ends(all->ends.begin() + ptrdiff_t(done), all->ends.end());
  for (size_t &end : ends)
    end -= matmuls;
  for (Lane *lane = all; lane != all + 128; ++lane) {
    lane->queue.erase(lane->queue.begin(), lane->queue.begin() + ptrdiff_t(matmuls));
    lane->ends = ends;
    lane->begun = false;
  }
  group.arrived = 0;
  ++group.generation;
}

inline void WarpgroupEmulation::run(Lane *all, size_t which) {
  const Matmul &first = all->queue[which];
  static float a[64][16], b[16][128];
  for (int lane = 0; lane < 128; ++lane) {
    if (all[lane].queue.size() <= which)
      fail("lanes of a warpgroup are at different matmuls");
    const Matmul &matmul = all[lane].queue[which];
    if (matmul.right != first.right || matmul.leftMatrix != first.leftMatrix)
      fail("lanes of a warpgroup tell of different matrices");
    if (matmul.left)
      for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 2; ++i)
          a[lane / 32 * 16 + lane % 32 / 4 + k % 2 * 8][lane % 4 * 2 + i + k / 2 * 8] =
              first.widen(uint16_t(matmul.left[k] >> (16 * i)));
  }
  for (int row = 0; row < 64 && !first.left; ++row)
    for (int k = 0; k < 16; ++k)
      a[row][k] = first.widen(byRows(first.leftMatrix, row, k));
  for (int column = 0; column < first.columns; ++column)
    for (int k = 0; k < 16; ++k)
      b[k][column] = first.widen(first.byColumns ? byColumns(first.right, k, column)
                                                 : byRows(first.right, column, k));
  for (int lane = 0; lane < 128; ++lane) {
    const Matmul &matmul = all[lane].queue[which];
    for (int chunk = 0; chunk < first.columns / 8; ++chunk)
      for (int i = 0; i < 4; ++i) {
        const float *row = a[lane / 32 * 16 + lane % 32 / 4 + i / 2 * 8];
        float sum = first.adds ? matmul.sums[chunk][i] : 0;
        for (int k = 0; k < 16; ++k)
          sum += row[k] * b[k][chunk * 8 + lane % 4 * 2 + i % 2];
        matmul.sums[chunk][i] = sum;
      }
  }
}

// -- device/cuda/kernels/warpgroup.h --------------------------------------------

inline uint32_t blocks() { return WarpgroupEmulation::current().blocks; }
inline uint32_t uniform(uint32_t x) {
  struct Arguments {
    uint32_t x;
  } own = {x};
  Emulation::current().collective<Arguments>("uniform", own, [](Arguments *const(&all)[32]) {
    for (Arguments *each : all)
      if (each->x != all[0]->x)
        Emulation::fail("what is said to be uniform is not");
  });
  return x;
}
inline void makeBarrier(uint32_t at, uint32_t count) {
  WarpgroupEmulation::current().barrier(at) = {uint16_t(count), uint16_t(count), 0};
}
inline void arrive(uint32_t at, bool arrives) {
  if (arrives)
    WarpgroupEmulation::current().arrive(at);
}
inline void arriveCopied(uint32_t at) {
  Emulation::current().finishCopies();
  WarpgroupEmulation::current().arrive(at);
}
inline void await(uint32_t at, uint32_t phase) { WarpgroupEmulation::current().await(at, phase); }
inline void showToMatmuls() { WarpgroupEmulation::current().show(); }
template <int count> void takeRegisters() { static_assert(count % 8 == 0); }
template <int count> void leaveRegisters() { static_assert(count % 8 == 0); }

inline Matrix matrix(uint32_t at, uint32_t slab, uint32_t eight = 1024) {
  return {(at & 0x3ffff) >> 4 | (slab >> 4) << 16, eight >> 4 | 1u << 30};
}
inline Matrix moved(const Matrix &matrix, uint32_t bytes) {
  return {matrix.low + (bytes >> 4), matrix.high};
}
inline void beginMatmuls() { WarpgroupEmulation::current().begin(); }
template <int parts> void beginMatmuls(uint32_t (&)[parts][4]) { beginMatmuls(); }
inline void endGroup() { WarpgroupEmulation::current().endGroup(); }
template <int groups> void wait() { WarpgroupEmulation::current().wait(groups); }
template <int groups, int chunks> void wait(float (&)[chunks][4]) { wait<groups>(); }

template <typename T> float widened(uint16_t bits) { return detail::widen(T(), bits); }
template <bool adds, typename T, int chunks>
void multiplyRows(T, float (&sums)[chunks][4], const Matrix &left, const Matrix &right) {
  WarpgroupEmulation::current().enqueue(
      {sums, nullptr, left, right, adds, false, chunks * 8, widened<T>});
}
template <typename T, int chunks>
void multiplyColumns(T, float (&sums)[chunks][4], const uint32_t (&left)[4], const Matrix &right) {
  WarpgroupEmulation::current().enqueue(
      {sums, left, {}, right, true, true, chunks * 8, widened<T>});
}

} // namespace trainrt::cuda::warp

#endif // TRAINRT_TEST_CUDA_WARPGROUP_EMULATION_H
