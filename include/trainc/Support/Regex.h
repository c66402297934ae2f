// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ECMAScript regular expressions, as the command line promises them, without exceptions.

#ifndef TRAINC_SUPPORT_REGEX_H
#define TRAINC_SUPPORT_REGEX_H

#include "llvm/ADT/StringRef.h"
#include <memory>
#include <string>

namespace trainc {

class Regex {
public:
  Regex();
  ~Regex();
  Regex(Regex &&);
  Regex &operator=(Regex &&);

  /// Compiles `pattern`; returns what is wrong with it, or "".
  std::string compile(llvm::StringRef pattern);
  /// True if the pattern matches anywhere in `text`.
  bool search(llvm::StringRef text) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace trainc

#endif // TRAINC_SUPPORT_REGEX_H
