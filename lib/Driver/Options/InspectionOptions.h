// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is told and saved on the way, where to stop, and what to go on with.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_INSPECTIONOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_INSPECTIONOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class InspectionOptions : OptionGroup {
public:
  InspectionOptions(CLI::App &app, CompileOptions &options);

  void check();
  void read();

private:
  void checkReplayed() const;
  void checkResumed() const;

  std::string logLevel, explainKind;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_INSPECTIONOPTIONS_H
