// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// std::regex reports a bad pattern by an exception: this file alone is compiled with them and turns
// them into texts.

#include "trainc/Regex.h"

#include <regex>

namespace trainc {

struct Regex::Impl {
  std::regex expression;
};

Regex::Regex() = default;
Regex::~Regex() = default;
Regex::Regex(Regex &&) = default;
Regex &Regex::operator=(Regex &&) = default;

std::string Regex::compile(llvm::StringRef pattern) {
  try {
    impl = std::make_unique<Impl>();
    impl->expression.assign(pattern.begin(), pattern.end(), std::regex::ECMAScript);
    return {};
  } catch (const std::regex_error &error) {
    impl.reset();
    return "'" + pattern.str() + "' is not a regular expression: " + error.what();
  }
}

bool Regex::search(llvm::StringRef text) const {
  try {
    return impl && std::regex_search(text.begin(), text.end(), impl->expression);
  } catch (const std::regex_error &) {
    return false; // too complex for this text: no match
  }
}

} // namespace trainc
