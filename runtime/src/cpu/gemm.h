// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Single-precision matrix multiplication with arbitrary strides, the CPU target's library call.
#ifndef TRAINRT_SRC_CPU_GEMM_H
#define TRAINRT_SRC_CPU_GEMM_H

#include <cstdint>

namespace trainrt {

class ThreadPool;

/// C[batch..., m, n] = alpha * A[batch..., m, k] * B[batch..., k, n] + beta * C. All strides count
/// elements and may be anything for A and B (0 broadcasts); the elements of C must not overlap each
/// other, A or B.
struct GemmArgs {
  const float *a, *b;
  float *c;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, c_m, c_n;
  int batchRank;                                   ///< number of batch axes, at most 16
  const int64_t *batch, *aBatch, *bBatch, *cBatch; ///< extents, and strides per operand
  float alpha, beta;
};

/// With beta = 0, C is only written, never read. An element of C is a chain of fused multiply-adds
/// over k in ascending order, cut at positions that depend on k alone: its bits depend on
/// the operands' values, k, alpha and beta, not on strides, tiling, instruction set or threads.
/// Needs AVX2 and FMA, uses AVX-512 where there is one. Throws std::runtime_error on other machines
/// and std::invalid_argument for a negative extent or too many batch axes. May be called within a
/// parallelFor of the pool: the calling thread then works alone.
void gemmF32(const GemmArgs &args, ThreadPool &pool);

/// What of this machine's kernels decides on the memory for packing; throws as gemmF32 does.
struct GemmTile;
GemmTile gemmTile();

} // namespace trainrt

#endif // TRAINRT_SRC_CPU_GEMM_H
