// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an elementwise op does, found by trying numbers.
#ifndef TRAINC_TRANSFORMS_SUPPORT_SAMPLES_H
#define TRAINC_TRANSFORMS_SUPPORT_SAMPLES_H

#include "dialects/Train/TrainDialect.h"
#include <cmath>

namespace trainc {

/// The op's result for each combination of `samples`, a list for each operand, until `fn` returns
/// false. Where the graph itself would fail (0 / 0) nothing is to be learnt, and is left out.
inline void forEachSample(train::PointwiseOpInterface op,
                          llvm::ArrayRef<llvm::SmallVector<double>> samples,
                          llvm::function_ref<bool(double)> fn) {
  size_t count = 1;
  for (const auto &values : samples)
    count *= values.size();
  llvm::SmallVector<int64_t> index(train::getRank(op->getResult(0)), 0);
  llvm::SmallVector<double> x(samples.size());
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (auto [value, values] : llvm::zip_equal(x, samples)) {
      value = values[rest % values.size()];
      rest /= values.size();
    }
    double y = op.evaluateScalar(x, index);
    if (!std::isnan(y) && !fn(y))
      return;
  }
}

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_SAMPLES_H
