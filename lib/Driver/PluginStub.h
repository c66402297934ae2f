// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --write-plugin-stub
#ifndef TRAINC_LIB_DRIVER_PLUGINSTUB_H
#define TRAINC_LIB_DRIVER_PLUGINSTUB_H

#include "lib/Driver/Compilation.h"

namespace trainc {

/// Writes what a plug-in for the operator that the options name begins with, by its first node in
/// the model. The exit code.
int writePluginStub(Compilation &compilation);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PLUGINSTUB_H
