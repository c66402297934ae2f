// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Going on with a file that holds the command line that it was made with: a reproducer, or saved
// IR.
#ifndef TRAINC_LIB_DRIVER_STOREDCOMMANDLINE_H
#define TRAINC_LIB_DRIVER_STOREDCOMMANDLINE_H

#include "trainc/Driver/Driver.h"

namespace trainc {

/// The options of the command line `stored` in `file`; how much is told and what is saved is what
/// `given` says. Returns an exit code.
int takeStoredOptions(const std::vector<std::string> &stored, const std::string &file,
                      const CompileOptions &given, CompileOptions &options);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_STOREDCOMMANDLINE_H
