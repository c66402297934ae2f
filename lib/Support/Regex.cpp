// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// std::regex reports a bad pattern by an exception: this file alone is compiled with them and turns
// them into texts.

#include "trainc/Support/Regex.h"

#include <optional>
#include <regex>

namespace trainc {

struct Regex::Impl {
  std::regex expression;
  /// Of the form that does not call itself for each character of the text; none for a pattern with
  /// references to its groups, which that form lacks.
  std::optional<std::regex> forLongTexts;
};

/// Longer names than any exporter's: on these the usual form may need more stack than there is.
static constexpr size_t longText = 4096;

Regex::Regex() = default;
Regex::~Regex() = default;
Regex::Regex(Regex &&) = default;
Regex &Regex::operator=(Regex &&) = default;

std::string Regex::compile(llvm::StringRef pattern) {
  /// Compiled once, for all names.
  try {
    impl = std::make_unique<Impl>();
    impl->expression.assign(pattern.begin(), pattern.end(), std::regex::ECMAScript);
  } catch (const std::regex_error &error) {
    impl.reset();
    return "'" + pattern.str() + "' is not a regular expression: " + error.what();
  }
#ifdef __GLIBCXX__
  try {
    impl->forLongTexts.emplace(pattern.begin(), pattern.end(),
                               std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error &) {
    // References to groups: long texts never match then.
  }
#endif
  return {};
}

bool Regex::search(llvm::StringRef text) const {
  // Before anything was compiled nothing matches.
  try {
    if (!impl)
      return false;
    if (text.size() <= longText)
      return std::regex_search(text.begin(), text.end(), impl->expression);
    return impl->forLongTexts && std::regex_search(text.begin(), text.end(), *impl->forLongTexts);
  } catch (const std::regex_error &) {
    return false; // too complex for this text: no match
  }
}

} // namespace trainc
