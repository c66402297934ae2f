// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gpu-libraries-test [gemm|attention|segments|workspace] [test|time]: the runtime's use of cuBLASLt
// and cuDNN on a device. All parts by default. Ends with "N passed, N failed".

#include "device.h"
#include "tests.h"

#include <cstdio>
#include <cstring>

int main(int argc, char **argv) {
  using namespace trainrt::cuda::test;
  bool gemm = true, attention = true, segments = true, workspace = true, test = true, time = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "gemm") == 0)
      attention = segments = workspace = false;
    else if (std::strcmp(argv[i], "attention") == 0)
      gemm = segments = workspace = false;
    else if (std::strcmp(argv[i], "segments") == 0)
      gemm = attention = workspace = false;
    else if (std::strcmp(argv[i], "workspace") == 0)
      gemm = attention = segments = false;
    else if (std::strcmp(argv[i], "test") == 0)
      time = false;
    else if (std::strcmp(argv[i], "time") == 0)
      test = false;
    else {
      std::fprintf(stderr, "usage: %s [gemm|attention|segments|workspace] [test|time]\n", argv[0]);
      return 2;
    }
  }
  Device device;
  std::printf("%s\n", device.name().c_str());
  if (gemm && test)
    testGemm(device);
  if (attention && test)
    testAttention(device);
  if (segments && test)
    testSegments(device);
  if (workspace && test)
    testWorkspaces(device);
  if (gemm && time)
    timeGemms(device);
  if (attention && time)
    timeAttentions(device);
  if (segments && time)
    timeSegments(device);
  std::printf("%d passed, %d failed\n", passedChecks(), failedChecks());
  return failedChecks() ? 1 : 0;
}
