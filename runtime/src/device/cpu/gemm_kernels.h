// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the GEMM driver needs from an instruction set: packing of a panel, and micro kernels.
#ifndef TRAINRT_DEVICE_CPU_GEMM_KERNELS_H
#define TRAINRT_DEVICE_CPU_GEMM_KERNELS_H

#include "device/cpu/convolution_kernels.h"

#include <cstdint>

namespace trainrt {

class ThreadPool;
struct KeptB;
struct GemmArgs;

/// Computes a tile of C from a panel of A and a packed one of B ([k][panelColumns]): C = alpha * A
/// * B + beta * C for `rows` x `columns` elements (both are the table's, the last vector has only
/// `tail` valid lanes), C with unit column stride and `ldc` elements between rows.
using GemmMicroKernel = void (*)(int64_t k, const float *a, int64_t aStride, const float *b,
                                 float *c, int64_t ldc, int tail, float alpha, float beta);

/// dst[p * width + i] = src[i * srcMinor + p * srcK] for p < k, i < count; zeros for
/// count <= i < width up to the next multiple of the vector's lanes.
using GemmPack = void (*)(float *dst, const float *src, int64_t srcMinor, int64_t srcK, int count,
                          int width, int64_t k);

struct GemmKernels {
  static constexpr int maxRows = 14, maxVectors = 2;
  const char *name;
  int lanes;   ///< floats in a vector
  int rows;    ///< rows of the largest tile
  int vectors; ///< vectors in a row of a B panel
  GemmPack pack;
  /// [byRows][rows - 1][vectors - 1]; row i of A at position p of k is a[p * aStride + i], byRows
  /// a[i * aStride + p].
  GemmMicroKernel micro[2][maxRows][maxVectors];
  ConvolutionKernels convolution;
};

/// nullptr where the compiler's target has no such instructions.
const GemmKernels *gemmKernelsAvx2();
const GemmKernels *gemmKernelsAvx512();
const GemmKernels *gemmKernelsNeon();

/// gemmF32 with these kernels, which the processor must be able to run.
void gemmF32(const GemmArgs &args, ThreadPool &pool, const GemmKernels &kernels,
             KeptB *kept = nullptr);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_GEMM_KERNELS_H
