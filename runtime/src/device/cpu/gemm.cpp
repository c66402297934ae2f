// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GEMM's driver: brings a problem into the form that the micro kernels want (columns of C
// contiguous, as few batches as possible), packs panels of A and B, and walks the tiles of C.
//
// A thread computes tiles of C from a packed block of B, some columns at a time that stay in its L2
// beside the rows of A, which it packs once for all of them (or reads in place). Ways through a
// problem: *shared*, all threads pack a block of B together; for large matrices. *Private*, a
// thread takes a whole matrix of the batch and packs for itself; for many small ones. *Long*, a
// thread takes a part of k, where that is long beside C. And *kept*, all of B was packed by an
// earlier call. All add up k in the same blocks of at most `blockK`, and these in the same chains,
// so the way taken never shows in the result. Within a parallelFor it is always the second.
#include "device/cpu/gemm.h"

#include "device/cpu/choose_kernels.h"
#include "device/cpu/flush_denormals.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"
#include "format/memory/gemm_problem.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

namespace trainrt {

namespace {

/// A tile of C for one thread: as many rows of A as are packed together, and columns that share
/// them, at least `tileN`. Fewer of both where there are less than `tilesPerThread`.
constexpr int64_t tileN = 512, tilesPerThread = 8;
/// Columns of a tile whose part of B (a chain of each) stays in L2 beside the rows of A.
constexpr int64_t nearN = 256;
/// Lines of k that all panels are packed of before the next ones, where they go along A's rows:
/// they are whole pages apart, so that few of them stay in the caches.
constexpr int64_t packedLines = 8;
/// Panels of B in a tile where all of A is packed already: no more are needed for its sake, and
/// threads that take small tiles end together.
constexpr int64_t keptPanels = 2;
/// Height of a tile that reads A in place: with more rows than this, the compilers run out of
/// registers for addresses.
constexpr int directRows = 8;
/// Where part `i` begins when `n` is cut into `parts` parts of (almost) equal size.
/// Depends on n, i and parts only: the same tiles whatever thread asks. Consecutive parts touch,
/// and cut(n, parts, parts) is n.
int64_t cut(int64_t n, int64_t i, int64_t parts) { return n * i / parts; }

/// Whichever it is, the bits are the same: the chains over k are cut by k alone, and every addition
/// is a fused one.
const GemmKernels *chosenKernels() {
  static const GemmKernels *const kernels =
      chooseKernels(gemmKernelsAvx512(), gemmKernelsAvx2(), gemmKernelsNeon());
  return kernels;
}

/// Seconds of a tile's products, on operands that stay in L1: the least of a few.
double secondsOf(const GemmKernels &kernels, std::vector<float> &memory) {
  const int64_t depth = 64 * kernels.pairFloats, width = kernels.lanes * kernels.vectors;
  float *a = memory.data(), *b = a + depth * kernels.rows, *c = b + depth * width;
  const auto began = std::chrono::steady_clock::now();
  kernels.micro[false][kernels.rows - 1][kernels.vectors - 1](depth, a, kernels.rows, b, c, width,
                                                              kernels.lanes, 1, 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// Of both kinds the bits are the same, so that the clock may decide: there are processors that
/// take pairs twice as fast as floats, and ones with half of the speed.
bool multipliesFaster(const GemmKernels &pairs, const GemmKernels &floats) {
  // Ones, of either type.
  std::vector<float> memory(size_t(160 * (14 + 32)));
  const uint32_t ones = 0x3f803f80;
  for (float &value : memory)
    std::memcpy(&value, &ones, sizeof(value));
  double ofPairs = 1, ofFloats = 1;
  for (int round = 0; round < 16; ++round) {
    ofPairs = std::min(ofPairs, secondsOf(pairs, memory));
    ofFloats = std::min(ofFloats, secondsOf(floats, memory));
  }
  return ofPairs < ofFloats;
}

bool hasAvx512BF16() {
#if defined(__x86_64__)
  return gemmBF16KernelsAvx512BF16() && __builtin_cpu_supports("avx512bf16") &&
         chosenKernels() == gemmKernelsAvx512();
#else
  return false;
#endif
}

const GemmKernels *chosenBF16Kernels() {
  static const GemmKernels *const kernels = [] {
    const GemmKernels *floats =
        chooseKernels(gemmBF16KernelsAvx512(), gemmBF16KernelsAvx2(), gemmBF16KernelsNeon());
    const GemmKernels *pairs = gemmBF16KernelsAvx512BF16();
    return hasAvx512BF16() && multipliesFaster(*pairs, *floats) ? pairs : floats;
  }();
  return kernels;
}

GemmTile tileOf(const GemmKernels &kernels) {
  return {kernels.lanes, kernels.rows, kernels.vectors, kernels.pairFloats};
}

/// A problem in normal form, with the kernels that compute it.
struct Problem : GemmProblem {
  Problem(const GemmArgs &args, const GemmKernels &kernels)
      : GemmProblem(args, tileOf(kernels)), kernels(kernels) {}

  const GemmKernels &kernels;

  int64_t panelN() const { return tile.panelN(); }
  int64_t kAt(int64_t block) const { return cut(k, block, blocks); }
  /// Length of the chains of a block of `k`. They are equal, none longer than chainK: a short rest
  /// would pay for a whole pass over C.
  int64_t chain(int64_t k) const { return ceilDiv(k, ceilDiv(k, longestChain())); }
};

/// Adds beta * C into C for an empty sum.
/// With beta 0 nothing of C is read: it may hold NaN from what lay there before.
void scaleOnly(const Problem &p) {
  for (int64_t matrix = 0, end = p.matrices(); matrix < end; ++matrix) {
    const char *a, *b;
    float *c;
    p.select(matrix, a, b, c);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        float &at = c[i * p.c_m + j * p.c_n];
        at = p.beta == 0.0f ? 0.0f : p.beta * at;
      }
  }
}

/// Whether the micro kernels read A where it is: `rows` contiguous along k, or its `columns` along
/// m.
enum class DirectA { no, rows, columns };

/// Whether all matrices of A begin at a pair of bf16.
bool startsAtPairs(const Problem &p) {
  return reinterpret_cast<uintptr_t>(p.a) % 4 == 0 &&
         std::all_of(p.aBatch, p.aBatch + p.batchRank, [](int64_t s) { return s % 2 == 0; });
}

/// Reading A in place saves the packing, where its lines do not all fall into the same few sets of
/// L1 (rows), or are used about once anyway (columns). Of bf16 a row must be one of whole pairs.
DirectA chooseDirect(const Problem &p) {
  if (p.unit == 2) {
    const bool wholePairs = p.unitFloats == 1 && p.a_k == 1 && p.elements % 2 == 0 &&
                            (p.m == 1 || p.a_m % 2 == 0) && startsAtPairs(p);
    return wholePairs && (p.m == 1 || p.a_m % 1024 != 0) ? DirectA::rows : DirectA::no;
  }
  if (p.a_k == 1 && (p.m == 1 || p.a_m % 512 != 0))
    return DirectA::rows;
  if (p.a_m == 1 && p.n <= 2 * p.panelN())
    return DirectA::columns;
  return DirectA::no;
}

/// One block of k of one matrix of the batch: all rows of A, in panels of almost equal height, and
/// the columns [n0, n0 + nLen) of B, packed in panels of panelN() columns.
struct Block {
  const Problem &p;
  DirectA directA;
  const char *a = nullptr, *b = nullptr; ///< at the block's first k, b also at column n0
  float *c = nullptr;                    ///< at column n0
  float *packedB = nullptr;
  const float *packedA = nullptr; ///< all of its rows, panel behind panel; null: not packed yet
  int64_t nLen = 0, k = 0, elements = 0;
  float beta = 0;

  explicit Block(const Problem &p) : p(p), directA(chooseDirect(p)) {}

  /// Where block `index` of k of matrix `matrix` begins at column `n0`.
  void select(int64_t matrix, int64_t index, int64_t n0, int64_t columns) {
    selectRange(matrix, p.kAt(index), p.kAt(index + 1), n0, columns);
  }
  /// The same of [begin, end) of k.
  void selectRange(int64_t matrix, int64_t begin, int64_t end, int64_t n0, int64_t columns) {
    p.select(matrix, a, b, c);
    const int64_t element = begin * p.unit;
    a += element * p.a_k * p.elementBytes;
    b += (element * p.b_k + n0 * p.b_n) * p.elementBytes;
    // C is the same for all blocks of k: the first one scales what is there by beta, later ones
    // add.
    c += n0 * p.c_n;
    nLen = columns;
    k = end - begin;
    elements = std::min(k * p.unit, p.elements - element);
    beta = begin == 0 ? p.beta : 1.0f;
  }
  /// Depends on the way A is read, not on threads: panels are cut as evenly as possible, so that
  /// the last one is not a sliver.
  int64_t panels() const {
    int rows = p.kernels.rows;
    return ceilDiv(p.m, directA == DirectA::rows ? std::min(rows, directRows) : rows);
  }
  int64_t rowOf(int64_t panel) const { return cut(p.m, panel, panels()); }
  /// Panels of A for [k0, k0 + length), one behind the other.
  void packA(int64_t panel0, int64_t panel1, int64_t k0, int64_t length, float *to) const;
  /// Columns behind the block's last one are packed as zeros, so that micro kernels need no tail
  /// for B.
  void packB(int64_t column) const {
    p.kernels.pack(packedB + column * k * p.unitFloats, b + column * p.b_n * p.elementBytes, p.b_n,
                   p.b_k, int(std::min(p.panelN(), nLen - column)), int(p.panelN()), elements);
  }
  void compute(int64_t panel0, int64_t panel1, int64_t column0, int64_t column1,
               float *packedRows) const;
  void computeChain(int64_t k0, int64_t length, int64_t panel0, int64_t panel1, int64_t column0,
                    int64_t column1, float *packedRows) const;
  void multiply(int64_t k0, int64_t length, int64_t panel, const float *rows, int64_t column0,
                int64_t column1) const;
};

void Block::packA(int64_t panel0, int64_t panel1, int64_t k0, int64_t length, float *to) const {
  const int64_t first = rowOf(panel0), step = p.a_m == 1 ? packedLines : length;
  for (int64_t done = 0; done < length; done += step)
    for (int64_t panel = panel0; panel < panel1; ++panel) {
      const int64_t row = rowOf(panel), rows = rowOf(panel + 1) - row,
                    element = (k0 + done) * p.unit;
      p.kernels.pack(to + ((row - first) * length + done * rows) * p.unitFloats,
                     a + (row * p.a_m + element * p.a_k) * p.elementBytes, p.a_m, p.a_k, int(rows),
                     int(rows),
                     std::min(std::min(step, length - done) * p.unit, elements - element));
    }
}

/// The tile of C of some panels of A and the columns [column0, column1) (column0 a panel's first).
/// `packedRows` has room for `rowFloats`, where A is packed for this tile.
void Block::compute(int64_t panel0, int64_t panel1, int64_t column0, int64_t column1,
                    float *packedRows) const {
  const FlushDenormals flush(p.unit == 2);
  assert(0 <= panel0 && panel1 <= panels() && column0 % p.panelN() == 0 &&
         "tiles are whole panels");
  const int64_t longest = p.chain(k);
  for (int64_t k0 = 0; k0 < k; k0 += longest)
    computeChain(k0, std::min(longest, k - k0), panel0, panel1, column0, column1, packedRows);
}

/// The part of `length` from k0 on: of as many panels as are packed together all columns, so that A
/// is packed once for them.
void Block::computeChain(int64_t k0, int64_t length, int64_t panel0, int64_t panel1,
                         int64_t column0, int64_t column1, float *packedRows) const {
  const bool packs = directA == DirectA::no && !packedA;
  const int64_t count = panel1 - panel0, groups = packs ? ceilDiv(count, p.packedPanels()) : 1;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = panel0 + cut(count, group, groups),
                  last = panel0 + cut(count, group + 1, groups);
    if (packs)
      packA(first, last, k0, length, packedRows);
    for (int64_t column = column0; column < column1; column += nearN)
      for (int64_t panel = first; panel < last; ++panel)
        multiply(k0, length, panel,
                 packs ? packedRows + (rowOf(panel) - rowOf(first)) * length * p.unitFloats
                       : nullptr,
                 column, std::min(column1, column + nearN));
  }
}

/// One panel of A, which is packed at `packed`, if it was packed for this tile.
void Block::multiply(int64_t k0, int64_t length, int64_t panel, const float *packed,
                     int64_t column0, int64_t column1) const {
  const GemmKernels &kernels = p.kernels;
  // For results that are not contiguous along n: the micro kernel stores whole vectors, the loop
  // below puts the elements where they belong.
  alignas(64) float temporary[GemmKernels::maxRows * 32];
  const int lanes = kernels.lanes;
  const int64_t width = p.panelN(), depth = length * p.unitFloats;
  // The first chain of the first block applies the caller's beta; all later ones add to what is
  // there.
  const float keep = k0 == 0 ? beta : 1.0f;
  const int64_t row = rowOf(panel), rows = rowOf(panel + 1) - row;
  if (packedA)
    packed = packedA + (row * k + k0 * rows) * p.unitFloats;
  const char *from = a + (row * p.a_m + k0 * p.unit * p.a_k) * p.elementBytes;
  const float *aAt = packed ? packed : reinterpret_cast<const float *>(from);
  const int64_t aStride = packed ? rows : directA == DirectA::rows ? p.a_m / p.unit : p.a_k;
  // Panels of B outside, all their rows inside would reload A: a panel of A stays in L1 while B's
  // stream past.
  for (int64_t column = column0; column < column1; column += width) {
    const int64_t columns = std::min(width, nLen - column);
    const int vectors = int(ceilDiv(columns, lanes));
    const int tail = int(columns) - (vectors - 1) * lanes;
    GemmMicroKernel micro = kernels.micro[directA == DirectA::rows][rows - 1][vectors - 1];
    const float *bAt = packedB + (column * k + k0 * width) * p.unitFloats;
    float *cAt = c + row * p.c_m + column * p.c_n;
    if (p.c_n == 1 || p.n == 1) {
      micro(depth, aAt, aStride, bAt, cAt, p.c_m, tail, p.alpha, keep);
      continue;
    }
    micro(depth, aAt, aStride, bAt, temporary, width, tail, p.alpha, 0.0f);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float &at = cAt[i * p.c_m + j * p.c_n], value = temporary[i * width + j];
        // std::fma rounds once, as the micro kernel does where it adds to C itself: the way C
        // lies does not show in its bits.
        at = keep == 0.0f ? value : std::fma(keep, at, value);
      }
  }
}

/// A thread takes whole matrices. Its packed B is behind its panel of A, for one block of k at a
/// time.
void runPrivate(const Problem &p, ThreadPool &pool) {
  const int64_t work = p.m * p.paddedN() * p.elements;
  pool.parallelFor(p.matrices(), std::max<int64_t>(1, parallelWork / work),
                   [&](unsigned worker, int64_t begin, int64_t end) {
                     float *packedA = static_cast<float *>(
                         pool.scratch(worker, size_t((p.rowFloats() + p.ownFloats()) * 4)));
                     Block block(p);
                     block.packedB = packedA + p.rowFloats();
                     // Blocks of k in ascending order, for each matrix by one thread: sums are
                     // added in one order.
                     for (int64_t matrix = begin; matrix < end; ++matrix)
                       for (int64_t index = 0; index < p.blocks; ++index) {
                         block.select(matrix, index, 0, p.n);
                         for (int64_t column = 0; column < p.n; column += p.panelN())
                           block.packB(column);
                         block.compute(0, block.panels(), 0, p.n, packedA);
                       }
                   });
}

/// All threads on one matrix, `step` columns of a block of k at a time. The two loops are barriers:
/// no tile is computed before all of B is packed.
void runShared(const Problem &p, int64_t matrix, ThreadPool &pool) {
  const int64_t panelN = p.panelN();
  const int64_t step = p.sharedColumns();
  Block block(p);
  block.packedB = static_cast<float *>(pool.shared(0, size_t(p.sharedFloats() * 4)));
  const int64_t panels = block.panels();
  // Columns outside, k inside: C's columns are finished before the next ones are begun, and each
  // element gets its blocks of k in ascending order.
  for (int64_t n0 = 0; n0 < p.n; n0 += step)
    for (int64_t index = 0; index < p.blocks; ++index) {
      block.select(matrix, index, n0, std::min(step, p.n - n0));
      const int64_t columnPanels = ceilDiv(block.nLen, panelN);
      pool.parallelFor(columnPanels,
                       std::max<int64_t>(1, parallelWork / 16 / (block.elements * panelN)),
                       [&](unsigned, int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i)
                           block.packB(i * panelN);
                       });
      // Tiles are made of whole panels, and each element of C is in one tile: which thread takes it
      // changes nothing.
      const int64_t wanted = tilesPerThread * int64_t(pool.size());
      const int64_t high = ceilDiv(panels, p.packedPanels());
      const int64_t nTiles =
          std::clamp<int64_t>(ceilDiv(wanted, high), 1, ceilDiv(block.nLen, tileN));
      const int64_t mTiles = std::clamp<int64_t>(ceilDiv(wanted, nTiles), high, panels);
      const int64_t tiles = mTiles * nTiles;
      const int64_t tileWork = std::max<int64_t>(1, p.m * block.nLen * block.elements / tiles);
      pool.parallelFor(
          tiles, std::max<int64_t>(1, parallelWork / tileWork),
          [&](unsigned worker, int64_t begin, int64_t end) {
            // Scratch is a worker's own; asked for inside of the chunk, since only then it is known
            // which worker has it.
            float *packedA = static_cast<float *>(pool.scratch(worker, size_t(p.rowFloats() * 4)));
            for (int64_t i = begin; i < end; ++i) {
              int64_t row = i % mTiles, column = i / mTiles;
              block.compute(cut(panels, row, mTiles), cut(panels, row + 1, mTiles),
                            cut(columnPanels, column, nTiles) * panelN,
                            std::min(block.nLen, cut(columnPanels, column + 1, nTiles) * panelN),
                            packedA);
            }
          });
    }
}

/// Adds results of chains, [chains][m][n], to C: in the order and with the roundings of a
/// micro kernel that adds them to C itself.
void addChains(const Problem &p, int64_t matrix, const float *sums, int64_t chains, float keep,
               ThreadPool &pool) {
  const char *a, *b;
  float *c;
  p.select(matrix, a, b, c);
  pool.parallelFor(p.m, std::max<int64_t>(1, parallelWork / 16 / (chains * p.n)),
                   [&](unsigned, int64_t begin, int64_t end) {
                     const FlushDenormals flush(p.unit == 2);
                     for (int64_t i = begin; i < end; ++i)
                       for (int64_t chain = 0; chain < chains; ++chain) {
                         const float *from = sums + (chain * p.m + i) * p.n;
                         const float beta = chain == 0 ? keep : 1.0f;
                         for (int64_t j = 0; j < p.n; ++j) {
                           float &to = c[i * p.c_m + j * p.c_n];
                           to = beta == 0.0f   ? from[j]
                                : beta == 1.0f ? to + from[j]
                                               : std::fma(beta, to, from[j]);
                         }
                       }
                   });
}

/// A thread has all of C for some chains of k, reads A and B once and packs for itself. Threads
/// wait for each other after many chains, whose results are then added up.
void runLong(const Problem &p, int64_t matrix, ThreadPool &pool) {
  std::vector<int64_t> ends;
  for (int64_t index = 0; index < p.blocks; ++index)
    for (int64_t at = p.kAt(index), end = p.kAt(index + 1), step = p.chain(end - at); at < end;)
      ends.push_back(at = std::min(at + step, end));
  const int64_t chains = int64_t(ends.size()), most = p.chainsAtOnce();
  float *sums = static_cast<float *>(pool.shared(0, size_t(p.chainSums() * 4)));
  Problem apart = p;
  apart.c_m = p.n, apart.c_n = 1;
  for (int64_t first = 0; first < chains; first += most) {
    const int64_t count = std::min(most, chains - first);
    pool.parallelFor(count, 1, [&](unsigned worker, int64_t begin, int64_t end) {
      const FlushDenormals flush(p.unit == 2);
      float *packedA =
          static_cast<float *>(pool.scratch(worker, size_t((p.rowFloats() + p.chainFloats()) * 4)));
      Block block(apart);
      block.packedB = packedA + p.rowFloats();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t chain = first + i;
        block.selectRange(matrix, chain == 0 ? 0 : ends[chain - 1], ends[chain], 0, p.n);
        block.c = sums + i * p.m * p.n;
        block.beta = 0;
        for (int64_t column = 0; column < p.n; column += p.panelN())
          block.packB(column);
        block.computeChain(0, block.k, 0, block.panels(), 0, p.n, packedA);
      }
    });
    addChains(p, matrix, sums, count, first == 0 ? p.beta : 1.0f, pool);
  }
}

/// All threads on one matrix whose B stays packed, block of k behind block. A, of few rows, is
/// packed the same way before. One loop over tiles for all of C: there is nothing to wait for in
/// between.
void runKept(const Problem &p, ThreadPool &pool, KeptB &kept) {
  const int64_t panelN = p.panelN(), columnPanels = ceilDiv(p.n, panelN);
  float *packedA = static_cast<float *>(pool.shared(0, size_t(p.keptRowFloats() * 4)));
  auto blockAt = [&](int64_t index) {
    Block block(p);
    block.select(0, index, 0, p.n);
    block.directA = DirectA::no;
    block.packedA = packedA + p.m * p.kAt(index) * p.unitFloats;
    block.packedB = kept.at + p.paddedN() * p.kAt(index) * p.unitFloats;
    return block;
  };
  if (!kept.isPacked)
    pool.parallelFor(columnPanels, std::max<int64_t>(1, parallelWork / 16 / (p.elements * panelN)),
                     [&](unsigned, int64_t begin, int64_t end) {
                       for (int64_t index = 0; index < p.blocks; ++index) {
                         const Block block = blockAt(index);
                         for (int64_t i = begin; i < end; ++i)
                           block.packB(i * panelN);
                       }
                     });
  kept.isPacked = true;
  const int64_t panels = blockAt(0).panels();
  pool.parallelFor(panels * p.blocks,
                   std::max<int64_t>(1, parallelWork / 16 / (p.kernels.rows * p.longestBlock())),
                   [&](unsigned, int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t index = i / panels;
                       const int64_t panel = i % panels;
                       const Block block = blockAt(index);
                       block.packA(panel, panel + 1, 0, block.k,
                                   packedA + (p.m * p.kAt(index) + block.rowOf(panel) * block.k) *
                                                 p.unitFloats);
                     }
                   });
  // B is read once where a tile has all rows.
  const int64_t nTiles = ceilDiv(columnPanels, keptPanels);
  const int64_t mTiles = std::clamp<int64_t>(ceilDiv(tilesPerThread * int64_t(pool.size()), nTiles),
                                             ceilDiv(panels, p.packedPanels()), panels);
  const int64_t tiles = mTiles * nTiles;
  const int64_t tileWork = std::max<int64_t>(1, p.m * p.n * p.elements / tiles);
  pool.parallelFor(tiles, std::max<int64_t>(1, parallelWork / tileWork),
                   [&](unsigned, int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       for (int64_t index = 0; index < p.blocks; ++index) {
                         const int64_t row = i % mTiles, column = i / mTiles;
                         blockAt(index).compute(
                             cut(panels, row, mTiles), cut(panels, row + 1, mTiles),
                             cut(columnPanels, column, nTiles) * panelN,
                             std::min(p.n, cut(columnPanels, column + 1, nTiles) * panelN),
                             nullptr);
                       }
                   });
}

} // namespace

void gemm(const GemmArgs &args, ThreadPool &pool, const GemmKernels &kernels, KeptB *kept) {
  const Problem p(args, kernels);
  const int64_t matrices = p.matrices();
  if (matrices == 0 || p.m == 0 || p.n == 0)
    return;
  // alpha 0 reads neither A nor B, as BLAS has it: a NaN in them does not reach C.
  if (p.k == 0 || p.alpha == 0.0f) {
    scaleOnly(p);
    return;
  }
  if (kept) {
    assert(matrices == 1 && "one matrix is kept");
    runKept(p, pool, *kept);
    return;
  }
  if (p.isPrivate(pool.size(), pool.inside())) {
    runPrivate(p, pool);
    return;
  }
  const auto run = p.isLong(pool.size(), pool.inside()) ? runLong : runShared;
  for (int64_t matrix = 0; matrix < matrices; ++matrix)
    run(p, matrix, pool);
}

void gemmF32(const GemmArgs &args, ThreadPool &pool, KeptB *kept) {
  assert(!args.bf16);
  gemm(args, pool, *chosenKernels(), kept);
}

void gemmBF16(const GemmArgs &args, ThreadPool &pool, KeptB *kept) {
  assert(args.bf16);
  gemm(args, pool, *chosenBF16Kernels(), kept);
}

bool multipliesBF16() { return chosenBF16Kernels()->pairFloats == 1; }

const char *describeBF16() {
  return hasAvx512BF16() ? "which this processor is quicker at than at AVX512-BF16"
                         : "since this processor has no AVX512-BF16";
}

/// Tiles of bf16 are those of f32.
GemmTile gemmTile() {
  GemmTile tile = tileOf(*chosenKernels());
  tile.pairFloats = chosenBF16Kernels()->pairFloats;
  return tile;
}

} // namespace trainrt
