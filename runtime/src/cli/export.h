// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A session's parameters and gradients in files, and its adapters from files.
#ifndef TRAINRT_CLI_EXPORT_H
#define TRAINRT_CLI_EXPORT_H

#include "cli/handles.h"
#include "cli/options.h"
#include "cli/reporter.h"

#include <string>

namespace trainrt::run {

/// What --export, --adapter and --merge-adapter need and the package lacks, or the model where it
/// is, so that it is known before hours of training. Throws Failure.
void checkExports(const Options &options, const Package &package);

/// Of --adapter.
void loadAdapter(const Options &options, trainrt_session *session, Reporter &reporter);

/// What --export and --merge-adapter say.
void writeExports(const Options &options, const Package &package, trainrt_session *session,
                  Reporter &reporter);

/// The gradients of all trained parameters after trainrt_gradients.
void exportGradients(const Package &package, trainrt_session *session, const std::string &path,
                     Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_EXPORT_H
