// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels use of a GPU of architecture sm_90a beside warp.h, as functions: matmuls of a
// warpgroup (four warps) whose operands lie in shared memory, barriers in shared memory, registers
// that warpgroups share out among them.
//
// Such a matmul runs beside its warpgroup: its sums and the operands that are in registers are not
// touched, and those in shared memory not written, until a `wait` has said that it is done.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_H

#include "device/cuda/kernels/warp.h"

namespace trainrt::cuda::warp {

TRAINRT_DEVICE uint32_t blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }

/// What all lanes of the warp have, said to be so.
TRAINRT_DEVICE uint32_t uniform(uint32_t x) {
  uint32_t y;
  asm("shfl.sync.idx.b32 %0, %1, 0, 31, -1;" : "=r"(y) : "r"(x));
  return y;
}

// -- Barriers: 8 bytes of shared memory. The phases of one are numbered by a bit. --------------

/// Of phases that end when `count` threads have arrived. By one thread, before a `barrier`.
TRAINRT_DEVICE void makeBarrier(uint32_t at, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(at), "r"(count) : "memory");
}
TRAINRT_DEVICE void arrive(uint32_t at, bool arrives) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; @p mbarrier.arrive.shared.b64 _, [%0];}"
               :
               : "r"(at), "r"(uint32_t(arrives))
               : "memory");
}
/// This thread arrives when all copies that it has begun are done.
TRAINRT_DEVICE void arriveCopied(uint32_t at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(at) : "memory");
}
/// Waits until the phase of this bit has ended. That before the first one, of bit 1, has.
TRAINRT_DEVICE void await(uint32_t at, uint32_t phase) {
  uint32_t ended;
  do
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; "
                 "selp.b32 %0, 1, 0, p;}"
                 : "=r"(ended)
                 : "r"(at), "r"(phase)
                 : "memory");
  while (!ended);
}
/// What threads wrote to shared memory, and this one knows of, is there for matmuls.
TRAINRT_DEVICE void showToMatmuls() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// The registers of each thread of this warpgroup from now on, a multiple of 8.
template <int count> TRAINRT_DEVICE void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}
template <int count> TRAINRT_DEVICE void leaveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

/// A matrix in shared memory as matmuls take it, of rows of 128 bytes (64 elements) whose chunks of
/// 16 bytes are permuted: chunk c of row r is at c ^ r % 8. It begins at a multiple of 1024 bytes,
/// or 32 bytes further for each 16 columns. Eight rows are `eight` bytes from the next eight, 64
/// columns `slab` from the next 64; matmuls whose shared dimension is that of columns read 16 of
/// them.
struct Matrix {
  uint32_t low, high;
};
TRAINRT_DEVICE Matrix matrix(uint32_t at, uint32_t slab, uint32_t eight = 1024) {
  constexpr uint32_t permuted128 = 1;
  return {(at & 0x3ffff) >> 4 | (slab >> 4) << 16, eight >> 4 | permuted128 << 30};
}
/// That which begins `bytes` further.
TRAINRT_DEVICE Matrix moved(const Matrix &matrix, uint32_t bytes) {
  return {matrix.low + (bytes >> 4), matrix.high};
}

/// Before matmuls whose registers the thread has written.
TRAINRT_DEVICE void beginMatmuls() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int parts> TRAINRT_DEVICE void beginMatmuls(uint32_t (&a)[parts][4]) {
#pragma unroll
  for (int i = 0; i < parts; ++i)
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
  beginMatmuls();
}
/// The matmuls since the last one of these are a group.
TRAINRT_DEVICE void endGroup() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most `groups` of the last ones are not done. What the others have left in `sums`
/// may be read then.
template <int groups> TRAINRT_DEVICE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(groups) : "memory");
}
template <int groups, int chunks> TRAINRT_DEVICE void wait(float (&sums)[chunks][4]) {
  wait<groups>();
#pragma unroll
  for (int i = 0; i < chunks; ++i)
    asm volatile(""
                 : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]),
                   "+f"(sums[i][3])::"memory");
}

// Matmuls: sums[64, N] = or += a[64, 16] b[16, N]. A thread's share of sums is a warp's 16 rows of
// them as those of `multiply` are, eight columns after eight. `multiplyRows`: both are told by
// rows, b by those of its transposed matrix ([N, 16]). `multiplyColumns`: `a` is in registers, as
// that of `multiply`, and b is told by its own rows. (A left operand may not stay in registers for
// several turns of a loop: ptxas 13.0 gives these to others.)

#define TRAINRT_SUMS_4(kind, d, i) kind(d[i][0]), kind(d[i][1]), kind(d[i][2]), kind(d[i][3])
#define TRAINRT_SUMS_16(kind, d, i)                                                                \
  TRAINRT_SUMS_4(kind, d, i), TRAINRT_SUMS_4(kind, d, i + 1), TRAINRT_SUMS_4(kind, d, i + 2),      \
      TRAINRT_SUMS_4(kind, d, i + 3)
#define TRAINRT_SUMS_8(kind, d) TRAINRT_SUMS_16(kind, d, 0), TRAINRT_SUMS_16(kind, d, 4)
#define TRAINRT_ALL_SUMS_64(kind, d) TRAINRT_SUMS_8(kind, d)
#define TRAINRT_ALL_SUMS_128(kind, d)                                                              \
  TRAINRT_SUMS_8(kind, d), TRAINRT_SUMS_16(kind, d, 8), TRAINRT_SUMS_16(kind, d, 12)
#define TRAINRT_PLACES_64                                                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "     \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TRAINRT_PLACES_128                                                                         \
  TRAINRT_PLACES_64                                                                                \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "   \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TRAINRT_MATMUL(n, type, adds, operands)                                                    \
  "{.reg .pred p; .reg .b64 a, b; setp.ne.b32 p, " adds ", 0; " operands                           \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" TRAINRT_PLACES_##n "}, "
// The numbers of the places behind the sums.
#define TRAINRT_BOTH(a, b, c, d) "mov.b64 a, {" a ", " b "}; mov.b64 b, {" c ", " d "}; "
#define TRAINRT_RIGHT(e, f) "mov.b64 b, {" e ", " f "}; "
#define TRAINRT_LEFT(a, b, c, d) "{" a ", " b ", " c ", " d "}"

#define TRAINRT_MATMULS(n, Type, type, a, b, c, d, e, f)                                           \
  template <bool adds>                                                                             \
  TRAINRT_DEVICE void multiplyRows(Type, float (&sums)[n / 8][4], const Matrix &left,              \
                                   const Matrix &right) {                                          \
    if constexpr (adds)                                                                            \
      asm volatile(TRAINRT_MATMUL(n, type, "1", TRAINRT_BOTH(a, b, c, d)) "a, b, p, 1, 1, 0, 0;}"  \
                   : TRAINRT_ALL_SUMS_##n("+f", sums)                                              \
                   : "r"(left.low), "r"(left.high), "r"(right.low), "r"(right.high)                \
                   : "memory");                                                                    \
    else                                                                                           \
      asm volatile(TRAINRT_MATMUL(n, type, "0", TRAINRT_BOTH(a, b, c, d)) "a, b, p, 1, 1, 0, 0;}"  \
                   : TRAINRT_ALL_SUMS_##n("=f", sums)                                              \
                   : "r"(left.low), "r"(left.high), "r"(right.low), "r"(right.high)                \
                   : "memory");                                                                    \
  }                                                                                                \
  TRAINRT_DEVICE void multiplyColumns(Type, float (&sums)[n / 8][4], const uint32_t (&left)[4],    \
                                      const Matrix &right) {                                       \
    asm volatile(TRAINRT_MATMUL(n, type, "1", TRAINRT_RIGHT(e, f))                                 \
                     TRAINRT_LEFT(a, b, c, d) ", b, p, 1, 1, 1;}"                                  \
                 : TRAINRT_ALL_SUMS_##n("+f", sums)                                                \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right.low),         \
                   "r"(right.high)                                                                 \
                 : "memory");                                                                      \
  }
TRAINRT_MATMULS(64, BF16, "bf16", "%32", "%33", "%34", "%35", "%36", "%37")
TRAINRT_MATMULS(64, F16, "f16", "%32", "%33", "%34", "%35", "%36", "%37")
TRAINRT_MATMULS(128, BF16, "bf16", "%64", "%65", "%66", "%67", "%68", "%69")
TRAINRT_MATMULS(128, F16, "f16", "%64", "%65", "%66", "%67", "%68", "%69")
#undef TRAINRT_LEFT
#undef TRAINRT_RIGHT
#undef TRAINRT_BOTH
#undef TRAINRT_MATMULS
#undef TRAINRT_MATMUL
#undef TRAINRT_PLACES_128
#undef TRAINRT_PLACES_64
#undef TRAINRT_ALL_SUMS_128
#undef TRAINRT_ALL_SUMS_64
#undef TRAINRT_SUMS_8
#undef TRAINRT_SUMS_16
#undef TRAINRT_SUMS_4

} // namespace trainrt::cuda::warp

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_H
