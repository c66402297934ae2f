// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model in evaluation mode over a whole file: its mean loss, or its outputs.
#ifndef TRAINRT_CLI_EVALUATE_H
#define TRAINRT_CLI_EVALUATE_H

#include "cli/accuracy.h"
#include "cli/data/batch_order.h"
#include "cli/options.h"
#include "cli/ranks/place.h"
#include "cli/setup.h"

namespace trainrt::run {

/// Reports the loss over all rows of `data`, the last batch may be short: the batches' losses, each
/// weighted by its denominator, where the package computes one, else by its rows. Throws Failure,
/// also when a signal came. `accuracy`: of this package and data. Several ranks share the batches
/// out, call it all at the same place, and get the same record, with the bits of one.
EvalRecord evaluate(const Package &package, trainrt_session *session, const Dataset &data,
                    JoinedRanks &ranks, Accuracy &accuracy, Reporter &reporter);

/// Writes the outputs that `options` names, for all rows of its file, joined along the batch axis.
void predict(const Options &options, const Package &package, trainrt_session *session,
             Reporter &reporter);

} // namespace trainrt::run

#endif // TRAINRT_CLI_EVALUATE_H
