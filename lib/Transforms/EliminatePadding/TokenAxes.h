// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which axes of a value run over the tokens of a batch: [samples, positions] apart, or merged into
// one axis. Others may be merged into it behind the samples, [samples * heads, positions], or
// behind the tokens, as where each has several experts: [samples * positions * experts].
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENAXES_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENAXES_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// One axis (merged) or two (samples, positions).
using TokenAxes = llvm::SmallVector<int64_t, 2>;

/// How many neighbours on the first axis belong to one sample, or to one token where `axes` is one
/// (a constant then); null where `axes` do not run over all tokens.
train::DimAttr rowsPerItem(llvm::ArrayRef<train::DimAttr> dims, const TokenAxes &axes,
                           train::DimAttr samples, train::DimAttr positions);

/// Axes of a view's result that hold the same tokens as `axes` of its operand; empty where the view
/// mixes them with others.
TokenAxes throughView(llvm::ArrayRef<train::DimAttr> from, llvm::ArrayRef<train::DimAttr> to,
                      const TokenAxes &axes, train::DimAttr samples, train::DimAttr positions);

/// Loops of an operand's token axes; empty where an axis has none.
llvm::SmallVector<unsigned> loopsOf(llvm::ArrayRef<int> entry, const TokenAxes &axes);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENAXES_H
