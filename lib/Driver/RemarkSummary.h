// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes decided, counted: --explain.
#ifndef TRAINC_LIB_DRIVER_REMARKSUMMARY_H
#define TRAINC_LIB_DRIVER_REMARKSUMMARY_H

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <map>
#include <string>

namespace trainc {

class RemarkSummary {
public:
  /// `kind` is what a remark's kind is called (passed, missed, failure, analysis). Texts that
  /// differ in names and numbers only are one decision; the first is told.
  void add(llvm::StringRef pass, llvm::StringRef kind, llvm::StringRef node, llvm::StringRef text);
  /// A paragraph a pass: how many of each kind, and the most frequent decisions with a node.
  void print(llvm::raw_ostream &out) const;

private:
  /// In the order of first additions.
  template <typename T>
  using Ordered = llvm::MapVector<std::string, T, std::map<std::string, unsigned>>;
  struct Decision {
    std::string kind, node, text;
    size_t count = 0;
  };
  struct Pass {
    Ordered<size_t> kinds;
    Ordered<Decision> decisions;
  };
  Ordered<Pass> passes;
  size_t remarks = 0;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_REMARKSUMMARY_H
