// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What goes with what on the command line of trainc-run.
#ifndef TRAINRT_CLI_CONFLICTS_H
#define TRAINRT_CLI_CONFLICTS_H

#include "cli/options.h"

#include <string>

namespace trainrt::run {

/// What is wrong with the combination of options, with the way out; "" if nothing.
std::string findConflict(const Options &options);

} // namespace trainrt::run

#endif // TRAINRT_CLI_CONFLICTS_H
