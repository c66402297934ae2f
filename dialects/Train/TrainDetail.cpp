// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalar helpers of the reference evaluation, in double.
#include "dialects/Train/TrainDetail.h"

#include "dialects/Train/Philox.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/ErrorHandling.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace trainc::train::detail {

double divide(double x, double y, Type type) {
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    return x / y;
  return y == 0 ? 0 : std::trunc(x / y);
}

double maximum(double x, double y) {
  if (std::isnan(x) || std::isnan(y))
    return std::numeric_limits<double>::quiet_NaN();
  return x > y ? x : y;
}

double floorMod(double x, double y) {
  // fmod is exact, x - floor(x / y) * y is not.
  double remainder = std::fmod(x, y);
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

double compare(ComparePredicate predicate, double x, double y) {
  switch (predicate) {
  case ComparePredicate::eq:
    return x == y;
  case ComparePredicate::ne:
    return x != y;
  case ComparePredicate::lt:
    return x < y;
  case ComparePredicate::le:
    return x <= y;
  case ComparePredicate::gt:
    return x > y;
  case ComparePredicate::ge:
    return x >= y;
  }
  llvm_unreachable("all predicates are handled");
}

double castValue(double x, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    return x;
  if (element.isInteger(1))
    return x != 0;
  return wrapValue(std::trunc(x), element);
}

double wrapValue(double x, Type type) {
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  if (!integer)
    return x;
  if (std::isnan(x))
    return 0;
  // The neutral element of "any" is -infinity.
  if (integer.getWidth() == 1)
    return x != 0 && !(std::isinf(x) && x < 0);
  double modulus = std::ldexp(1.0, int(integer.getWidth()));
  if (x >= -modulus / 2 && x < modulus / 2)
    return x;
  if (std::isinf(x))
    return x > 0 ? modulus / 2 - 1 : -modulus / 2;
  double wrapped = floorMod(x, modulus);
  return wrapped >= modulus / 2 ? wrapped - modulus : wrapped;
}

double attrValue(Attribute attr) {
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getValueAsDouble();
  if (auto number = dyn_cast<IntegerAttr>(attr))
    return number.getType().isInteger(1) ? double(number.getValue().getBoolValue())
                                         : double(number.getValue().getSExtValue());
  return std::numeric_limits<double>::quiet_NaN();
}

double geluGrad(double x, bool tanh) {
  if (!tanh) {
    double density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * density;
  }
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  double t = std::tanh(scale * (x + cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
}

double rngKey(ArrayRef<double> operands, int64_t node) {
  assert(operands.size() == 4 && "seed, step, micro-batch and rank");
  auto word = [&](unsigned i) { return uint64_t(int64_t(operands[i])); };
  return double(philox::nodeKey(word(0), word(1), word(2), word(3), uint64_t(node)));
}

SmallVector<int64_t> replaceCoordinates(ArrayRef<int64_t> index, ArrayRef<int64_t> axes,
                                        ArrayRef<double> coordinates) {
  SmallVector<int64_t> replaced(index);
  for (auto [axis, coordinate] : llvm::zip_equal(axes, coordinates))
    replaced[axis] = int64_t(coordinate);
  return replaced;
}
double bitcast(double x, Type from, Type to) {
  bool fromFloat = isa<FloatType>(getElementTypeOrSelf(from));
  uint32_t bits = fromFloat ? llvm::bit_cast<uint32_t>(float(x)) : uint32_t(int64_t(x));
  return isa<FloatType>(getElementTypeOrSelf(to)) ? double(llvm::bit_cast<float>(bits))
                                                  : double(int32_t(bits));
}
double randomBits(double key, ArrayRef<int64_t> index) {
  return int32_t(philox::elementWord(uint64_t(int64_t(key)), index.data(), index.size()));
}
double dropout(double x, double key, ArrayRef<int64_t> index, double ratio) {
  uint32_t word = philox::elementWord(uint64_t(int64_t(key)), index.data(), index.size());
  return word >= philox::dropoutThreshold(ratio) ? x / (1 - ratio) : 0.0;
}

} // namespace trainc::train::detail
