// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a package offers outside: its parameters, state, inputs, hyper-parameters and outputs,
// collected from the functions before they become plans.
#ifndef TRAINC_PACKAGE_INTERFACE_H
#define TRAINC_PACKAGE_INTERFACE_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Analysis/InputRules.h"
#include "trainc/Import/Import.h"

namespace trainc {

/// As what an input is read, and what in it is real: all but `pad`, or where `mask` is not 0.
struct InterfaceTokens {
  bool isLabel = false;
  std::optional<int64_t> pad;
  std::string mask;
  bool operator==(const InterfaceTokens &) const = default;
};

/// One named tensor of the package's interface.
struct InterfaceTensor {
  std::string name;
  mlir::RankedTensorType type;
  bool trainable = false;
  /// Parameters: steps change it without a gradient (running statistics).
  bool updated = false;
  /// Parameters: where the initial value is.
  train::WeightAttr weight;
  /// Parameters: how they begin without one; null: not said.
  mlir::DictionaryAttr init;
  /// Parameters that hold codes of a weight: of which. Others that belong to them: to whose.
  mlir::DictionaryAttr quantized;
  std::string partOf;
  /// Integers are bytes without a sign.
  bool isUnsigned = false;
  /// Inputs: functions that read it.
  bool usedInTrain = false, usedInEval = false;
  /// Inputs: tokens and labels.
  std::vector<InterfaceTokens> tokens;
  /// Parameters and state: elements that are never cut, where each rank has a shard (train::Shard);
  /// `type` is that of the whole. 0: all of it is on every rank.
  int64_t shardUnit = 0;
  /// Parameters: the same of the accumulator of the gradient.
  int64_t gradientUnit = 0;
  /// Outputs: the loss.
  bool isLoss = false;
  /// Of parameters, what sets them apart from others (numbers by their names in the manifest).
  llvm::SmallVector<std::pair<llvm::StringRef, double>, 2> group;
  bool isWeight = false;   ///< an output that is the loss's denominator
  bool isGradNorm = false; ///< an output of steps that is the norm of their gradients
};

/// Bytes of a parameter that is not trained, up to which it is in the package wherever the model
/// is: tables, frequencies and running statistics, without which nothing can be trained.
inline constexpr int64_t kSmallConstant = 1 << 20;

/// Whether the first value of a parameter, or of state, is copied into the package if its file is
/// there. `all`: any is.
bool travelsInside(const InterfaceTensor &tensor, bool all);

struct PackageInterface {
  std::vector<InterfaceTensor> parameters, state, inputs, hypers, outputs;
  /// What is made of parameters and kept beside them, by the names of these.
  std::vector<InterfaceTensor> derived;
  std::vector<InputRule> rules;
  /// Symbol of the batch: dim 0 of the first input with a symbolic dim 0; "" where none has one.
  std::string batchSymbol;
  /// The loss of all rows is the mean of batches' losses, weighted by the output `isWeight`, or by
  /// rows where there is none.
  bool lossIsMean = false;

  /// Name of the output that is minimised; "" where there is none.
  llvm::StringRef loss() const;
  /// Index of a name in one of the tables, -1 where it is not there.
  static int find(const std::vector<InterfaceTensor> &table, llvm::StringRef name);
};

/// Lets tensors of the state that has their name begin with bytes of the model's files; others keep
/// their first values. Returns how many do.
size_t takeState(PackageInterface &interface, llvm::ArrayRef<StateBytes> state,
                 mlir::MLIRContext *context);

/// Reads the argument and result attributes of all functions of the module.
mlir::FailureOr<PackageInterface> collectInterface(mlir::ModuleOp module);

} // namespace trainc

#endif // TRAINC_PACKAGE_INTERFACE_H
