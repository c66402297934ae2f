// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What elements may hold, as far as the proof about padding needs to know it.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_CONTENT_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_CONTENT_H

#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainDialect.h"
#include "trainc/Formulas/RowSums.h"

namespace trainc {

/// The one assumption that the proof makes of numbers: an activation that formulas do not bound
/// (results of matmuls, sums, norms, parameters, inputs) lies within this. Only how far masked
/// scores are below others is concluded from it.
inline constexpr double kActivation = 1000;

struct Content {
  /// Proved for all batches.
  train::Range sure;
  /// With kActivation.
  train::Range usual;

  static Content number(double x) { return {train::Range::number(x), train::Range::number(x)}; }
  /// Any number of this type.
  static Content ofType(mlir::Type element) {
    bool isFloat = mlir::isa<mlir::FloatType>(element);
    train::Range range = isFloat ? train::Range::finite() : train::rangeOfType(element);
    return Content{range, range}.assume(element);
  }
  bool operator==(const Content &other) const = default;
  bool isNumber() const { return sure.isNumber(); }
  bool isNumber(double x) const { return sure.isNumber(x); }
  Content unite(const Content &other) const {
    return {sure.unite(other.sure), usual.unite(other.usual)};
  }
  /// What is not bounded is within kActivation.
  Content assume(mlir::Type element) const {
    Content result = *this;
    if (!mlir::isa<mlir::FloatType>(element))
      return result;
    if (result.usual.lo == -train::Range::kUnbounded)
      result.usual.lo = std::min(-kActivation, result.usual.hi);
    if (result.usual.hi == train::Range::kUnbounded)
      result.usual.hi = std::max(kActivation, result.usual.lo);
    return result;
  }
};

/// Of a result made of operands like these.
inline Content inferContent(mlir::Operation *op, unsigned result,
                            llvm::ArrayRef<Content> operands) {
  llvm::SmallVector<train::Range> sure, usual;
  for (const Content &operand : operands) {
    sure.push_back(operand.sure);
    usual.push_back(operand.usual);
  }
  Content content =
      Content{train::inferRange(op, result, sure), train::inferRange(op, result, usual)}.assume(
          train::getElementType(op->getResult(result)));
  // exp(0) of the largest is among what is summed up.
  if (matchMaximum(op) && !operands[0].sure.nan)
    for (train::Range *range : {&content.sure, &content.usual})
      range->lo = std::max(range->lo, 1.0);
  return content;
}

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_CONTENT_H
