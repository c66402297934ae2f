// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive descent; products bind closer than sums.

#include "trainc/Plugin/Expression.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace trainc::plugin {

using Kind = Expression::Kind;

bool isName(StringRef text) {
  auto isLetter = [](char c) { return llvm::isAlpha(c) || c == '_'; };
  return !text.empty() && isLetter(text.front()) &&
         llvm::all_of(text, [&](char c) { return isLetter(c) || llvm::isDigit(c); });
}

void Expression::forEachName(llvm::function_ref<void(StringRef, bool)> fn) const {
  if (kind == Kind::Name || kind == Kind::Size)
    fn(name, kind == Kind::Size);
  for (const Expression &operand : operands)
    operand.forEachName(fn);
}

static Expression combine(Kind kind, Expression lhs, Expression rhs) {
  Expression result;
  result.kind = kind;
  result.operands.push_back(std::move(lhs));
  result.operands.push_back(std::move(rhs));
  return result;
}

static Expression number(int64_t value) {
  Expression result;
  result.number = value;
  return result;
}

namespace {
class Parser {
public:
  Parser(StringRef text, std::string &problem) : rest(text), problem(problem) {}

  std::optional<Expression> run() {
    std::optional<Expression> result = sum();
    skip();
    if (result && !rest.empty())
      return fail("'" + rest.str() + "' is left over");
    return result;
  }

private:
  /// Deeper ones are no sizes that anybody writes, and each level is a call.
  static constexpr unsigned mostLevels = 64;

  std::nullopt_t fail(const std::string &what) {
    if (problem.empty())
      problem = what;
    return std::nullopt;
  }
  void skip() { rest = rest.ltrim(); }
  bool take(StringRef token) {
    skip();
    return rest.consume_front(token);
  }

  std::optional<Expression> sum() {
    std::optional<Expression> result = product();
    while (result) {
      const Kind kind = take("+") ? Kind::Add : take("-") ? Kind::Subtract : Kind::Number;
      if (kind == Kind::Number)
        break;
      std::optional<Expression> rhs = product();
      if (!rhs)
        return std::nullopt;
      result = combine(kind, std::move(*result), std::move(*rhs));
    }
    return result;
  }

  std::optional<Expression> product() {
    std::optional<Expression> result = atom();
    while (result) {
      const Kind kind = take("*")   ? Kind::Multiply
                        : take("/") ? Kind::Divide
                        : take("%") ? Kind::Remainder
                                    : Kind::Number;
      if (kind == Kind::Number)
        break;
      std::optional<Expression> rhs = atom();
      if (!rhs)
        return std::nullopt;
      result = combine(kind, std::move(*result), std::move(*rhs));
    }
    return result;
  }

  std::optional<Expression> atom() {
    if (++levels > mostLevels)
      return fail("it has too many parentheses");
    std::optional<Expression> result = unguardedAtom();
    --levels;
    return result;
  }

  std::optional<Expression> unguardedAtom() {
    if (take("(")) {
      std::optional<Expression> inner = sum();
      if (inner && !take(")"))
        return fail("a ')' is missing");
      return inner;
    }
    if (take("-")) {
      std::optional<Expression> operand = atom();
      if (!operand)
        return std::nullopt;
      return combine(Kind::Subtract, number(0), std::move(*operand));
    }
    skip();
    StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (word.empty())
      return fail(rest.empty() ? "a number or a name is missing at its end"
                               : "'" + rest.str() + "' begins with neither a number nor a name");
    rest = rest.drop_front(word.size());
    if (llvm::isDigit(word.front())) {
      int64_t value = 0;
      if (word.getAsInteger(10, value))
        return fail("'" + word.str() + "' is no number");
      return number(value);
    }
    if (take("("))
      return call(word);
    Expression result;
    result.kind = Kind::Name;
    result.name = word.str();
    return result;
  }

  std::optional<Expression> call(StringRef name) {
    if (name == "size") {
      skip();
      StringRef tensor = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      rest = rest.drop_front(tensor.size());
      if (!isName(tensor) || !take(")"))
        return fail("size() takes the name of a tensor");
      Expression result;
      result.kind = Kind::Size;
      result.name = tensor.str();
      return result;
    }
    if (name != "min" && name != "max" && name != "ceildiv")
      return fail("'" + name.str() + "' is no function; there are min, max, ceildiv and size");
    std::optional<Expression> lhs = sum();
    if (!lhs)
      return std::nullopt;
    if (!take(","))
      return fail(name.str() + "() takes two operands");
    std::optional<Expression> rhs = sum();
    if (!rhs)
      return std::nullopt;
    if (!take(")"))
      return fail("a ')' is missing");
    const Kind kind = name == "min" ? Kind::Min : name == "max" ? Kind::Max : Kind::CeilDivide;
    return combine(kind, std::move(*lhs), std::move(*rhs));
  }

  StringRef rest;
  std::string &problem;
  unsigned levels = 0;
};
} // namespace

std::optional<Expression> parseExpression(StringRef text, std::string &problem) {
  // Each term is a level of the tree.
  constexpr size_t mostCharacters = 1000;
  if (text.size() > mostCharacters) {
    problem = "it has more than " + std::to_string(mostCharacters) + " characters";
    return std::nullopt;
  }
  return Parser(text, problem).run();
}

} // namespace trainc::plugin
