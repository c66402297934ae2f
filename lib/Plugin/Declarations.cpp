// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Declarations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace trainc::plugin {

static std::nullopt_t fail(std::string &problem, const std::string &what) {
  problem = what;
  return std::nullopt;
}

llvm::ArrayRef<llvm::StringLiteral> elementTypes() {
  static constexpr llvm::StringLiteral types[] = {"f32", "f64", "f16", "bf16", "i8",
                                                  "i16", "i32", "i64", "bool"};
  return types;
}

/// At commas outside of parentheses.
static llvm::SmallVector<StringRef> splitList(StringRef text) {
  llvm::SmallVector<StringRef> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (!text.trim().empty())
    parts.push_back(text.drop_front(begin).trim());
  return parts;
}

std::optional<Tensor> parseTensor(StringRef text, std::string &problem) {
  Tensor tensor;
  tensor.text = text.trim().str();
  auto [name, rest] = text.split(':');
  tensor.name = name.trim().str();
  if (!isName(tensor.name) || llvm::is_contained(elementTypes(), StringRef(tensor.name)))
    return fail(problem, "a tensor is declared as \"NAME: TYPE[SIZES]\", \"x: f32[n, 4]\"");
  auto [types, shape] = rest.trim().split('[');
  if (!shape.consume_back("]"))
    return fail(problem, "the sizes of '" + tensor.name +
                             "' are missing; they are between [ and ], "
                             "[] of a single number");
  for (StringRef type : llvm::split(types.trim(), '|')) {
    type = type.trim();
    if (llvm::is_contained(elementTypes(), type))
      tensor.types.push_back(type.str());
    else if (isName(type) && tensor.like.empty())
      tensor.like = type.str();
    else
      return fail(problem, "'" + type.str() + "' is no type; there are " +
                               llvm::join(elementTypes(), ", ") + ", and names of other tensors");
  }
  if (!tensor.like.empty() && !tensor.types.empty())
    return fail(problem, "'" + tensor.name + "' has the type of '" + tensor.like +
                             "' and others; it is one or the other");
  for (auto [i, size] : llvm::enumerate(splitList(shape))) {
    if (size == "..." && i == 0) {
      tensor.hasLeading = true;
      continue;
    }
    std::string reason;
    std::optional<Expression> parsed = parseExpression(size, reason);
    if (!parsed)
      return fail(problem, "the size '" + size.str() + "': " + reason);
    tensor.shape.push_back(std::move(*parsed));
  }
  return tensor;
}

/// Numbers between [ and ], or one.
template <typename Number> static bool parseNumbers(StringRef text, std::vector<Number> &numbers) {
  const bool isList = text.consume_front("[");
  if (isList && !text.consume_back("]"))
    return false;
  for (StringRef part : splitList(text)) {
    Number number;
    if constexpr (std::is_same_v<Number, double>) {
      if (part.getAsDouble(number))
        return false;
    } else if (part.getAsInteger(10, number)) {
      return false;
    }
    numbers.push_back(number);
  }
  return isList || numbers.size() == 1;
}

std::optional<Attribute> parseAttribute(StringRef text, std::string &problem) {
  static constexpr std::pair<llvm::StringLiteral, Attribute::Kind> kinds[] = {
      {"int", Attribute::Kind::Int},
      {"float", Attribute::Kind::Float},
      {"ints", Attribute::Kind::Ints},
      {"floats", Attribute::Kind::Floats},
      {"string", Attribute::Kind::String}};
  Attribute attribute;
  auto [name, rest] = text.split(':');
  attribute.name = name.trim().str();
  auto [type, value] = rest.split('=');
  auto *kind = llvm::find_if(kinds, [&](const auto &known) { return known.first == type.trim(); });
  if (!isName(attribute.name) || kind == std::end(kinds))
    return fail(problem, "an attribute is declared as \"NAME: TYPE\" or \"NAME: TYPE = VALUE\", "
                         "TYPE int, float, ints, floats or string");
  attribute.kind = kind->second;
  attribute.isOptional = rest.contains('=');
  if (!attribute.isOptional)
    return attribute;
  value = value.trim();
  bool good = true;
  const bool isList =
      attribute.kind == Attribute::Kind::Ints || attribute.kind == Attribute::Kind::Floats;
  if (attribute.kind == Attribute::Kind::String)
    attribute.string = value.str();
  else if (value.starts_with("[") != isList)
    good = false;
  else if (attribute.kind == Attribute::Kind::Int || attribute.kind == Attribute::Kind::Ints)
    good = parseNumbers(value, attribute.ints);
  else
    good = parseNumbers(value, attribute.floats);
  if (!good)
    return fail(problem, "'" + value.str() + "' is no value of type " + type.trim().str());
  return attribute;
}

std::optional<Argument> parseArgument(StringRef text, const Operator &op, std::string &problem) {
  Argument argument;
  text = text.trim();
  if (op.tensor(text)) {
    argument.kind = Argument::Kind::Tensor;
    argument.name = text.str();
    return argument;
  }
  StringRef name = text;
  const bool isWide = text.starts_with("f64(") && text.ends_with(")");
  if (isWide)
    name = text.drop_front(4).drop_back(1);
  for (const Attribute &attribute : op.attributes)
    if (attribute.name == name && attribute.kind == Attribute::Kind::Float) {
      argument.kind = isWide ? Argument::Kind::Float64 : Argument::Kind::Float32;
      argument.name = name.str();
      return argument;
    }
  std::optional<Expression> size = parseExpression(text, problem);
  if (!size)
    return std::nullopt;
  argument.size = std::move(*size);
  return argument;
}

} // namespace trainc::plugin
