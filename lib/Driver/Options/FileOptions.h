// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is read and what is written: the model and the package.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_FILEOPTIONS_H
#define TRAINC_LIB_DRIVER_OPTIONS_FILEOPTIONS_H

#include "lib/Driver/Options/OptionGroup.h"

namespace trainc {

class FileOptions : OptionGroup {
public:
  FileOptions(CLI::App &app, CompileOptions &options);
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_FILEOPTIONS_H
