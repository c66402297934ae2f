// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size expressions: polynomials in canonical form. Terms are kept in a std::map while computing,
// keyed by their factors' text, so that the order (and with it uniquing) never depends on pointers.

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
std::string atomText(Attribute atom) {
  if (auto name = dyn_cast<StringAttr>(atom))
    return name.getValue().str();
  auto fn = cast<DimFnAttr>(atom);
  return (stringifyDimFnKind(fn.getKind()) + "(" + cast<DimAttr>(fn.getLhs()).str() + ", " +
          cast<DimAttr>(fn.getRhs()).str() + ")")
      .str();
}

/// Factors of one term, sorted by text.
using Monomial = SmallVector<Attribute, 2>;
struct MonomialLess {
  bool operator()(const Monomial &a, const Monomial &b) const {
    if (a == b)
      return false;
    if (a.size() != b.size())
      return a.size() > b.size();
    for (auto [x, y] : llvm::zip_equal(a, b))
      if (x != y)
        return atomText(x) < atomText(y);
    return false;
  }
};
using Polynomial = std::map<Monomial, int64_t, MonomialLess>;

Polynomial toPolynomial(DimAttr dim) {
  Polynomial p;
  for (auto [c, m] : llvm::zip_equal(dim.getCoefficients(), dim.getMonomials())) {
    assert(llvm::is_sorted(m, [](Attribute x, Attribute y) { return atomText(x) < atomText(y); }) &&
           "equal products have equal monomials");
    p[Monomial(m.begin(), m.end())] = c;
  }
  return p;
}
DimAttr toDim(MLIRContext *context, const Polynomial &p) {
  SmallVector<int64_t> coefficients;
  SmallVector<ArrayAttr> monomials;
  for (auto &[m, c] : p) {
    if (c == 0)
      continue;
    coefficients.push_back(c);
    monomials.push_back(ArrayAttr::get(context, m));
  }
  return DimAttr::get(context, coefficients, monomials);
}
Monomial multiply(const Monomial &a, const Monomial &b) {
  Monomial m(a);
  m.append(b.begin(), b.end());
  llvm::sort(m, [](Attribute x, Attribute y) { return x != y && atomText(x) < atomText(y); });
  return m;
}
/// a / b as multisets, if b is contained in a.
std::optional<Monomial> divideMonomial(const Monomial &a, const Monomial &b) {
  Monomial rest(a);
  for (Attribute atom : b) {
    auto it = llvm::find(rest, atom);
    if (it == rest.end())
      return std::nullopt;
    rest.erase(it);
  }
  return rest;
}
DimAttr atomDim(Attribute atom) {
  Polynomial p;
  p[Monomial{atom}] = 1;
  return toDim(atom.getContext(), p);
}
DimAttr makeFn(DimFnKind kind, DimAttr a, DimAttr b) {
  return atomDim(DimFnAttr::get(a.getContext(), kind, a, b));
}

// A size that 64 bits do not hold is the nearest that they do: far too large for any tensor, and on
// the right side in every comparison.
int64_t limitOf(bool negative) { return negative ? INT64_MIN : INT64_MAX; }
int64_t addSizes(int64_t a, int64_t b) {
  int64_t sum;
  return llvm::AddOverflow(a, b, sum) ? limitOf(a < 0) : sum;
}
int64_t subtractSizes(int64_t a, int64_t b) {
  int64_t difference;
  return llvm::SubOverflow(a, b, difference) ? limitOf(a < 0) : difference;
}
int64_t multiplySizes(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? limitOf((a < 0) != (b < 0)) : product;
}
int64_t floorDivide(int64_t a, int64_t b) {
  return b == -1 ? subtractSizes(0, a) : llvm::divideFloorSigned(a, b);
}
int64_t floorModulo(int64_t a, int64_t b) { return b == -1 ? 0 : a - floorDivide(a, b) * b; }

struct DimParser {
  AsmParser &parser;
  FailureOr<DimAttr> expression() {
    bool negative = succeeded(parser.parseOptionalMinus());
    FailureOr<DimAttr> value = term();
    if (failed(value))
      return failure();
    if (negative)
      value = DimAttr::constant(parser.getContext(), 0) - *value;
    while (true) {
      bool plus = succeeded(parser.parseOptionalPlus());
      if (!plus && failed(parser.parseOptionalMinus()))
        return value;
      FailureOr<DimAttr> next = term();
      if (failed(next))
        return failure();
      value = plus ? *value + *next : *value - *next;
    }
  }
  FailureOr<DimAttr> term() {
    FailureOr<DimAttr> value = factor();
    while (succeeded(value) && succeeded(parser.parseOptionalStar())) {
      FailureOr<DimAttr> next = factor();
      if (failed(next))
        return failure();
      value = *value * *next;
    }
    return value;
  }
  FailureOr<DimAttr> factor() {
    MLIRContext *context = parser.getContext();
    int64_t number;
    OptionalParseResult isNumber = parser.parseOptionalInteger(number);
    if (isNumber.has_value())
      return failed(*isNumber) ? FailureOr<DimAttr>(failure()) : DimAttr::constant(context, number);
    std::string quoted;
    if (succeeded(parser.parseOptionalString(&quoted)))
      return DimAttr::symbol(context, quoted);
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<DimFnKind> kind = symbolizeDimFnKind(name);
    if (!kind || failed(parser.parseOptionalLParen()))
      return DimAttr::symbol(context, name);
    FailureOr<DimAttr> lhs = expression();
    if (failed(lhs) || parser.parseComma())
      return failure();
    FailureOr<DimAttr> rhs = expression();
    if (failed(rhs) || parser.parseRParen())
      return failure();
    switch (*kind) {
    case DimFnKind::floordiv:
      return floorDiv(*lhs, *rhs);
    case DimFnKind::mod:
      return train::mod(*lhs, *rhs);
    case DimFnKind::max:
      return maxDim(*lhs, *rhs);
    case DimFnKind::min:
      return minDim(*lhs, *rhs);
    }
    return failure();
  }
};

bool isPlainName(StringRef name) {
  return !name.empty() && (llvm::isAlpha(name[0]) || name[0] == '_') &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }) &&
         !symbolizeDimFnKind(name);
}
} // namespace

namespace trainc::train {

DimAttr DimAttr::constant(MLIRContext *context, int64_t value) {
  if (value == 0)
    return get(context, {}, {});
  return get(context, value, ArrayAttr::get(context, {}));
}
DimAttr DimAttr::symbol(MLIRContext *context, StringRef name) {
  return atomDim(StringAttr::get(context, name));
}
std::optional<int64_t> DimAttr::getConstant() const {
  if (getCoefficients().empty())
    return 0;
  if (getCoefficients().size() == 1 && getMonomials()[0].empty())
    return getCoefficients()[0];
  return std::nullopt;
}
std::optional<StringRef> DimAttr::getSymbol() const {
  if (getCoefficients().size() == 1 && getCoefficients()[0] == 1 && getMonomials()[0].size() == 1)
    if (auto name = dyn_cast<StringAttr>(getMonomials()[0][0]))
      return name.getValue();
  return std::nullopt;
}
std::string DimAttr::str() const {
  if (getCoefficients().empty())
    return "0";
  std::string text;
  for (auto [c, m] : llvm::zip_equal(getCoefficients(), getMonomials())) {
    bool first = text.empty();
    uint64_t magnitude = c < 0 ? 0 - uint64_t(c) : uint64_t(c);
    text += first ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
    bool needStar = false;
    if (magnitude != 1 || m.empty()) {
      text += std::to_string(magnitude);
      needStar = true;
    }
    for (Attribute atom : m) {
      if (needStar)
        text += "*";
      needStar = true;
      auto name = dyn_cast<StringAttr>(atom);
      if (name && !isPlainName(name.getValue()))
        text += "\"" + name.getValue().str() + "\"";
      else
        text += atomText(atom);
    }
  }
  return text;
}

FailureOr<int64_t>
DimAttr::evaluate(llvm::function_ref<std::optional<int64_t>(StringRef)> lookup) const {
  int64_t sum = 0;
  for (auto [c, m] : llvm::zip_equal(getCoefficients(), getMonomials())) {
    int64_t value = c;
    for (Attribute atom : m) {
      int64_t factor;
      if (auto name = dyn_cast<StringAttr>(atom)) {
        std::optional<int64_t> found = lookup(name.getValue());
        if (!found)
          return failure();
        factor = *found;
      } else {
        auto fn = cast<DimFnAttr>(atom);
        FailureOr<int64_t> a = cast<DimAttr>(fn.getLhs()).evaluate(lookup);
        FailureOr<int64_t> b = cast<DimAttr>(fn.getRhs()).evaluate(lookup);
        if (failed(a) || failed(b))
          return failure();
        switch (fn.getKind()) {
        case DimFnKind::floordiv:
        case DimFnKind::mod:
          if (*b == 0)
            return failure();
          factor = fn.getKind() == DimFnKind::mod ? floorModulo(*a, *b) : floorDivide(*a, *b);
          break;
        case DimFnKind::max:
          factor = std::max(*a, *b);
          break;
        case DimFnKind::min:
          factor = std::min(*a, *b);
          break;
        }
      }
      if (llvm::MulOverflow(value, factor, value))
        return failure();
    }
    if (llvm::AddOverflow(sum, value, sum))
      return failure();
  }
  return sum;
}

void DimAttr::forEachSymbol(llvm::function_ref<void(StringRef)> fn) const {
  for (ArrayAttr m : getMonomials())
    for (Attribute atom : m) {
      if (auto name = dyn_cast<StringAttr>(atom)) {
        fn(name.getValue());
        continue;
      }
      cast<DimAttr>(cast<DimFnAttr>(atom).getLhs()).forEachSymbol(fn);
      cast<DimAttr>(cast<DimFnAttr>(atom).getRhs()).forEachSymbol(fn);
    }
}

DimAttr DimAttr::substitute(llvm::function_ref<DimAttr(StringRef)> fn) const {
  DimAttr sum = constant(getContext(), 0);
  for (auto [c, m] : llvm::zip_equal(getCoefficients(), getMonomials())) {
    DimAttr value = constant(getContext(), c);
    for (Attribute atom : m) {
      if (auto name = dyn_cast<StringAttr>(atom)) {
        DimAttr replacement = fn(name.getValue());
        value = value * (replacement ? replacement : atomDim(atom));
        continue;
      }
      auto call = cast<DimFnAttr>(atom);
      DimAttr a = cast<DimAttr>(call.getLhs()).substitute(fn);
      DimAttr b = cast<DimAttr>(call.getRhs()).substitute(fn);
      switch (call.getKind()) {
      case DimFnKind::floordiv:
        value = value * floorDiv(a, b);
        break;
      case DimFnKind::mod:
        value = value * mod(a, b);
        break;
      case DimFnKind::max:
        value = value * maxDim(a, b);
        break;
      case DimFnKind::min:
        value = value * minDim(a, b);
        break;
      }
    }
    sum = sum + value;
  }
  return sum;
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimAttr> dim = DimParser{parser}.expression();
  if (failed(dim) || parser.parseGreater())
    return {};
  return *dim;
}
void DimAttr::print(AsmPrinter &printer) const { printer << "<" << str() << ">"; }

Attribute DimFnAttr::parse(AsmParser &parser, Type) {
  parser.emitError(parser.getCurrentLocation(), "a size function is written inside #train.dim<>");
  return {};
}
void DimFnAttr::print(AsmPrinter &printer) const { printer << "<" << atomText(*this) << ">"; }

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  auto element = [&]() -> ParseResult {
    FailureOr<DimAttr> dim = DimParser{parser}.expression();
    if (failed(dim))
      return failure();
    dims.push_back(*dim);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, element))
    return {};
  return DimsAttr::get(parser.getContext(), dims);
}
LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (getDims().size() != shape.size())
    return emitError() << "expected a dim for each of " << shape.size() << " axes, got "
                       << getDims().size();
  if (!ShapedType::isDynamicShape(shape))
    return emitError() << "expected no #train.dims on a tensor of constant size";
  for (auto [axis, dim] : llvm::enumerate(getDims())) {
    std::optional<int64_t> size = dim.getConstant();
    if (size ? shape[axis] != *size : !ShapedType::isDynamic(shape[axis]))
      return emitError() << "dim " << dim.str() << " does not fit axis " << axis
                         << " of the tensor";
  }
  return success();
}
void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getDims(), printer, [&](DimAttr d) { printer << d.str(); });
  printer << ">";
}

// Most sizes are numbers, for which no polynomial has to be taken apart.

DimAttr operator+(DimAttr a, DimAttr b) {
  std::optional<int64_t> x = a.getConstant(), y = b.getConstant();
  if (x && y)
    return DimAttr::constant(a.getContext(), addSizes(*x, *y));
  if (x == 0)
    return b;
  if (y == 0)
    return a;
  Polynomial p = toPolynomial(a);
  for (auto &[m, c] : toPolynomial(b))
    p[m] = addSizes(p[m], c);
  return toDim(a.getContext(), p);
}
DimAttr operator-(DimAttr a, DimAttr b) {
  std::optional<int64_t> x = a.getConstant(), y = b.getConstant();
  if (x && y)
    return DimAttr::constant(a.getContext(), subtractSizes(*x, *y));
  if (y == 0)
    return a;
  Polynomial p = toPolynomial(a);
  for (auto &[m, c] : toPolynomial(b))
    p[m] = subtractSizes(p[m], c);
  return toDim(a.getContext(), p);
}
DimAttr operator*(DimAttr a, DimAttr b) {
  std::optional<int64_t> x = a.getConstant(), y = b.getConstant();
  if (x && y)
    return DimAttr::constant(a.getContext(), multiplySizes(*x, *y));
  if (x == 1)
    return b;
  if (y == 1)
    return a;
  Polynomial p;
  Polynomial q = toPolynomial(b);
  for (auto &[m, c] : toPolynomial(a))
    for (auto &[n, d] : q) {
      int64_t &sum = p[multiply(m, n)];
      sum = addSizes(sum, multiplySizes(c, d));
    }
  return toDim(a.getContext(), p);
}

DimAttr divideExactly(DimAttr a, DimAttr b) {
  Polynomial rest = toPolynomial(a), divisor = toPolynomial(b), quotient;
  if (divisor.empty())
    return {};
  // Long division by the leading term; the order of Polynomial is a monomial order by degree.
  auto lead = *divisor.begin();
  for (int steps = 0; !rest.empty() && steps < 64; ++steps) {
    auto term = *rest.begin();
    std::optional<Monomial> m = divideMonomial(term.first, lead.first);
    if (!m || floorModulo(term.second, lead.second) != 0)
      return {};
    int64_t c = floorDivide(term.second, lead.second);
    int64_t &factor = quotient[*m];
    factor = addSizes(factor, c);
    for (auto &[n, d] : divisor) {
      int64_t &entry = rest[multiply(*m, n)];
      entry = subtractSizes(entry, multiplySizes(c, d));
    }
    std::erase_if(rest, [](auto &entry) { return entry.second == 0; });
  }
  return rest.empty() ? toDim(a.getContext(), quotient) : DimAttr();
}

/// The floor of a / divisor as a sum with a smaller one, by whichever of these rules applies first;
/// null where none does. Equal sizes of chains of strided convolutions become equal expressions.
///   (d*q + r) / d = q + r / d;  the number in r is from 0 to d - 1, so that all shifts look alike
///   (g*x + c) / (g*d) = (x + c / g) / d
///   (x / e + y) / d = (x + e*y) / (e*d)
static DimAttr simplifyQuotient(DimAttr a, int64_t divisor) {
  MLIRContext *context = a.getContext();
  auto number = [&](int64_t value) { return DimAttr::constant(context, value); };
  Polynomial quotient, rest, names;
  int64_t common = divisor;
  for (auto &[m, c] : toPolynomial(a)) {
    // Terms keep their sign: bounds of a difference would be lost otherwise.
    quotient[m] = c / divisor;
    rest[m] = c % divisor;
    if (!m.empty()) {
      names[m] = rest[m];
      common = std::gcd(common, rest[m]);
    } else if (rest[m] < 0) {
      quotient[m] -= 1;
      rest[m] += divisor;
    }
  }
  DimAttr left = toDim(context, rest);
  if (left != a)
    return toDim(context, quotient) + floorDiv(left, number(divisor));
  if (common > 1) {
    for (auto &entry : names)
      entry.second /= common;
    return floorDiv(toDim(context, names) + number(rest[Monomial()] / common),
                    number(divisor / common));
  }
  for (auto &[m, c] : names) {
    auto inner = m.size() == 1 && c == 1 ? dyn_cast<DimFnAttr>(m[0]) : DimFnAttr();
    if (!inner || inner.getKind() != DimFnKind::floordiv)
      continue;
    std::optional<int64_t> by = cast<DimAttr>(inner.getRhs()).getConstant();
    int64_t product;
    if (by && *by > 0 && !llvm::MulOverflow(*by, divisor, product))
      return floorDiv(cast<DimAttr>(inner.getLhs()) + (a - atomDim(inner)) * number(*by),
                      number(product));
  }
  return {};
}

DimAttr floorDiv(DimAttr a, DimAttr b) {
  if (b.isConstant(1))
    return a;
  if (a.getConstant() && b.getConstant() && *b.getConstant() != 0)
    return DimAttr::constant(a.getContext(), floorDivide(*a.getConstant(), *b.getConstant()));
  if (DimAttr exact = divideExactly(a, b))
    return exact;
  if (std::optional<int64_t> divisor = b.getConstant(); divisor && *divisor > 0)
    if (DimAttr simpler = simplifyQuotient(a, *divisor))
      return simpler;
  return makeFn(DimFnKind::floordiv, a, b);
}
DimAttr mod(DimAttr a, DimAttr b) {
  if (b.isConstant(1) || (!b.isConstant(0) && divideExactly(a, b)))
    return DimAttr::constant(a.getContext(), 0);
  if (a.getConstant() && b.getConstant() && *b.getConstant() != 0) {
    return DimAttr::constant(a.getContext(), floorModulo(*a.getConstant(), *b.getConstant()));
  }
  if (std::optional<int64_t> divisor = b.getConstant(); divisor && *divisor > 0) {
    Polynomial rest;
    for (auto &[m, c] : toPolynomial(a))
      rest[m] = floorModulo(c, *divisor);
    a = toDim(a.getContext(), rest);
  }
  return makeFn(DimFnKind::mod, a, b);
}
static DimAttr extremum(DimFnKind kind, DimAttr a, DimAttr b) {
  // Where the difference is a constant the answer is known for all sizes.
  if (std::optional<int64_t> difference = (a - b).getConstant())
    return (kind == DimFnKind::max) == (*difference >= 0) ? a : b;
  if (b.str() < a.str())
    std::swap(a, b);
  return makeFn(kind, a, b);
}
DimAttr maxDim(DimAttr a, DimAttr b) { return extremum(DimFnKind::max, a, b); }
DimAttr minDim(DimAttr a, DimAttr b) { return extremum(DimFnKind::min, a, b); }

bool hasNamedDims(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.hasStaticShape() || isa_and_nonnull<DimsAttr>(tensor.getEncoding());
}
SmallVector<DimAttr> getDims(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto dims = dyn_cast_or_null<DimsAttr>(tensor.getEncoding()))
    return SmallVector<DimAttr>(dims.getDims());
  SmallVector<DimAttr> result;
  for (int64_t size : tensor.getShape())
    result.push_back(DimAttr::constant(type.getContext(), size));
  return result;
}
SmallVector<DimAttr> getDims(Value value) { return getDims(value.getType()); }
DimAttr getDim(Value value, int64_t axis) { return getDims(value)[axis]; }
DimAttr product(MLIRContext *context, ArrayRef<DimAttr> dims) {
  DimAttr result = DimAttr::constant(context, 1);
  for (DimAttr dim : dims)
    result = result * dim;
  return result;
}
DimAttr getNumElements(Type type) { return product(type.getContext(), getDims(type)); }
int64_t getElementBytes(Type type) {
  return std::max(8u, getElementTypeOrSelf(type).getIntOrFloatBitWidth()) / 8;
}
DimAttr getBytes(Type tensorType) {
  return getNumElements(tensorType) *
         DimAttr::constant(tensorType.getContext(), getElementBytes(tensorType));
}
RankedTensorType getTensorType(ArrayRef<DimAttr> dims, Type elementType) {
  SmallVector<int64_t> shape;
  bool dynamic = false;
  for (DimAttr dim : dims) {
    std::optional<int64_t> size = dim.getConstant();
    dynamic |= !size;
    shape.push_back(size.value_or(ShapedType::kDynamic));
  }
  Attribute encoding;
  if (dynamic)
    encoding = DimsAttr::get(elementType.getContext(), dims);
  return RankedTensorType::get(shape, elementType, encoding);
}
RankedTensorType withElementType(Type type, Type elementType) {
  return cast<RankedTensorType>(cast<RankedTensorType>(type).clone(elementType));
}
int64_t getRank(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }
Type getElementType(Value value) { return getElementTypeOrSelf(value.getType()); }
std::string dimsToString(ArrayRef<DimAttr> dims) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(dims))
    text += (i ? ", " : "") + dim.str();
  return text + "]";
}

} // namespace trainc::train
