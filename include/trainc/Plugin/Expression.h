// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes in the JSON of a plug-in: numbers, names, + - * / % (rounded down), min, max, ceildiv, and
// size(TENSOR), a tensor's number of elements.

#ifndef TRAINC_PLUGIN_EXPRESSION_H
#define TRAINC_PLUGIN_EXPRESSION_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainc::plugin {

struct Expression {
  enum class Kind {
    Number,
    Name,
    Size,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    CeilDivide,
    Min,
    Max
  };
  Kind kind = Kind::Number;
  int64_t number = 0;
  /// Of a name, or of the tensor whose size it is.
  std::string name;
  /// Two operands of all others.
  std::vector<Expression> operands;

  /// Calls `fn` with every name in it, and whether it is a tensor's.
  void forEachName(llvm::function_ref<void(llvm::StringRef name, bool isTensor)> fn) const;
};

/// Parses `text`; null with what is wrong with it.
std::optional<Expression> parseExpression(llvm::StringRef text, std::string &problem);

/// A letter or '_', then also digits.
bool isName(llvm::StringRef text);

} // namespace trainc::plugin

#endif // TRAINC_PLUGIN_EXPRESSION_H
