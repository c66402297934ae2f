// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run writes, looked at before it begins: whether it can be written, and whether it would
// replace what the run reads.
#ifndef TRAINRT_CLI_OUTPUTS_H
#define TRAINRT_CLI_OUTPUTS_H

#include "cli/handles.h"
#include "cli/options.h"

namespace trainrt::run {

/// Throws Failure where a result could not be written, before hours of training are spent on it, or
/// where it would be written over an input of the run, or over another result.
void checkOutputs(const Options &options, const Package &package);

} // namespace trainrt::run

#endif // TRAINRT_CLI_OUTPUTS_H
