// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names come from files that anybody may have written, and messages go to terminals and logs.

#include "format/status.h"

#include <algorithm>

namespace trainrt {

namespace {

/// The bytes of the UTF-8 character that begins at `at`, and in `code` which it is; 0 if none does.
size_t characterAt(std::string_view text, size_t at, uint32_t &code) {
  auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(at);
  // 0x80 to 0xc1 begin no character: continuations, and two-byte forms of ASCII.
  const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (size == 0 || lead > 0xf4 || text.size() - at < size)
    return 0;
  code = size == 1 ? lead : lead & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  // Each character has one valid encoding; surrogates are no characters.
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  return overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : size;
}

/// Whether a terminal may act on it instead of showing it: controls, and what turns the direction
/// of the text around.
/// DEL and the C1 controls with C0; separators of lines; embeddings, overrides and isolates of
/// direction.
bool isActive(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/// Appends `text` with what is active or no UTF-8 as "\xNN" a byte. `lines`: its ends of lines and
/// tabs stay.
void appendEscaped(std::string &result, std::string_view text, bool lines) {
  static constexpr char digits[] = "0123456789abcdef";
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t size = characterAt(text, at, code);
    if (size && (!isActive(code) || (lines && (code == '\n' || code == '\t')))) {
      result.append(text, at, size);
      at += size;
      continue;
    }
    // The bytes of an active character one by one, or the one that begins none.
    for (size_t end = at + std::max<size_t>(size, 1); at < end; ++at)
      (result += "\\x") += {digits[static_cast<unsigned char>(text[at]) >> 4],
                            digits[static_cast<unsigned char>(text[at]) & 15]};
  }
}

/// The nearest place not behind `at` where a character may begin.
size_t characterStart(std::string_view text, size_t at) {
  // A character has at most three continuations: longer runs are no UTF-8, and may be cut anywhere.
  for (int i = 0; i < 3 && at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; ++i)
    --at;
  return at;
}

} // namespace

std::string shown(std::string_view text) {
  // Where names have been put together the message stays readable, too.
  // Both ends of a name tell what it is; the middle may be megabytes.
  constexpr size_t longest = 512, end = 100;
  std::string result;
  if (text.size() <= longest) {
    appendEscaped(result, text, /*lines=*/false);
    return result;
  }
  const size_t head = characterStart(text, end), tail = characterStart(text, text.size() - end);
  // `characterStart` moves both cuts to the left: head <= tail, as 2 * end < longest.
  appendEscaped(result, text.substr(0, head), /*lines=*/false);
  result += "[..." + std::to_string(tail - head) + " bytes...]";
  appendEscaped(result, text.substr(tail), /*lines=*/false);
  return result;
}

std::string shownLines(std::string_view text) {
  std::string result;
  appendEscaped(result, text, /*lines=*/true);
  return result;
}

} // namespace trainrt
