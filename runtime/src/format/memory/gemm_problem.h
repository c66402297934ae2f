// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matmul in the form that the GEMM computes it in, and what it packs for that. Without
// the kernels, so that the compiler can tell the memory that a matmul will need.
#ifndef TRAINRT_FORMAT_MEMORY_GEMM_PROBLEM_H
#define TRAINRT_FORMAT_MEMORY_GEMM_PROBLEM_H

#include <algorithm>
#include <cstdint>

namespace trainrt {

/// C[batch..., m, n] = alpha * A[batch..., m, k] * B[batch..., k, n] + beta * C. All strides count
/// elements and may be anything for A and B (0 broadcasts); the elements of C must not overlap each
/// other, A or B. Those of A and B are f32, or bf16; C is f32.
struct GemmArgs {
  const void *a, *b;
  float *c;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, c_m, c_n;
  int batchRank;                                   ///< number of batch axes, at most 16
  const int64_t *batch, *aBatch, *bBatch, *cBatch; ///< extents, and strides per operand
  float alpha, beta;
  bool bf16 = false; ///< the type of A and B
};

/// Of a matmul in a loop: which of its operands are the same in all steps.
struct GemmConstants {
  const void *loop = nullptr; ///< the outermost loop around it; null: it is in none
  bool a = false, b = false;
};

inline constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

/// Multiply-adds worth handing to another thread (about 10 microseconds).
inline constexpr int64_t parallelWork = int64_t(1) << 19;

/// What of an instruction set's kernels decides on the packing.
struct GemmTile {
  int lanes;   ///< floats in a vector
  int rows;    ///< rows of the largest tile
  int vectors; ///< vectors in a row of a B panel
  /// Floats of a panel that hold two bf16 which follow each other along k: one where kernels
  /// multiply pairs, two where they are widened as they are packed.
  int pairFloats = 2;
  int64_t panelN() const { return int64_t(lanes) * vectors; }
};

/// Those that there are.
inline constexpr GemmTile avx2Tile = {8, 6, 2}, avx512Tile = {16, 14, 2}, neonTile = avx2Tile;

/// A problem in normal form. `k` is cut into `blocks` blocks; it counts units of `unit` elements,
/// of which the last one may have fewer.
struct GemmProblem {
  static constexpr int maxBatchRank = 16;

  /// No extent is negative.
  GemmProblem(const GemmArgs &args, const GemmTile &tile);

  GemmTile tile;
  const char *a, *b;
  float *c;
  int unit;         ///< 1, or 2 of bf16
  int unitFloats;   ///< in a panel
  int elementBytes; ///< of A and B
  int64_t elements; ///< along k
  int64_t m, n, k, a_m, a_k, b_k, b_n, c_m, c_n;
  int batchRank = 0;
  int64_t batch[maxBatchRank], aBatch[maxBatchRank], bBatch[maxBatchRank], cBatch[maxBatchRank];
  float alpha, beta;
  int64_t blocks = 1;
  bool isSwapped = false; ///< A and B are the caller's b and a

  /// Longest chain of k's elements in a tile's registers: a panel of A (14 x 256 floats) stays in
  /// L1 while panels of B stream from L2. A sum's error grows with it; a shorter one would move C
  /// more often.
  static constexpr int64_t chainK = 256;

  int64_t longestBlock() const { return ceilDiv(k, blocks); }
  int64_t longestChain() const { return chainK / unit; }
  int64_t paddedN() const { return roundUp(n, tile.panelN()); }
  int64_t matrices() const {
    int64_t count = 1;
    for (int i = 0; i < batchRank; ++i)
      count *= batch[i];
    return count;
  }
  /// The operands of matrix `index` of the batch.
  void select(int64_t index, const char *&aAt, const char *&bAt, float *&cAt) const {
    aAt = a, bAt = b, cAt = c;
    for (int i = batchRank - 1; i >= 0; --i) {
      int64_t at = index % batch[i];
      index /= batch[i];
      aAt += at * aBatch[i] * elementBytes;
      bAt += at * bBatch[i] * elementBytes;
      cAt += at * cBatch[i];
    }
  }

  bool isSmall() const { return m * n * elements <= parallelWork; } ///< not worth two threads
  /// Whether threads pack whole matrices, each for itself. A thread that is one of several at work
  /// has no others, and no memory that they share.
  bool isPrivate(unsigned threads, bool inside) const;
  /// Whether threads take parts of k: where it is so long and C so small that they would wait for
  /// each other at each block of k.
  bool isLong(unsigned threads, bool inside) const;
  /// Whether B stays packed from the first step of its loop to the last.
  bool keepsB(unsigned threads, const GemmConstants &constants) const;
  int64_t keptFloats() const { return paddedN() * k * unitFloats; }
  /// Of A beside it, for one matmul.
  int64_t keptRowFloats() const { return m * k * unitFloats; }
  /// Columns of B that are packed at a time by all threads; a multiple of the panel's, so that only
  /// the last panel of all is narrow.
  int64_t sharedColumns() const;
  /// Panels of A that a thread packs together: 128 rows, for a chain of k.
  int64_t packedPanels() const { return ceilDiv(128, tile.rows); }
  // Floats of these, of a thread's own B, and of the B that threads share.
  int64_t rowFloats() const {
    const int64_t rows = std::min(m, packedPanels() * tile.rows);
    return roundUp(std::min(longestBlock(), longestChain()) * unitFloats * rows, 16);
  }
  int64_t ownFloats() const { return paddedN() * longestBlock() * unitFloats; }
  int64_t sharedFloats() const { return sharedColumns() * longestBlock() * unitFloats; }
  /// Where threads take parts of k: of a thread's B, chains whose results are kept, and these.
  int64_t chainFloats() const { return paddedN() * longestChain() * unitFloats; }
  int64_t chainsAtOnce() const;
  int64_t chainSums() const { return chainsAtOnce() * m * n; }

private:
  void swapOperands();
  bool mergeIntoRows();
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_GEMM_PROBLEM_H
