// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM inner loops for AVX-512: tiles of 14 x 32, that is 28 accumulators, two vectors of B and one
// broadcast of A: 31 of the 32 registers.
#include "device/cpu/gemm_kernels.h"
#include "format/memory/gemm_problem.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma"))),        \
                             apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // _mm512_undefined_ps, GCC bug 105593
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma")
#endif

namespace trainrt {
namespace {

#include "device/cpu/gemm_avx512_vector.h"

struct V : Avx512Vector {
  static Vec accumulate(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
};

#include "device/cpu/gemm_kernels_impl.h"

#include "device/cpu/convolution_kernels_impl.h"

#include "device/cpu/winograd_kernels_impl.h"

#include "device/cpu/gemm_pack_bf16_impl.h"

#define NAME "avx512"
#define TILE avx512Tile
#define HEIGHTS(each)                                                                              \
  each(1), each(2), each(3), each(4), each(5), each(6), each(7), each(8), each(9), each(10),       \
      each(11), each(12), each(13), each(14)
#include "device/cpu/gemm_table_impl.h"

} // namespace
} // namespace trainrt

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const trainrt::GemmKernels *trainrt::gemmKernelsAvx512() { return &kernels; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx512() { return &widenedKernels; }
#else
const trainrt::GemmKernels *trainrt::gemmKernelsAvx512() { return nullptr; }
const trainrt::GemmKernels *trainrt::gemmBF16KernelsAvx512() { return nullptr; }
#endif
