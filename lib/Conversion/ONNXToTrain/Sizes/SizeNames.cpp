// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Python's precedence: `**` binds before `*`, `//` and `%`, these before `+` and `-`.

#include "lib/Conversion/ONNXToTrain/Sizes/SizeNames.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::legalize;

namespace {

/// A file may hold anything: what a person or an exporter writes is far below these.
constexpr size_t kLongestName = 256;
constexpr size_t kMostTerms = 64;
constexpr int64_t kMostFactors = 8;
constexpr int kDeepest = 32;

/// Each function returns null at the first thing that is no part of an expression.
class SizeNameParser {
public:
  SizeNameParser(MLIRContext *context, StringRef text) : context(context), rest(text) {}

  DimAttr parse() {
    DimAttr size = sum();
    skipSpaces();
    return rest.empty() ? size : DimAttr();
  }

private:
  void skipSpaces() { rest = rest.ltrim(' '); }
  bool consume(StringRef sign) {
    skipSpaces();
    return rest.consume_front(sign);
  }

  DimAttr sum() {
    // A sign stands in front of the first term only.
    const bool negative = consume("-");
    DimAttr size = term();
    if (size && negative)
      size = DimAttr::constant(context, 0) - size;
    while (size) {
      const bool plus = consume("+");
      if (!plus && !consume("-"))
        return size;
      DimAttr next = term();
      size = !next ? DimAttr() : plus ? size + next : size - next;
    }
    return size;
  }

  /// Products, quotients and remainders, from the left, as Python has them.
  DimAttr term() {
    DimAttr size = power();
    while (size) {
      // `**` has been looked for already.
      if (consume("*"))
        size = multiply(size, power());
      else if (consume("//"))
        size = divide(size, power(), /*remainder=*/false);
      else if (consume("%"))
        size = divide(size, power(), /*remainder=*/true);
      else
        return size;
    }
    return size;
  }

  /// Only with a number for an exponent: another one makes no polynomial.
  DimAttr power() {
    DimAttr base = primary();
    if (!base || !consume("**"))
      return base;
    int64_t exponent;
    skipSpaces();
    if (rest.consumeInteger(10, exponent) || exponent < 1 || exponent > kMostFactors)
      return {};
    DimAttr size = base;
    for (int64_t i = 1; i < exponent && size; ++i)
      size = multiply(size, base);
    return size;
  }

  /// A number, a name, a call or what is in parentheses.
  DimAttr primary() {
    skipSpaces();
    // Exporters put parentheses around what needs none: "2*((h//2))".
    if (rest.consume_front("(")) {
      DimAttr size = nested();
      return size && consume(")") ? size : DimAttr();
    }
    if (rest.empty() || (!llvm::isAlnum(rest[0]) && rest[0] != '_'))
      return {};
    // More than 64 bits hold is no size.
    if (llvm::isDigit(rest[0])) {
      int64_t number;
      return rest.consumeInteger(10, number) ? DimAttr() : DimAttr::constant(context, number);
    }
    StringRef name = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(name.size());
    return consume("(") ? call(name) : DimAttr::symbol(context, name);
  }

  /// A name from a file must not exhaust the stack.
  DimAttr nested() {
    if (++depth > kDeepest)
      return {};
    DimAttr size = sum();
    --depth;
    return size;
  }

  /// Behind the opening parenthesis.
  DimAttr call(StringRef function) {
    // Python's Max and Min take any number of operands.
    SmallVector<DimAttr> operands;
    do {
      operands.push_back(nested());
      if (!operands.back())
        return {};
    } while (consume(","));
    if (!consume(")") || operands.size() < 2)
      return {};
    const bool larger = function == "Max";
    if (larger || function == "Min") {
      DimAttr size = operands[0];
      for (DimAttr other : llvm::drop_begin(operands))
        size = larger ? train::maxDim(size, other) : train::minDim(size, other);
      return size;
    }
    const bool remainder = function == "Mod" || function == "PythonMod";
    if (operands.size() != 2 || (!remainder && function != "FloorDiv" && function != "CleanDiv"))
      return {};
    return divide(operands[0], operands[1], remainder);
  }

  /// Products of sums grow fast: "(a+b)**60" is a name like any other.
  static DimAttr multiply(DimAttr a, DimAttr b) {
    if (!a || !b || a.getMonomials().size() * b.getMonomials().size() > kMostTerms)
      return {};
    return a * b;
  }
  /// The floor, as Python's; by a number that is not above 0 it is no size.
  static DimAttr divide(DimAttr a, DimAttr b, bool remainder) {
    if (!a || !b || b.getConstant().value_or(1) < 1)
      return {};
    return remainder ? train::mod(a, b) : train::floorDiv(a, b);
  }

  MLIRContext *context;
  StringRef rest;
  int depth = 0;
};

} // namespace

DimAttr trainc::legalize::parseSizeName(MLIRContext *context, StringRef name) {
  // Numbers alone are sizes that have no name.
  if (name.size() > kLongestName)
    return {};
  DimAttr size = SizeNameParser(context, name).parse();
  return size && !size.getConstant() ? size : DimAttr();
}
