// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loss, optimizer, and which parameters are trained how.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_TRAININGOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_TRAININGOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class TrainingOptions : OptionGroup {
public:
  TrainingOptions(CLI::App &app, CompileOptions &options);

  /// Without a loss there is no training: --inference excludes these options, and others that are
  /// about training. To be called when all are declared.
  void excludeFromInference();
  void read();

private:
  void readGroups();
  void readOptimizer();

  std::string betas, lrScale, noDecay, freeze, distribution;
  std::vector<std::string> groups;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_TRAININGOPTIONS_H
