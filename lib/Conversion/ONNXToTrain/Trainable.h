// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which initializers are trained: by the command line, by the model's own list, or by default.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_TRAINABLE_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_TRAINABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "trainc/Legalize.h"
#include "trainc/Regex.h"
#include "llvm/ADT/StringSet.h"

namespace trainc::legalize {

class TrainableRule {
public:
  /// Reads options and the model's metadata; returns what is wrong with them, or "".
  std::string init(const LegalizeOptions &options, mlir::DictionaryAttr metadata);
  /// Why the float initializer `name` is not trained; "" if it is (if it reaches the loss, by the
  /// default rule).
  std::string reasonAgainst(llvm::StringRef name);
  /// No list and no --trainable: only what reaches the loss is trained.
  bool isDefault() const { return !hasList && !hasPattern; }
  /// Names of the model's list that no initializer has asked about.
  std::vector<std::string> unknownNames() const;

private:
  bool inference = false, hasList = false, hasPattern = false, hasFreeze = false;
  llvm::StringSet<> list, seen;
  std::vector<std::string> listed;
  Regex pattern, freeze;
};

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_TRAINABLE_H
