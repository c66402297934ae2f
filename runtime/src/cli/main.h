// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// trainc-run as a function.
#ifndef TRAINRT_CLI_MAIN_H
#define TRAINRT_CLI_MAIN_H

namespace trainrt::run {

/// Runs the whole program and returns its exit code: 0 success, 1 the input is at fault, 2 usage,
/// 3 out of memory or a device fault, 4 internal error, 5 another rank has ended. Catches SIGINT,
/// SIGTERM and SIGHUP.
int runMain(int argc, char **argv);

} // namespace trainrt::run

#endif // TRAINRT_CLI_MAIN_H
