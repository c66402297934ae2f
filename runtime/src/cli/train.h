// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The training loop.
#ifndef TRAINRT_CLI_TRAIN_H
#define TRAINRT_CLI_TRAIN_H

#include "cli/data/batch_order.h"
#include "cli/data/dataset.h"
#include "cli/options.h"
#include "cli/ranks/place.h"
#include "cli/setup.h"

namespace trainrt::run {

/// Trains as `options` say, with evaluations and checkpoints; or, with --dump-gradients, computes
/// the gradients of the first batch. Throws Failure: after saving, where the loss was not finite or
/// a signal came. `order`: from the beginning. `evalData` and `density` may be nullptr. Returns why
/// it ended before its time; "" if it did not.
std::string train(const Options &options, const Package &package, const Session &session,
                  const Dataset &data, std::unique_ptr<BatchOrder> order, const Dataset *evalData,
                  JoinedRanks &ranks, DensityLog *density, MemoryLog *memory, Reporter &reporter);

/// Checks what can be checked before a session exists, which may take time. Throws Failure.
void checkTrainable(const Options &options, const Package &package);

} // namespace trainrt::run

#endif // TRAINRT_CLI_TRAIN_H
