// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Documents in a row that are told apart by positions which begin anew, as transformers writes it
// where it is given position_ids and no mask: cumsum(diff(positions) != 1).
#ifndef TRAINC_FORMULAS_SEQUENCES_H
#define TRAINC_FORMULAS_SEQUENCES_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// The input of positions [samples, positions] whose sequences `numbers` counts: equal along each
/// row where an element is one more than that before it, else one more. Null if it is anything
/// else.
mlir::BlockArgument findSequences(mlir::Value numbers);

} // namespace trainc

#endif // TRAINC_FORMULAS_SEQUENCES_H
