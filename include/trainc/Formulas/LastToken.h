// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Indices that pick the last token of each sample, as classification heads of decoders compute
// them.
#ifndef TRAINC_FORMULAS_LASTTOKEN_H
#define TRAINC_FORMULAS_LASTTOKEN_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// How a position is computed of marks, which are 1 at tokens and 0 elsewhere.
struct LastToken {
  /// [samples, positions]
  mlir::Value marks;
  /// Their number less one: the last of them where tokens are at the front.
  bool byCount = false;
};

/// Whether `rows`, of one number a sample, are sample * `length` + some position: no two the same.
bool areRowsOfSamples(mlir::Value rows, train::DimAttr length);

/// Whether `rows`, of one number a sample, are sample * `length` + the position of a last token.
std::optional<LastToken> findLastToken(mlir::Value rows, train::DimAttr length);

/// The integer input that marks are made of, and the number that is none of them:
/// marks = (input != number), or the input itself.
struct MarkOrigin {
  mlir::BlockArgument input;
  int64_t number = 0;
  bool isCompared = false;
};
std::optional<MarkOrigin> findMarkOrigin(mlir::Value marks);

} // namespace trainc

#endif // TRAINC_FORMULAS_LASTTOKEN_H
