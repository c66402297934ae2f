// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --info: what a package is, without running it.
#ifndef TRAINRT_RUN_INFO_H
#define TRAINRT_RUN_INFO_H

#include "run/handles.h"

#include <string>

namespace trainrt::run {

/// Lines for people, or one JSON object and a newline.
std::string packageInfo(const Package &package, bool json);

/// Elements of all parameters and of those that are trained; -1 where sizes are symbolic.
struct ParameterCount {
  int64_t all = 0, trained = 0;
};
ParameterCount countParameters(const Package &package);

} // namespace trainrt::run

#endif // TRAINRT_RUN_INFO_H
