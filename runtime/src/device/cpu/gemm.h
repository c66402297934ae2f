// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix multiplication with arbitrary strides and sums in f32, the CPU target's library call.
#ifndef TRAINRT_DEVICE_CPU_GEMM_H
#define TRAINRT_DEVICE_CPU_GEMM_H

#include "format/memory/gemm_problem.h"

#include <cstdint>

namespace trainrt {

class ThreadPool;

/// B of a matmul that is computed again and again with the same B: packed by the first call.
struct KeptB {
  float *at; ///< GemmProblem::keptFloats, at a multiple of 64 bytes
  bool isPacked = false;
};

/// With beta = 0, C is only written, never read. An element of C is a chain of fused multiply-adds
/// over k in ascending order, cut at positions that depend on k alone: its bits depend on
/// the operands' values, k, alpha and beta, not on strides, tiling, instruction set or threads.
/// Needs AVX2 and FMA, uses AVX-512 where there is one; on AArch64 NEON. Throws std::runtime_error
/// on other machines. May be called within a parallelFor of the pool: the calling thread then works
/// alone. `kept`: where GemmProblem::keepsB says that B stays packed, which has no effect on bits;
/// else null.
void gemmF32(const GemmArgs &args, ThreadPool &pool, KeptB *kept = nullptr);

/// The same of A and B in bf16. The chain goes over k two elements at a time, the odd one before
/// the even one, and takes denormals, in operands and results, for zeros: so AVX512-BF16 adds up,
/// and so do the others, with the same bits. It multiplies by AVX512-BF16 where that is quicker
/// here than by f32 (on Intel's processors with AMX it is not).
void gemmBF16(const GemmArgs &args, ThreadPool &pool, KeptB *kept = nullptr);

/// Whether it does here; and why not: "since this processor has no AVX512-BF16".
bool multipliesBF16();
const char *describeBF16();

/// What of this machine's kernels decides on the memory for packing; throws as gemmF32 does.
GemmTile gemmTile();

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_GEMM_H
