// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gpu-libraries-test [gemm|attention|windows|warpgroups|segments|segment-windows|workspace|
// convolution] [test|time]: the runtime's use of cuBLASLt and cuDNN on a device, and its own
// attention. All parts by default. Ends with "N passed, N failed".

#include "device.h"
#include "tests.h"

#include <cstdio>
#include <string>

namespace {

using namespace trainrt::cuda::test;

struct Part {
  const char *name;
  void (*test)(Device &), (*time)(Device &);
};
constexpr Part parts[] = {
    {"gemm", testGemm, timeGemms},
    {"attention", testAttention, timeAttentions},
    {"windows", testWindows, timeWindows},
    {"warpgroups", testWarpgroups, timeWarpgroups},
    {"segments", testSegments, timeSegments},
    {"segment-windows", testSegmentWindows, nullptr},
    {"workspace", testWorkspaces, nullptr},
    {"convolution", testConvolutions, timeConvolutions},
};

} // namespace

int main(int argc, char **argv) {
  std::string only;
  bool test = true, time = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    bool isPart = false;
    for (const Part &part : parts)
      isPart |= word == part.name;
    if (isPart)
      only = word;
    else if (word == "test")
      time = false;
    else if (word == "time")
      test = false;
    else {
      std::fprintf(stderr,
                   "usage: %s [gemm|attention|windows|warpgroups|segments|segment-windows|"
                   "workspace|convolution] [test|time]\n",
                   argv[0]);
      return 2;
    }
  }
  Device device;
  std::printf("%s\n", device.name().c_str());
  auto each = [&](bool wanted, auto function) {
    for (const Part &part : parts)
      if (wanted && part.*function && (only.empty() || only == part.name))
        (part.*function)(device);
  };
  each(test, &Part::test);
  each(time, &Part::time);
  std::printf("%d passed, %d failed\n", passedChecks(), failedChecks());
  return failedChecks() ? 1 : 0;
}
