// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of the kernels that were compiled the processor can run.
#ifndef TRAINRT_DEVICE_CPU_CHOOSE_KERNELS_H
#define TRAINRT_DEVICE_CPU_CHOOSE_KERNELS_H

#include <stdexcept>

namespace trainrt {

/// The fastest; each may be null. NEON is a part of AArch64.
template <typename Kernels>
const Kernels *chooseKernels([[maybe_unused]] const Kernels *avx512,
                             [[maybe_unused]] const Kernels *avx2, const Kernels *neon) {
  if (neon)
    return neon;
#if defined(__x86_64__)
  if (avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return avx512;
  if (avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2;
#endif
  throw std::runtime_error("this processor has no AVX2 and FMA, which the CPU target needs");
}

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_CHOOSE_KERNELS_H
