// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names in messages come from files that anybody may have written.

#include "trainc/Support/Names.h"
#include "format/status.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

/// A name of a node inside of nested functions begins with the calls that led there. Where these
/// are many, those in the middle go: the first says where to look, the last what is there.
static std::string shortenNames(StringRef text) {
  constexpr size_t longest = 160;
  constexpr unsigned kept = 2; // calls at each end
  constexpr StringLiteral mark = "node '";
  std::string result;
  while (true) {
    size_t begin = text.find(mark);
    // Unpaired quotes end it: the rest stays.
    size_t end = begin == StringRef::npos ? begin : text.find('\'', begin + mark.size());
    if (end == StringRef::npos)
      return result + text.str();
    StringRef name = text.slice(begin + mark.size(), end);
    SmallVector<StringRef> parts;
    name.split(parts, '/');
    // Everything up to the name is kept.
    result += text.substr(0, begin + mark.size());
    if (name.size() <= longest || parts.size() <= 2 * kept + 1)
      result += name;
    else
      result += llvm::join(ArrayRef(parts).take_front(kept), "/") + "/... " +
                std::to_string(parts.size() - 2 * kept) + " calls .../" +
                llvm::join(ArrayRef(parts).take_back(kept), "/");
    text = text.substr(end);
  }
}

/// Names are between quotes: every second part.
std::string trainc::showNames(StringRef text) {
  std::string shortened = shortenNames(text), result;
  SmallVector<StringRef> parts;
  StringRef(shortened).split(parts, '\'');
  for (auto [number, part] : llvm::enumerate(parts)) {
    result += number ? "'" : "";
    // The last part has no closing quote.
    const bool isQuoted = number % 2 && number + 1 < parts.size();
    result += isQuoted || part.size() > 4096 ? trainrt::shown(part) : trainrt::shownLines(part);
  }
  return result;
}
