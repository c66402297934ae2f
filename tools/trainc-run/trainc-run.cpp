// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// trainc-run: trains with a compiled package. All of it is in runtime/src/cli.
#include "cli/main.h"

int main(int argc, char **argv) { return trainrt::run::runMain(argc, argv); }
