// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer tensors that are affine functions of their own coordinates, as exporters write positions
// and the masks made of them: constant + sum over axes of factor * coordinate. Booleans that are
// the same everywhere are 0 or 1.
#ifndef TRAINC_ANALYSIS_AFFINEINTEGERS_H
#define TRAINC_ANALYSIS_AFFINEINTEGERS_H

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace trainc {

struct AffineInteger {
  train::DimAttr constant;
  /// One an axis; 0 along axes of size 1.
  llvm::SmallVector<int64_t> factors;

  /// The same everywhere.
  bool isUniform() const {
    return llvm::all_of(factors, [](int64_t factor) { return factor == 0; });
  }
};

/// Answers for values of one function. They stay true while ops are replaced by equal ones.
class AffineIntegers {
public:
  std::optional<AffineInteger> get(mlir::Value value);

private:
  std::optional<AffineInteger> compute(mlir::Operation *op, mlir::Value value);
  /// Component `k` of the last axis of an index tensor, without that axis.
  std::optional<AffineInteger> component(mlir::Value indices, int64_t k);
  /// The data at affine positions inside of it. `at(k)` is the position along axis `indexed[k]`;
  /// axes of sizes `places` stand in the result for the indexed ones.
  std::optional<AffineInteger> lookUp(mlir::Value data, llvm::ArrayRef<int64_t> indexed,
                                      llvm::ArrayRef<train::DimAttr> places,
                                      llvm::function_ref<std::optional<AffineInteger>(int64_t)> at);

  llvm::DenseMap<mlir::Value, std::optional<AffineInteger>> known;
};

} // namespace trainc

#endif // TRAINC_ANALYSIS_AFFINEINTEGERS_H
