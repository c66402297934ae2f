// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --info: what a package is, without running it.
#ifndef TRAINRT_CLI_INFO_H
#define TRAINRT_CLI_INFO_H

#include "cli/handles.h"

#include <cstdint>
#include <map>
#include <string>

namespace trainrt::run {

/// Lines for people, or one JSON object and a newline.
std::string packageInfo(const Package &package, bool json);

/// Values of all parameters and of those that are trained; -1 where sizes are symbolic. Those of a
/// quantized one count as the model has them, and its statistics are no parameters of their own.
struct ParameterCount {
  int64_t all = 0, trained = 0, tensors = 0;
  std::map<std::string, int64_t> quantized; ///< tensors, by format
  /// "3,180,000 in 30 tensors, 12,000 trained, 28 tensors as nf4".
  std::string text() const;
};
ParameterCount countParameters(const Package &package);

} // namespace trainrt::run

#endif // TRAINRT_CLI_INFO_H
