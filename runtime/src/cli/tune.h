// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --tune: a package that has been fitted to the GPU.
#ifndef TRAINRT_CLI_TUNE_H
#define TRAINRT_CLI_TUNE_H

#include "cli/data/dataset.h"
#include "cli/handles.h"
#include "cli/options.h"
#include "cli/reporter.h"

namespace trainrt::run {

/// Throws where the package cannot be tuned, or the new one would not find its weights.
void checkTunable(const Options &options, const Package &package);
void tune(const Options &options, trainrt_session *session, const Dataset &data,
          Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_TUNE_H
