// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the unit tests' tiny package, for the programs that see the C API only:
// make-tiny-package FILE [cuda|cuda-gemm]
#include "tiny_package.h"

#include <cstring>

int main(int argc, char **argv) {
  trainrt::test::TinyOptions options;
  options.cudaGemm = argc == 3 && std::strcmp(argv[2], "cuda-gemm") == 0;
  options.cuda = options.cudaGemm || (argc == 3 && std::strcmp(argv[2], "cuda") == 0);
  if (argc != (options.cuda ? 3 : 2))
    return 2;
  trainrt::test::writeTinyPackage(argv[1], options);
  return 0;
}
