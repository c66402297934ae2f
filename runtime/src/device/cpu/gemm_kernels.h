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
/// count <= i < width up to the next multiple of the vector's lanes. Of bf16 in the order and form
/// of gemm_pack_bf16_impl.h.
using GemmPack = void (*)(float *dst, const void *src, int64_t srcMinor, int64_t srcK, int count,
                          int width, int64_t k);

struct GemmKernels {
  static constexpr int maxRows = 14, maxVectors = 2;
  const char *name;
  int lanes;      ///< floats in a vector
  int rows;       ///< rows of the largest tile
  int vectors;    ///< vectors in a row of a B panel
  int pairFloats; ///< as GemmTile's; of kernels of bf16
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
/// The same of bf16, without convolutions. Those of the last one multiply pairs; the others widen,
/// and multiply as f32, in the same order.
const GemmKernels *gemmBF16KernelsAvx2();
const GemmKernels *gemmBF16KernelsAvx512();
const GemmKernels *gemmBF16KernelsNeon();
const GemmKernels *gemmBF16KernelsAvx512BF16();

/// gemmF32 or gemmBF16 with these kernels, which the processor must be able to run.
void gemm(const GemmArgs &args, ThreadPool &pool, const GemmKernels &kernels,
          KeptB *kept = nullptr);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_GEMM_KERNELS_H
