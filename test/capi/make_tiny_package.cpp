// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the unit tests' tiny package, for the programs that see the C API only.
#include "tiny_package.h"

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  trainrt::test::writeTinyPackage(argv[1]);
  return 0;
}
