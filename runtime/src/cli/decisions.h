// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What decides a run beside its package and data: kept in its checkpoints, so that a run goes on as
// it began although the command line says less.
#ifndef TRAINRT_CLI_DECISIONS_H
#define TRAINRT_CLI_DECISIONS_H

#include "cli/data/dataset.h"
#include "cli/options.h"

#include <map>
#include <string>
#include <vector>

namespace trainrt::run {

/// Options and their values, as a command line would say them; "" for a flag.
using Decisions = std::map<std::string, std::string>;

/// What --accumulate-by is where nobody says it.
const char *defaultWeighting(const trainrt_package_info &package);

/// Those of a run, also where they are the package's defaults. `schedule`: with its total.
Decisions decisionsOf(const Options &options, const Package &package, const Dataset &data,
                      const LrSchedule &schedule);

/// The options of a run that goes on: what the command line does not say is as `saved` has it,
/// unless the package says the same, or it needs --eval or --save and these are not given. Throws
/// Failure where both together make no sense.
Options continued(const Options &options, const Package &package, Decisions saved);

/// "--lr was 0.1 and is 0.2": what is otherwise, but for how long the run is.
std::vector<std::string> differences(const Decisions &before, const Decisions &now);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DECISIONS_H
