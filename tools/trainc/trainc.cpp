// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc: a thin main over the driver.

#include "trainc/Driver/Driver.h"
#include "trainc/Support/Temporaries.h"

int main(int argc, char **argv) {
  // Before any temporary file.
  trainc::endOnSignals();
  trainc::CompileOptions options;
  if (std::optional<int> code = trainc::parseCommandLine(argc, argv, options))
    return *code;
  return trainc::compile(options);
}
