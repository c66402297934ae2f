// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scan for brackets outside of strings: up to the first error in the text it counts what every
// parser of JSON does, and behind that none looks.

#include "format/json_depth.h"

namespace trainrt {

/// Runs before the parser, which recurses once a level: text that nests deeper would overflow the
/// stack.
bool nestsTooDeep(std::string_view text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inString) {
      // The character behind a backslash ends nothing; \u and its digits need no more.
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > maxJsonDepth)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

} // namespace trainrt
