// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which passes run.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_PASSOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_PASSOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class PassOptions : OptionGroup {
public:
  PassOptions(CLI::App &app, CompileOptions &options);

  /// Behind the target, whose precision decides, too.
  void read();

private:
  std::string level = "1";
  Switch hoistSlices, moveTransposes, labelSparsity, eliminatePadding, chunkLoss, scheduleUpdates,
      libraryConvolutions, mergeProjections, keepRoundedWeights;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_PASSOPTIONS_H
