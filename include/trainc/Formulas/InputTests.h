// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a model tests numbers, by which it tells padding, tokens and documents.
#ifndef TRAINC_FORMULAS_INPUTTESTS_H
#define TRAINC_FORMULAS_INPUTTESTS_H

#include "dialects/Train/TrainDialect.h"
#include <optional>

namespace trainc {

/// Numbers that an input is compared to: where padding is told by one, it is one of them, or next
/// to one (`neighbours`) if they are told to be less or greater.
llvm::SmallVector<int64_t> comparedNumbers(mlir::BlockArgument input, bool neighbours = false);

/// Whether elements of the input are compared with each other, as the numbers of documents are.
bool comparesWithItself(mlir::BlockArgument input);

/// Whether the input enters arithmetic, and not only tests and choices.
bool isComputedWith(mlir::BlockArgument input);

/// What tests of an input say of tokens, where it is not padding's number.
struct TokenTests {
  /// Each the same of all tokens, whatever their numbers: none of them masks a token.
  bool areAlike = true;
  /// If they are above padding's.
  bool needOrder = false;
};
TokenTests findTokenTests(mlir::BlockArgument input, int64_t padding);

/// Whether the op is true where its operands are equal, or where they are not; nothing for others.
std::optional<bool> testsEquality(mlir::Operation *op);

/// What a quotient divides by; null for other ops.
mlir::Value getDivisor(mlir::Operation *op);

} // namespace trainc

#endif // TRAINC_FORMULAS_INPUTTESTS_H
