// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes and forms of the model.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_MODELOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_MODELOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class ModelOptions : OptionGroup {
public:
  ModelOptions(CLI::App &app, CompileOptions &options);

  void read();

private:
  std::string dropout, batchNorm;
  std::vector<std::string> dims, padTokens;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_MODELOPTIONS_H
