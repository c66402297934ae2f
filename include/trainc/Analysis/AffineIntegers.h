// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer tensors that are affine functions of their own coordinates, as exporters write positions
// and the masks made of them (train::AffineOpInterface).
#ifndef TRAINC_ANALYSIS_AFFINEINTEGERS_H
#define TRAINC_ANALYSIS_AFFINEINTEGERS_H

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/DenseMap.h"

namespace trainc {

/// Answers for values of one function. They stay true while ops are replaced by equal ones.
class AffineIntegers {
public:
  std::optional<train::AffineInteger> get(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, std::optional<train::AffineInteger>> known;
};

} // namespace trainc

#endif // TRAINC_ANALYSIS_AFFINEINTEGERS_H
