// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One executable for the programs of the compiler: trainc and trainc-opt, by the name that it is
// started with, and the linker of kernels with `-flavor gnu`, as lld's own main has it.

#include "trainc/Target/CPU/Linker.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

int traincMain(int argc, char **argv);
int traincOptMain(int argc, char **argv);
int lldMain(int argc, char **argv);

int main(int argc, char **argv) {
  // Started by the code generator for its kernels.
  if (argc > 2 && llvm::StringRef(argv[1]) == "-flavor")
    return lldMain(argc, argv);
  trainc::codegen::setLinker(
      llvm::sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(&lldMain)));
  // Installed as trainc-opt by a link.
  return argc > 0 && llvm::sys::path::filename(argv[0]) == "trainc-opt" ? traincOptMain(argc, argv)
                                                                        : traincMain(argc, argv);
}
