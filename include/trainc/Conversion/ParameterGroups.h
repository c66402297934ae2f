// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups of parameters: which learn at another rate, decay otherwise, or are not trained.
// --group, --lr-scale, --no-decay and --freeze all become these.
#ifndef TRAINC_CONVERSION_PARAMETERGROUPS_H
#define TRAINC_CONVERSION_PARAMETERGROUPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>
#include <string>
#include <vector>

namespace trainc {

/// On an argument: its weight decay, whatever that of the package is (f64).
inline constexpr llvm::StringLiteral kWeightDecayAttr = "train.weight_decay";

/// Parameters whose names match, and what is said of them. Of all groups that match a parameter the
/// first one that has a setting decides on that setting.
struct ParameterGroup {
  /// What it was written as: "--group", "--no-decay", ...
  std::string option;
  /// An ECMAScript expression that matches anywhere in a name; "": norms and biases.
  std::string pattern;
  /// A factor of the learning rate, or a rate for where that of the package is used.
  std::optional<double> lrFactor, lr;
  /// A factor of the weight decay, or a decay that is independent of it.
  std::optional<double> decayFactor, decay;
  bool freeze = false;
};

/// What was decided on a parameter that is trained.
struct GroupDecision {
  std::string name;
  double lrFactor = 1, decayFactor = 1;
  std::optional<double> decay;
  /// "learning rate x 16 (--group 'lora_B')"; "" where nothing was said.
  std::string text;
};

/// Sets the factors of the trainable parameters of @forward, with a remark each. `lr` is the
/// package's learning rate. `layerDecay`: each layer learns at this much of the rate of the one
/// above it; 0 or 1: at the same.
std::vector<GroupDecision> applyGroups(mlir::func::FuncOp forward,
                                       llvm::ArrayRef<ParameterGroup> groups, double lr,
                                       double layerDecay);

} // namespace trainc

#endif // TRAINC_CONVERSION_PARAMETERGROUPS_H
