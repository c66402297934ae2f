// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Affine integers, from the ops that make them.

#include "trainc/Analysis/AffineIntegers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Results are kept, also that there is none: chains of sums and products are walked once, whatever
/// asks.
std::optional<AffineInteger> AffineIntegers::get(Value value) {
  auto def = value.getDefiningOp<AffineOpInterface>();
  if (!def || !isa<IntegerType>(getElementType(value)))
    return std::nullopt;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  // No cycles: operands are made before. The recursion is as deep as the chain of affine ops.
  std::optional<AffineInteger> result =
      def.getAffine([this](Value operand) { return get(operand); });
  known[value] = result;
  return result;
}
