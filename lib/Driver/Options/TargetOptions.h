// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code is generated for, and how.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_TARGETOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_TARGETOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class TargetOptions : OptionGroup {
public:
  TargetOptions(CLI::App &app, CompileOptions &options);

  void read();

private:
  std::string target = "auto", precision = "fp32";
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_TARGETOPTIONS_H
