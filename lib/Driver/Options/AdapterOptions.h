// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Low-rank adapters and quantized weights.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_ADAPTEROPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_ADAPTEROPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class AdapterOptions : OptionGroup {
public:
  AdapterOptions(CLI::App &app, CompileOptions &options);

  void check() const;
  void read();

private:
  std::string lora, fuseLora, quantize;
  bool noFuseLora = false;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_ADAPTEROPTIONS_H
