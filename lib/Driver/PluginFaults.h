// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plug-ins in C++: loading them, and telling of those that crash.
#ifndef TRAINC_LIB_DRIVER_PLUGINFAULTS_H
#define TRAINC_LIB_DRIVER_PLUGINFAULTS_H

#include "trainc/Plugin/Culprit.h"
#include <vector>

namespace trainc {

/// Loads those of the files of --plugin that are shared objects; returns the exit code, after an
/// error.
int loadPlugins(const std::vector<std::string> &files);
/// Tells of a plug-in that has crashed, `where` ("while it was loaded"), by this signal; returns
/// the exit code.
int tellCulprit(const plugin::Culprit &culprit, const std::string &where,
                const std::string &signal);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PLUGINFAULTS_H
