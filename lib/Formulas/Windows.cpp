// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A window is "row - column <= number" or the same of an absolute difference, which is a maximum.

#include "trainc/Formulas/Windows.h"

#include "dialects/Train/TrainDialect.h"
#include "trainc/Analysis/AffineIntegers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static bool isWindow(CompareOp compare, AffineIntegers &integers) {
  using enum ComparePredicate;
  const ComparePredicate predicate = compare.getPredicate();
  if (predicate == eq || predicate == ne || !isa<IntegerType>(getElementType(compare.getLhs())))
    return false;
  std::optional<AffineInteger> sides[2];
  bool isAbsolute = false;
  for (auto [side, operand] : llvm::zip_equal(sides, compare->getOperands())) {
    auto absolute = operand.getDefiningOp<MaxOp>();
    isAbsolute |= bool(absolute);
    side = integers.get(absolute ? absolute.getLhs() : operand);
    if (!side)
      return false;
  }
  int64_t up = 0, down = 0;
  for (auto [left, right] : llvm::zip_equal(sides[0]->factors, sides[1]->factors)) {
    std::optional<int64_t> factor = (left - right).getConstant();
    if (!factor)
      return false;
    up += *factor == 1;
    down += *factor == -1;
    if (*factor < -1 || *factor > 1)
      return false;
  }
  std::optional<int64_t> constant = (sides[0]->constant - sides[1]->constant).getConstant();
  if (up != 1 || down != 1)
    return false;
  if (isAbsolute || !constant)
    return isAbsolute;
  // As one coordinate - the other + constant <= 0, which 0 and 1 make an order; or its negation.
  if (predicate == gt || predicate == ge)
    *constant = -*constant;
  *constant += predicate == lt || predicate == gt;
  return *constant < 0 || *constant > 1;
}

bool trainc::hasWindow(func::FuncOp function) {
  AffineIntegers integers;
  return llvm::any_of(function.getBody().getOps<CompareOp>(),
                      [&](CompareOp compare) { return isWindow(compare, integers); });
}
