// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lib/Conversion/ONNXToTrain/Sizes/LinearSize.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::legalize;

std::optional<int64_t> LinearSize::lowest(int64_t least) const {
  assert(factor > 0 && "else it is the highest");
  int64_t room;
  if (llvm::SubOverflow(least, offset, room))
    return std::nullopt;
  return llvm::divideCeilSigned(room, factor);
}

std::optional<int64_t> LinearSize::highest(int64_t most) const {
  assert(factor > 0 && "else it is the lowest");
  int64_t room;
  if (llvm::SubOverflow(most, offset, room))
    return std::nullopt;
  return llvm::divideFloorSigned(room, factor);
}

std::optional<LinearSize> trainc::legalize::asLinear(DimAttr size) {
  // Terms are canonical: a symbol has one at most, and so has the number.
  LinearSize linear;
  for (auto [coefficient, monomial] :
       llvm::zip_equal(size.getCoefficients(), size.getMonomials())) {
    if (monomial.empty()) {
      linear.offset = coefficient;
      continue;
    }
    auto name = monomial.size() == 1 ? dyn_cast<StringAttr>(monomial[0]) : StringAttr();
    if (!name || linear.symbol)
      return std::nullopt;
    linear.symbol = name;
    linear.factor = coefficient;
  }
  return linear.symbol ? std::optional(linear) : std::nullopt;
}
