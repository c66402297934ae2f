// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluation of small known tensors. Constants follow ONNX (integer division truncates, reals are
// rounded to their type); symbolic integers are combined only where that is right for all sizes.

#include "trainc/Conversion/ONNXToTrain/Content.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// INT64_MAX where it is larger; sizes are not negative.
/// Number of elements.
static int64_t product(ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    if (llvm::MulOverflow(result, size, result))
      return llvm::is_contained(shape, 0) ? 0 : INT64_MAX;
  return result;
}

std::optional<SmallVector<int64_t>> Content::constants() const {
  SmallVector<int64_t> result;
  // All of them, or none.
  for (const Scalar &value : values) {
    std::optional<int64_t> constant = isReal() ? std::nullopt : value.dim.getConstant();
    if (!constant)
      return std::nullopt;
    result.push_back(*constant);
  }
  return result;
}

std::optional<SmallVector<DimAttr>> Content::dims() const {
  if (isReal())
    return std::nullopt;
  SmallVector<DimAttr> result;
  for (const Scalar &value : values)
    result.push_back(value.dim);
  return result;
}

/// Types that formulas are computed in; others are only stored or carried.
bool isComputed(Type element) {
  if (isa<FloatType>(element))
    return element.getIntOrFloatBitWidth() >= 16;
  return element.isSignlessInteger(1) || element.isSignlessInteger(8) ||
         element.isSignlessInteger(16) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

unsigned unsignedBitsOf(Type element) {
  return element.isUnsignedInteger() ? element.getIntOrFloatBitWidth() : 0;
}

/// Unsigned integers are carried in signed ones of twice their width, which hold all of their
/// values; 64 bits have none.
Type carrierOf(Type element) {
  unsigned bits = unsignedBitsOf(element);
  if (bits == 0)
    return element;
  bool held = bits == 8 || bits == 16 || bits == 32;
  return held ? IntegerType::get(element.getContext(), 2 * bits) : Type();
}

DenseElementsAttr toCarrier(DenseElementsAttr value) {
  Type carrier = carrierOf(value.getElementType());
  if (!carrier || carrier == value.getElementType())
    return value;
  unsigned bits = carrier.getIntOrFloatBitWidth();
  assert(bits > 0 && "a carrier has a width");
  return value.mapValues(carrier, [&](const APInt &number) { return number.zext(bits); });
}

double roundTo(Type element, double value) {
  if (element.isF32())
    return float(value);
  assert(isa<FloatType>(element) && "only reals are rounded");
  llvm::APFloat rounded(value);
  bool lossy = false;
  // Constants are rounded as the operators would round them.
  rounded.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                  &lossy);
  return rounded.convertToDouble();
}

std::optional<Content> contentOf(DenseElementsAttr value) {
  // Large ones are data, not sizes.
  if (!value || value.getNumElements() > kMaxContent)
    return std::nullopt;
  Content content{value.getElementType(), SmallVector<int64_t>(value.getType().getShape()), {}};
  MLIRContext *context = value.getContext();
  if (isa<FloatType>(content.element)) {
    for (const APFloat &real : value.getValues<APFloat>()) {
      APFloat wide = real;
      bool lossy = false;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      content.values.push_back({{}, wide.convertToDouble()});
    }
    return content;
  }
  auto type = dyn_cast<IntegerType>(content.element);
  if (!type)
    return std::nullopt;
  for (const APInt &number : value.getValues<APInt>()) {
    // Booleans are 0 and 1, not -1.
    bool zeroExtend = type.isUnsigned() || type.getWidth() == 1;
    int64_t number64 = zeroExtend ? int64_t(number.getZExtValue()) : number.getSExtValue();
    content.values.push_back({DimAttr::constant(context, number64), 0});
  }
  return content;
}

Content makeSizes(MLIRContext *context, ArrayRef<DimAttr> dims) {
  Content content{IntegerType::get(context, 64), {int64_t(dims.size())}, {}};
  for (DimAttr dim : dims)
    content.values.push_back({dim, 0});
  return content;
}

Content makeScalar(Type element, Scalar value) { return {element, {}, {value}}; }

/// Counts names down to 0.
/// Of a polynomial and all calls in it; stops as soon as the budget is spent.
static void countNames(DimAttr size, size_t &left) {
  for (ArrayAttr monomial : size.getMonomials())
    for (Attribute atom : monomial) {
      if (!left)
        return;
      --left;
      if (auto call = dyn_cast<train::DimFnAttr>(atom)) {
        countNames(cast<DimAttr>(call.getLhs()), left);
        countNames(cast<DimAttr>(call.getRhs()), left);
      }
    }
}

bool isTooLong(DimAttr size) {
  size_t left = kLongestSize;
  countNames(size, left);
  return !left;
}

//===- Scalars ------------------------------------------------------------===//

namespace {

using Operands = ArrayRef<Scalar>;

/// Beyond this, polynomials of size expressions might overflow: sentinels are never combined.
/// Slices to "the end" are INT64_MAX, for example.
constexpr int64_t maxSymbolic = int64_t(1) << 40;

bool isSmall(DimAttr dim) {
  return !isTooLong(dim) && llvm::all_of(dim.getCoefficients(), [](int64_t c) {
    return c > -maxSymbolic && c < maxSymbolic;
  });
}

std::optional<int64_t> foldIntegers(StringRef op, int64_t a, int64_t b) {
  // Without undefined behaviour; what overflows here overflows in the operator, too.
  auto wrap = [](uint64_t value) { return int64_t(value); };
  if (op == "Add" || op == "Sum")
    return wrap(uint64_t(a) + uint64_t(b));
  if (op == "Sub")
    return wrap(uint64_t(a) - uint64_t(b));
  if (op == "Mul")
    return wrap(uint64_t(a) * uint64_t(b));
  if (op == "Div" || op == "Mod") {
    // Nothing is folded that traps.
    if (b == 0 || (a == INT64_MIN && b == -1))
      return std::nullopt;
    return op == "Div" ? a / b : a - llvm::divideFloorSigned(a, b) * b;
  }
  if (op == "Pow") {
    int64_t result = 1;
    if (b < 0 || b > 62)
      return std::nullopt;
    for (int64_t i = 0; i < b; ++i)
      if (llvm::MulOverflow(result, a, result))
        return std::nullopt;
    return result;
  }
  if (op == "Max")
    return std::max(a, b);
  if (op == "Min")
    return std::min(a, b);
  if (op == "And")
    return a && b;
  if (op == "Or")
    return a || b;
  if (op == "Xor")
    return !a != !b;
  return std::nullopt;
}

std::optional<bool> compare(StringRef op, DimAttr a, DimAttr b, const Bounds &bounds) {
  std::optional<int64_t> x = a.getConstant(), y = b.getConstant();
  // Turned around, so that three cases are left.
  if (op == "Greater")
    return compare("Less", b, a, bounds);
  if (op == "GreaterOrEqual")
    return compare("LessOrEqual", b, a, bounds);
  if (x && y)
    return op == "Equal" ? *x == *y : op == "Less" ? *x < *y : *x <= *y;
  if (!isSmall(a) || !isSmall(b))
    return std::nullopt;
  // Unequal terms are decided by the sign of their difference, if that is known for all sizes.
  Interval d = bounds.interval(a - b);
  bool positive = d.low && *d.low > 0, negative = d.high && *d.high < 0;
  if (op == "Equal") {
    if (a == b)
      return true;
    return positive || negative ? std::optional<bool>(false) : std::nullopt;
  }
  if (op == "Less") {
    if (negative)
      return true;
    return d.low && *d.low >= 0 ? std::optional<bool>(false) : std::nullopt;
  }
  if (d.high && *d.high <= 0)
    return true;
  return positive ? std::optional<bool>(false) : std::nullopt;
}

bool isComparison(StringRef op) {
  return op == "Equal" || op == "Less" || op == "LessOrEqual" || op == "Greater" ||
         op == "GreaterOrEqual";
}

/// Two operands at a time; more are folded by the caller. Nullopt leaves it to the graph.
std::optional<DimAttr> evaluateIntegers(StringRef op, Operands x, const Bounds &bounds) {
  MLIRContext *context = x[0].dim.getContext();
  auto constant = [&](int64_t value) { return DimAttr::constant(context, value); };
  DimAttr a = x[0].dim;
  std::optional<int64_t> ca = a.getConstant();
  // The branch not taken may be unknown.
  if (op == "Where") {
    if (!ca)
      return std::nullopt;
    return *ca ? x[1].dim : x[2].dim;
  }
  // One operand of a variadic operator is its result.
  if (x.size() == 1) {
    if (op == "Identity" || op == "Sum" || op == "Max" || op == "Min")
      return a;
    if (op == "Not" && ca)
      return constant(!*ca);
    if (op == "Neg" && isSmall(a))
      return constant(0) - a;
    if (op == "Abs" && isSmall(a)) {
      Interval range = bounds.interval(a);
      if (range.low && *range.low >= 0)
        return a;
      return range.high && *range.high <= 0 ? std::optional<DimAttr>(constant(0) - a)
                                            : std::nullopt;
    }
    if (op == "Sign" && ca)
      return constant((*ca > 0) - (*ca < 0));
    return std::nullopt;
  }
  DimAttr b = x[1].dim;
  std::optional<int64_t> cb = b.getConstant();
  if (isComparison(op)) {
    std::optional<bool> result = compare(op, a, b, bounds);
    return result ? std::optional<DimAttr>(constant(*result)) : std::nullopt;
  }
  // Numbers follow the operator exactly; below, sizes follow it for all values that they may have.
  if (ca && cb) {
    std::optional<int64_t> result = foldIntegers(op, *ca, *cb);
    return result ? std::optional<DimAttr>(constant(*result)) : std::nullopt;
  }
  if (!isSmall(a) || !isSmall(b))
    return std::nullopt;
  if (op == "Add" || op == "Sum")
    return a + b;
  if (op == "Sub")
    return a - b;
  // The product of long sums would be longer than any size may be.
  if (op == "Mul") {
    if (a.getCoefficients().size() * b.getCoefficients().size() > kLongestSize)
      return std::nullopt;
    return a * b;
  }
  if (op == "Max")
    return bounds.max(a, b);
  if (op == "Min")
    return bounds.min(a, b);
  if (op == "Div" || op == "Mod") {
    // Truncation is floor where nothing is negative.
    Interval ia = bounds.interval(a), ib = bounds.interval(b);
    if (ia.low && *ia.low >= 0 && ib.low && *ib.low >= 1)
      return op == "Div" ? train::floorDiv(a, b) : train::mod(a, b);
    // -1 mod size, as in a roll by one.
    if (op == "Mod" && ca && *ca < 0 && ib.low && *ib.low >= -*ca)
      return b + a;
    if (op == "Div")
      if (DimAttr exact = train::divideExactly(a, b))
        return exact;
  }
  return std::nullopt;
}

/// In f64, rounded by the caller: one rounding for each operation, as f32 operators have it.
std::optional<double> evaluateReals(StringRef op, Operands x) {
  double a = x[0].real;
  if (x.size() == 1)
    return llvm::StringSwitch<std::optional<double>>(op)
        .Cases({"Identity", "Sum", "Max", "Min"}, a)
        .Case("Neg", -a)
        .Case("Abs", std::fabs(a))
        .Case("Sqrt", std::sqrt(a))
        .Case("Exp", std::exp(a))
        .Case("Log", std::log(a))
        .Case("Reciprocal", 1 / a)
        .Case("Floor", std::floor(a))
        .Case("Ceil", std::ceil(a))
        .Case("Round", std::nearbyint(a))
        .Default(std::nullopt);
  double b = x[1].real;
  return llvm::StringSwitch<std::optional<double>>(op)
      .Cases({"Add", "Sum"}, a + b)
      .Case("Sub", a - b)
      .Case("Mul", a * b)
      .Case("Div", a / b)
      .Case("Pow", std::pow(a, b))
      .Case("Max", std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b))
      .Case("Min", std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b))
      .Default(std::nullopt);
}

std::optional<bool> compareReals(StringRef op, double a, double b) {
  return llvm::StringSwitch<std::optional<bool>>(op)
      .Case("Equal", a == b)
      .Case("Less", a < b)
      .Case("LessOrEqual", a <= b)
      .Case("Greater", a > b)
      .Case("GreaterOrEqual", a >= b)
      .Default(std::nullopt);
}

} // namespace

/// A number as an integer of this type keeps it, which has more bits than a boolean's one.
static int64_t wrapTo(IntegerType type, int64_t number) {
  assert(type.getWidth() > 1 && "booleans do not wrap");
  if (type.getWidth() >= 64)
    return number;
  uint64_t kept = uint64_t(number) & llvm::maskTrailingOnes<uint64_t>(type.getWidth());
  return type.isUnsigned() ? int64_t(kept) : llvm::SignExtend64(kept, type.getWidth());
}

/// A size stays as it is: only numbers wrap.
static DimAttr wrapTo(Type element, DimAttr value) {
  auto type = dyn_cast<IntegerType>(element);
  std::optional<int64_t> constant = value.getConstant();
  return type && type.getWidth() > 1 && constant
             ? DimAttr::constant(element.getContext(), wrapTo(type, *constant))
             : value;
}

/// Broadcast as ONNX has it: from the last axis on.
std::optional<Content> evaluate(StringRef op, ArrayRef<const Content *> operands,
                                Type resultElement, const Bounds &bounds) {
  assert(!operands.empty() && "the last operand says what is computed with");
  SmallVector<int64_t> shape;
  for (const Content *operand : operands) {
    if (operand->rank() > int64_t(shape.size()))
      shape.insert(shape.begin(), operand->rank() - shape.size(), 1);
    for (int64_t i = 0; i < operand->rank(); ++i) {
      int64_t &size = shape[shape.size() - 1 - i];
      int64_t own = operand->shape[operand->rank() - 1 - i];
      if (size != own && size != 1 && own != 1)
        return std::nullopt;
      size = size == 1 ? own : size;
    }
  }
  // Checked before anything is evaluated: broadcast contents may be larger than each.
  int64_t count = product(shape);
  if (count > kMaxContent)
    return std::nullopt;
  // The last operand has the type that is computed with: the first one of Where is a condition.
  bool realOperands = operands.back()->isReal();
  bool realResult = isa<FloatType>(resultElement);
  Content result{resultElement, shape, {}};
  MLIRContext *context = resultElement.getContext();
  for (int64_t flat = 0; flat < count; ++flat) {
    SmallVector<Scalar> x;
    for (const Content *operand : operands) {
      // The operand's element under this one, from the last axis on.
      int64_t index = 0, stride = 1, rest = flat;
      for (int64_t i = 0; i < int64_t(shape.size()); ++i) {
        int64_t axis = shape.size() - 1 - i, coordinate = rest % shape[axis];
        rest /= shape[axis];
        if (i >= operand->rank())
          continue;
        int64_t own = operand->shape[operand->rank() - 1 - i];
        // Along a broadcast axis there is one.
        index += own == 1 ? 0 : coordinate * stride;
        stride *= own;
      }
      assert(index < int64_t(operand->values.size()) && "shapes are those of the values");
      x.push_back(operand->values[index]);
    }
    Scalar value;
    if (op == "Where" && realOperands) {
      // The condition is a number even between reals.
      std::optional<int64_t> condition = x[0].dim.getConstant();
      if (!condition)
        return std::nullopt;
      value = *condition ? x[1] : x[2];
    } else if (realOperands && isComparison(op)) {
      std::optional<bool> truth = compareReals(op, x[0].real, x[1].real);
      if (!truth)
        return std::nullopt;
      value.dim = DimAttr::constant(context, *truth);
    } else if (realOperands) {
      std::optional<double> real = realResult ? evaluateReals(op, x) : std::nullopt;
      // From the left, one rounded step after the other.
      for (size_t i = 2; real && i < x.size(); ++i)
        real = evaluateReals(op, {{{}, *real}, x[i]});
      if (!real)
        return std::nullopt;
      value.real = roundTo(resultElement, *real);
    } else {
      std::optional<DimAttr> dim = evaluateIntegers(op, x, bounds);
      // Where has three operands, not a row of two.
      for (size_t i = 2; dim && op != "Where" && i < x.size(); ++i)
        dim = evaluateIntegers(op, {{*dim, 0}, x[i]}, bounds);
      if (!dim)
        return std::nullopt;
      value.dim = wrapTo(resultElement, *dim);
    }
    result.values.push_back(value);
  }
  return result;
}

/// As ONNX casts: reals are cut towards 0, booleans are "not 0", integers wrap.
std::optional<Content> castContent(const Content &x, Type element) {
  Content result{element, x.shape, {}};
  auto type = dyn_cast<IntegerType>(element);
  for (const Scalar &value : x.values) {
    Scalar out;
    if (x.isReal() && isa<FloatType>(element)) {
      out.real = roundTo(element, value.real);
    } else if (x.isReal()) {
      // Also not for NaN.
      if (!type || !(std::fabs(value.real) < 9e18))
        return std::nullopt;
      int64_t number = type.getWidth() == 1 ? value.real != 0 : int64_t(value.real);
      out.dim = DimAttr::constant(element.getContext(), number);
    } else if (isa<FloatType>(element)) {
      std::optional<int64_t> constant = value.dim.getConstant();
      if (!constant)
        return std::nullopt;
      out.real = roundTo(element, double(*constant));
    } else if (type && type.getWidth() == 1) {
      std::optional<int64_t> constant = value.dim.getConstant();
      if (!constant)
        return std::nullopt;
      out.dim = DimAttr::constant(element.getContext(), *constant != 0);
    } else if (type) {
      out.dim = wrapTo(element, value.dim);
    } else {
      return std::nullopt;
    }
    result.values.push_back(out);
  }
  return result;
}

//===- Materialization ----------------------------------------------------===//

Value materialize(TrainBuilder &tb, DenseElementsAttr value) {
  SmallVector<DimAttr> dims;
  for (int64_t size : value.getType().getShape())
    dims.push_back(tb.dimAttr(size));
  // Equal elements need no table.
  if (value.isSplat() && value.getNumElements() > 0) {
    auto element = dyn_cast<TypedAttr>(value.getSplatValue<Attribute>());
    if (element && element.getType().isIntOrFloat())
      return train::FullOp::create(tb.b(), tb.loc(),
                                   train::getTensorType(dims, value.getElementType()), element);
  }
  return tb.constant(value);
}

Value materialize(TrainBuilder &tb, const Content &content) {
  assert(int64_t(content.values.size()) == product(content.shape) && "values fill the shape");
  auto type = RankedTensorType::get(content.shape, content.element);
  SmallVector<Attribute> attributes;
  for (const Scalar &value : content.values) {
    if (content.isReal()) {
      attributes.push_back(tb.b().getFloatAttr(content.element, value.real));
      continue;
    }
    // The first size that is no number ends it: then all are computed below.
    std::optional<int64_t> constant = value.dim.getConstant();
    if (!constant)
      break;
    if (content.element.isInteger(1))
      attributes.push_back(tb.b().getBoolAttr(*constant != 0));
    else
      attributes.push_back(tb.b().getIntegerAttr(content.element, *constant));
  }
  // Numbers only, so that it is data.
  if (attributes.size() == content.values.size())
    return materialize(tb, DenseElementsAttr::get(type, attributes));
  SmallVector<DimAttr> dims;
  for (int64_t size : content.shape)
    dims.push_back(tb.dimAttr(size));
  SmallVector<Value> parts;
  // Else a list of the elements, each computed when sizes are known.
  for (const Scalar &value : content.values) {
    Value part = tb.cast(tb.dim(value.dim, tb.b().getI64Type()), content.element);
    parts.push_back(tb.reshape(part, {tb.dimAttr(1)}));
  }
  return tb.reshape(tb.concat(parts, 0), dims);
}

} // namespace trainc::legalize
