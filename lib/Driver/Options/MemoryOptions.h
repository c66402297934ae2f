// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory a step takes, and what it may cost to need less.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_MEMORYOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_MEMORYOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class MemoryOptions : OptionGroup {
public:
  MemoryOptions(CLI::App &app, CompileOptions &options);

  void check() const;
  /// Behind the target.
  void read();

private:
  std::string linkRate;
  double linkLatency = 0;
  std::string offloadLimit;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_MEMORYOPTIONS_H
