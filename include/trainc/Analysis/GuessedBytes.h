// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes where sizes have no number yet, to compare one choice with another.
#ifndef TRAINC_ANALYSIS_GUESSEDBYTES_H
#define TRAINC_ANALYSIS_GUESSEDBYTES_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

/// Of a tensor, each symbol taken as 256, a guess at a size that matters; 0 where the expression
/// overflows.
inline double guessBytes(mlir::Value value) {
  llvm::FailureOr<int64_t> bytes =
      train::getBytes(value.getType()).evaluate([](llvm::StringRef) -> std::optional<int64_t> {
        return 256;
      });
  return llvm::succeeded(bytes) ? double(*bytes) : 0;
}

} // namespace trainc

#endif // TRAINC_ANALYSIS_GUESSEDBYTES_H
