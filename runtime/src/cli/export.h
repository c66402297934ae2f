// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writing a session's parameters or gradients into a safetensors file.
#ifndef TRAINRT_CLI_EXPORT_H
#define TRAINRT_CLI_EXPORT_H

#include "cli/handles.h"
#include "cli/reporter.h"

#include <string>

namespace trainrt::run {

/// All parameters, frozen ones too, under their names.
void exportParameters(const Package &package, trainrt_session *session, const std::string &path,
                      Reporter &reporter);

/// Says which parameter, the first, has values that are not finite; all of them are in `path`.
void warnNotFinite(const Package &package, trainrt_session *session, const std::string &path,
                   Reporter &reporter);

/// The gradients of all trained parameters after trainrt_gradients.
void exportGradients(const Package &package, trainrt_session *session, const std::string &path,
                     Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_EXPORT_H
