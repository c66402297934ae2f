// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention needs from an instruction set: a row of weights, a row of their gradient, random
// words.
#ifndef TRAINRT_DEVICE_CPU_ATTENTION_KERNELS_H
#define TRAINRT_DEVICE_CPU_ATTENTION_KERNELS_H

#include "format/memory/working_memory.h"

#include <cstdint>

namespace trainrt {

class ThreadPool;
struct AttentionForward;
struct AttentionBackward;

/// Which elements of a row dropout keeps: those whose word is at least the threshold.
struct AttentionMask {
  const uint32_t *words = nullptr; ///< null: all are kept
  uint32_t threshold = 0;
  float factor = 1; ///< of what is kept
};

struct AttentionKernels {
  const char *name;
  /// Scores s[n] become weights after dropout, up to the next multiple of `attentionLanes` zeros.
  /// Gives log(sum of e^s).
  float (*weights)(float *s, int64_t n, const AttentionMask &mask);
  /// Scores s[n] become weights after dropout; their gradient d[n] becomes that of the scores
  /// before they were multiplied by `scale`. `stats` is what `weights` gave. Zeros as above.
  void (*gradient)(float *s, float *d, int64_t n, float stats, float scale,
                   const AttentionMask &mask);
  /// Philox4x32-10 words of `count` counters [first + i, row, head, segment], four each; `count` is
  /// a multiple of 16.
  void (*random)(uint32_t *words, uint32_t first, int64_t count, uint32_t row, uint32_t head,
                 uint32_t segment, uint64_t key);
};

/// nullptr where the compiler's target has no such instructions.
const AttentionKernels *attentionKernelsAvx2();
const AttentionKernels *attentionKernelsAvx512();
const AttentionKernels *attentionKernelsNeon();

/// With these kernels, which the processor must be able to run.
int64_t attentionForwardF32(const AttentionForward &args, ThreadPool &pool,
                            const AttentionKernels &kernels);
int64_t attentionBackwardF32(const AttentionBackward &args, ThreadPool &pool,
                             const AttentionKernels &kernels);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_ATTENTION_KERNELS_H
