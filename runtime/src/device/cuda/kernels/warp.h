// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels use of a GPU of architecture sm_80 or newer, as functions: the instructions of
// tensor cores, copies into shared memory, exchange within a warp. Compiled by clang without CUDA's
// headers. Addresses of shared memory are numbers.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARP_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARP_H

#include <stdint.h>

#define TRAINRT_DEVICE __attribute__((device, always_inline)) inline

namespace trainrt::cuda::warp {

struct BF16 {};
struct F16 {};
struct alignas(16) Chunk {
  uint32_t words[4];
};

extern "C" __attribute__((shared)) __attribute__((aligned(128))) char trainrtShared[];

TRAINRT_DEVICE uint32_t sharedMemory() {
  return uint32_t(uintptr_t((__attribute__((address_space(3))) char *)trainrtShared));
}
TRAINRT_DEVICE uint32_t thread() { return __nvvm_read_ptx_sreg_tid_x(); }
TRAINRT_DEVICE uint32_t threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
TRAINRT_DEVICE uint32_t blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
TRAINRT_DEVICE uint32_t blockY() { return __nvvm_read_ptx_sreg_ctaid_y(); }
TRAINRT_DEVICE uint32_t blockZ() { return __nvvm_read_ptx_sreg_ctaid_z(); }

/// The same value, of which the compiler knows nothing: what follows from it takes no registers
/// outside of a loop.
TRAINRT_DEVICE uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// All threads of the block, and what they wrote to shared memory.
TRAINRT_DEVICE void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }
/// The same of a warp.
TRAINRT_DEVICE void meet() { asm volatile("bar.warp.sync -1;" ::: "memory"); }

TRAINRT_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TRAINRT_DEVICE float log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The value of the lane whose number differs in the bits of `mask`.
TRAINRT_DEVICE uint32_t exchange(uint32_t x, uint32_t mask) {
  uint32_t y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(y) : "r"(x), "r"(mask));
  return y;
}
TRAINRT_DEVICE float exchange(float x, uint32_t mask) {
  return __builtin_bit_cast(float, exchange(__builtin_bit_cast(uint32_t, x), mask));
}

/// A bit of every lane.
TRAINRT_DEVICE uint32_t vote(bool x) {
  uint32_t lanes;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, p, -1;}"
               : "=r"(lanes)
               : "r"(uint32_t(x)));
  return lanes;
}

/// 16 bytes into shared memory, or zeros; done after `copied`.
TRAINRT_DEVICE void copy(uint32_t to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
/// 4 bytes.
TRAINRT_DEVICE void copyWord(uint32_t to, const void *from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(to), "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}
/// Waits for this thread's copies.
TRAINRT_DEVICE void copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Copies since the last time are a group, which may be none; waits for all but the last `Groups`.
TRAINRT_DEVICE void endCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Groups> TRAINRT_DEVICE void copiedBut() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Groups) : "memory");
}

TRAINRT_DEVICE Chunk load(const void *from) {
  Chunk c;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(c.words[0]), "=r"(c.words[1]), "=r"(c.words[2]), "=r"(c.words[3])
               : "l"(from));
  return c;
}
TRAINRT_DEVICE float load(const float *from) {
  float x;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(from));
  return x;
}
TRAINRT_DEVICE void store(void *to, const Chunk &c) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(c.words[0]), "r"(c.words[1]), "r"(c.words[2]), "r"(c.words[3])
               : "memory");
}
/// Words that nobody writes while the kernel runs, or zeros; the address is a multiple of their
/// size.
TRAINRT_DEVICE void loadConstant(uint64_t from, bool valid, uint32_t (&w)[1]) {
  asm("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.b32 %0, [%1];}"
      : "=&r"(w[0])
      : "l"(from), "r"(uint32_t(valid)));
}
TRAINRT_DEVICE void loadConstant(uint64_t from, bool valid, uint32_t (&w)[2]) {
  asm("{.reg .pred p; setp.ne.b32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
      "@p ld.global.nc.v2.b32 {%0, %1}, [%2];}"
      : "=&r"(w[0]), "=&r"(w[1])
      : "l"(from), "r"(uint32_t(valid)));
}
TRAINRT_DEVICE void loadConstant(uint64_t from, bool valid, uint32_t (&w)[4]) {
  asm("{.reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
      "mov.b32 %3, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];}"
      : "=&r"(w[0]), "=&r"(w[1]), "=&r"(w[2]), "=&r"(w[3])
      : "l"(from), "r"(uint32_t(valid)));
}
TRAINRT_DEVICE void storeWords(uint64_t to, const uint32_t (&w)[1]) {
  asm volatile("st.global.b32 [%0], %1;" : : "l"(to), "r"(w[0]) : "memory");
}
TRAINRT_DEVICE void storeWords(uint64_t to, const uint32_t (&w)[2]) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" : : "l"(to), "r"(w[0]), "r"(w[1]) : "memory");
}
TRAINRT_DEVICE void storeWords(uint64_t to, const uint32_t (&w)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
}
/// The low half.
TRAINRT_DEVICE void storeHalf(uint64_t to, uint32_t w) {
  asm volatile("{.reg .b16 l, h; mov.b32 {l, h}, %1; st.global.b16 [%0], l;}"
               :
               : "l"(to), "r"(w)
               : "memory");
}
TRAINRT_DEVICE void storeShared(uint32_t to, const Chunk &c) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "r"(c.words[0]), "r"(c.words[1]), "r"(c.words[2]), "r"(c.words[3])
               : "memory");
}
TRAINRT_DEVICE void storeShared(uint32_t to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" : : "r"(to), "f"(x) : "memory");
}
TRAINRT_DEVICE void storeSharedWord(uint32_t to, uint32_t w) {
  asm volatile("st.shared.b32 [%0], %1;" : : "r"(to), "r"(w) : "memory");
}
TRAINRT_DEVICE void storeSharedWords(uint32_t to, uint32_t w0, uint32_t w1) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" : : "r"(to), "r"(w0), "r"(w1) : "memory");
}
/// The lowest byte.
TRAINRT_DEVICE void storeSharedByte(uint32_t to, uint32_t w) {
  asm volatile("st.shared.u8 [%0], %1;" : : "r"(to), "r"(w) : "memory");
}
TRAINRT_DEVICE uint32_t loadSharedWord(uint32_t from) {
  uint32_t w;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(from));
  return w;
}
TRAINRT_DEVICE void loadSharedWords(uint32_t from, uint32_t &w0, uint32_t &w1) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(w0), "=r"(w1) : "r"(from));
}
TRAINRT_DEVICE Chunk loadSharedChunk(uint32_t from) {
  Chunk c;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(c.words[0]), "=r"(c.words[1]), "=r"(c.words[2]), "=r"(c.words[3])
               : "r"(from));
  return c;
}
TRAINRT_DEVICE float loadShared(uint32_t from) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from));
  return x;
}
TRAINRT_DEVICE void loadShared(uint32_t from, float &x, float &y) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(from));
}

/// Four matrices of 8 x 8 elements of two bytes, each lane with the address of a row: lane l that
/// of row l % 8 of matrix l / 8. Lane l gets the elements 2 (l % 4) and the next of row l / 4.
TRAINRT_DEVICE void loadMatrices(uint32_t (&m)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row));
}
/// The same, transposed.
TRAINRT_DEVICE void loadTransposed(uint32_t (&m)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row));
}
TRAINRT_DEVICE uint32_t transposed(uint32_t m) {
  uint32_t t;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(m));
  return t;
}

/// c[16, 8] += a[16, 16] b[16, 8]
TRAINRT_DEVICE void multiply(BF16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
TRAINRT_DEVICE void multiply(F16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two elements, the first in the low half.
TRAINRT_DEVICE uint32_t pack(BF16, float x, float y) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  return both;
}
TRAINRT_DEVICE uint32_t pack(F16, float x, float y) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  return both;
}
/// The low halves of two words, or the high ones, those of the first in the low half.
TRAINRT_DEVICE uint32_t lows(uint32_t first, uint32_t second) {
  return __nvvm_prmt(first, second, 0x5410);
}
TRAINRT_DEVICE uint32_t highs(uint32_t first, uint32_t second) {
  return __nvvm_prmt(first, second, 0x7632);
}
TRAINRT_DEVICE void unpack(BF16, uint32_t both, float &x, float &y) {
  x = __builtin_bit_cast(float, both << 16);
  y = __builtin_bit_cast(float, both & 0xffff0000u);
}
TRAINRT_DEVICE void unpack(F16, uint32_t both, float &x, float &y) {
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(x), "=f"(y)
      : "r"(both));
}

} // namespace trainrt::cuda::warp

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARP_H
