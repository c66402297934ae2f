// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --tune: a package that has been fitted to the GPU.
#ifndef TRAINRT_RUN_TUNE_H
#define TRAINRT_RUN_TUNE_H

#include "run/data/dataset.h"
#include "run/handles.h"
#include "run/options.h"
#include "run/reporter.h"

namespace trainrt::run {

/// Throws where the package cannot be tuned, or the new one would not find its weights.
void checkTunable(const Options &options, const Package &package);
void tune(const Options &options, trainrt_session *session, const Dataset &data,
          Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_RUN_TUNE_H
