// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The introduction of a run.
#ifndef TRAINRT_CLI_LOG_INTRODUCE_H
#define TRAINRT_CLI_LOG_INTRODUCE_H

#include "cli/data/batch_order.h"
#include "cli/data/dataset.h"
#include "cli/options.h"
#include "cli/setup.h"

namespace trainrt::run {

/// Introduces package, data and memory plan to a person, and returns the plan, if there is data to
/// train on. `data` and `order` may be nullptr.
trainrt_memory introduce(const Options &options, const Package &package, const Session &session,
                         const Dataset *data, BatchOrder *order, Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_LOG_INTRODUCE_H
