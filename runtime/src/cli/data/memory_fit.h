// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether batches fit into the memory that is free, before the first one is run.
#ifndef TRAINRT_CLI_DATA_MEMORY_FIT_H
#define TRAINRT_CLI_DATA_MEMORY_FIT_H

#include "cli/data/dataset.h"

namespace trainrt::run {

/// What batches are for, as trainrt_package_memory has it: 0 evaluation, else micro-batches.
using MicroBatches = uint32_t;

/// Where neither the command line nor the package says how many rows a batch has, and the default
/// needs more memory than is free: makes them smaller, if some are small enough.
void chooseBatch(const Package &package, trainrt_session *session, Dataset &data,
                 MicroBatches micro);

/// Throws Failure where a batch of `rows` rows, the longest of `length` (0: as long as the data),
/// needs more memory than is free: with the largest that would fit, and where no option names the
/// rows, with `option`, which decides on them. Warns where only batches without padding do.
void requireMemory(const Package &package, trainrt_session *session, const Dataset &data,
                   MicroBatches micro, int64_t rows, int64_t length, const char *option,
                   Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_MEMORY_FIT_H
