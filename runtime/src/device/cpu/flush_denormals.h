// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers too small to be normal as zeros, while an object lives.
#ifndef TRAINRT_DEVICE_CPU_FLUSH_DENORMALS_H
#define TRAINRT_DEVICE_CPU_FLUSH_DENORMALS_H

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace trainrt {

/// Of the thread's operands and results, as the products of pairs of bf16 in hardware have it,
/// whatever the thread's own setting.
class FlushDenormals {
public:
  explicit FlushDenormals(bool wanted) : wanted(wanted) {
    if (!wanted)
      return;
    before = get();
    set(before | flags);
  }
  ~FlushDenormals() {
    if (wanted)
      set(before);
  }
  FlushDenormals(const FlushDenormals &) = delete;
  FlushDenormals &operator=(const FlushDenormals &) = delete;

private:
#if defined(__x86_64__)
  using Register = uint32_t;
  static constexpr Register flags = 0x8040; ///< flush to zero, denormals are zeros
  static Register get() { return _mm_getcsr(); }
  static void set(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = uint64_t;
  static constexpr Register flags = 1 << 24; ///< FZ, which is both
  static Register get() {
    Register value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(Register value) { __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  // There are no kernels for other processors: gemmF32 and gemmBF16 throw.
  using Register = uint32_t;
  static constexpr Register flags = 0;
  static Register get() { return 0; }
  static void set(Register) {}
#endif

  const bool wanted;
  Register before = 0;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_FLUSH_DENORMALS_H
