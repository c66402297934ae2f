// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which initializers are trained: by the command line, by the model's own list, or by default.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ROLES_TRAINABLE_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ROLES_TRAINABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Support/Regex.h"
#include "llvm/ADT/StringSet.h"

namespace trainc::legalize {

class TrainableRule {
public:
  /// Reads options and the model's metadata; returns what is wrong with them, or "".
  std::string init(const LegalizeOptions &options, mlir::DictionaryAttr metadata);
  /// The graph computes the gradient of `name` itself, so `name` is no buffer.
  void addGradient(llvm::StringRef name) { gradients.insert(name); }
  /// Why the float initializer `name` is not trained; "" if it is (if it reaches the loss, by the
  /// default rule).
  std::string reasonAgainst(llvm::StringRef name);
  /// Whether the float initializer `name` is a parameter of the model even where options leave it
  /// untrained: its value is then for the run to say, as that of trained ones is.
  bool isParameterOfModel(llvm::StringRef name, int64_t elements) const;
  /// No list and no --trainable: only what reaches the loss is trained.
  bool isDefault() const { return !hasList && !hasPattern; }
  /// Whether --trainable says what is trained.
  bool isChosen() const { return hasPattern; }
  /// Names of the model's list that no initializer has asked about.
  std::vector<std::string> unknownNames() const;
  /// Parameters of the exported model, by the exporter's own list, that no initializer has asked
  /// about: tied to another one, or lost.
  std::vector<std::string> lostParameters() const;
  /// The name of an intermediate value of PyTorch's exporter: "val_12".
  static bool isValueName(llvm::StringRef name);

private:
  bool inference = false, hasList = false, hasPattern = false;
  bool modelHasList = false; // whether or not options take its place
  llvm::StringSet<> list, seen, gradients;
  std::vector<std::string> listed;
  /// What PyTorch's exporter says of its model: names of parameters, in order, and of buffers.
  std::vector<std::string> parameters;
  llvm::StringSet<> isParameter, isBuffer;
  Regex pattern;
  std::vector<Regex> freeze;
};

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ROLES_TRAINABLE_H
