// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which levels this machine runs, and the kernels by their names.

#include "plan/kernels.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace trainrt {

/// The best first: chooseKernels takes the first one that both have.
const char *const cpuLevels[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2",
                                 "x86-64",    "armv8.2-a", nullptr};

/// Levels as the x86-64 psABI has them, by the features that kernels use; Armv8.2-A by what it has
/// and Armv8.0-A and 8.1-A lack: atomics in one instruction (8.1), and DC CVAP.
bool cpuSupports(const std::string &level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return level == "x86-64" || (level == "x86-64-v2" && v2) || (level == "x86-64-v3" && v3) ||
         (level == "x86-64-v4" && v4);
#elif defined(__aarch64__)
  constexpr unsigned long needed = HWCAP_ASIMD | HWCAP_ATOMICS | HWCAP_DCPOP;
  return level == "armv8.2-a" && (getauxval(AT_HWCAP) & needed) == needed;
#else
  return false;
#endif
}

/// Those that trainc compiles for.
std::string describeCpu() {
#if defined(__x86_64__)
  for (const char *level : {"x86-64-v4", "x86-64-v3"})
    if (cpuSupports(level))
      return std::string("is ") + level + "; compile with --target cpu:" + level;
  return "lacks AVX2, FMA or BMI, without which there are no kernels for x86-64 (x86-64-v3): use "
         "a processor that has them";
#elif defined(__aarch64__)
  if (cpuSupports("armv8.2-a"))
    return "is armv8.2-a; compile with --target cpu:armv8.2-a";
  return "is older than Armv8.2-A, without which there are no kernels for AArch64 (armv8.2-a): "
         "use a processor that is newer";
#else
  return "is of a kind that there are no kernels for (x86-64 and AArch64): use one of those";
#endif
}

Status KernelLibrary::load(const void *data, uint64_t size, const std::vector<std::string> &names,
                           std::unique_ptr<KernelLibrary> &library) {
  std::unique_ptr<KernelLibrary> result(new KernelLibrary());
  TRAINRT_TRY(result->object.load(data, size));
  // All kernels of the program, so that a missing one is told when the package is opened, not in a
  // step.
  for (const std::string &name : names) {
    void *symbol = result->object.symbol(name);
    if (!symbol)
      return fail(Code::BadPackage, "has no kernel '", name, "'");
    result->functions.push_back(reinterpret_cast<KernelFunction>(symbol));
  }
  library = std::move(result);
  return {};
}

} // namespace trainrt
