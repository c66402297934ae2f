// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Legalization: the `onnx` dialect becomes `func.func @forward` in the train dialect. Shape
// arithmetic is evaluated symbolically and is gone afterwards; everything unsupported is reported
// in one run.

#ifndef TRAINC_CONVERSION_LEGALIZE_H
#define TRAINC_CONVERSION_LEGALIZE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "trainc/Plugin/Plugin.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainc {

/// `--dim NAME=N` (min == max) or `NAME=MIN..MAX`.
struct DimBound {
  std::string name;
  int64_t min = 1;
  std::optional<int64_t> max;
};

/// `--pad-token`: what pads token ids: an id, or where another input is 0.
struct PadToken {
  /// "": every input that holds token ids.
  std::string input;
  std::optional<int64_t> id;
  std::string mask;
};

enum class DropoutMode { AsGraph, On, Off };
enum class BatchNormMode { AsGraph, Train, Frozen };

struct LegalizeOptions {
  /// The loss output; "": the one called "loss", else the only scalar float output.
  std::string loss;
  /// No loss: every output is an output, nothing is trainable.
  bool inference = false;
  /// The graph runs once, while compiling, to give parameters their first values: random numbers
  /// are constants.
  bool initialization = false;
  /// ECMAScript expressions that match anywhere in a name; "": not given.
  std::string trainable;
  std::vector<std::string> freeze;
  DropoutMode dropout = DropoutMode::AsGraph;
  BatchNormMode batchNorm = BatchNormMode::AsGraph;
  std::vector<DimBound> dims;
  /// Operators from outside, with which the model was imported, and the target whose functions are
  /// wanted; null: there are none.
  std::shared_ptr<const plugin::Plugins> plugins;
  std::string target;
  /// What is not supported is told with what would carry on.
  bool explainUnsupported = false;
};

/// A parameter as the user should hear about it.
struct ParameterChoice {
  std::string name;
  int64_t elements = 0;
  /// Why it is not trained ("a buffer by its name", "does not reach the loss", "--freeze", ...).
  std::string reason;
};

struct LegalizeResult {
  std::string loss;
  std::vector<ParameterChoice> trained;
  /// Float initializers that are not trained, each with its reason.
  std::vector<ParameterChoice> excluded;
  /// Nodes of the graph, and train ops in @forward.
  int64_t nodes = 0;
  int64_t ops = 0;
  /// The graph computes its gradients itself (outputs grad/NAME, or accumulators of ONNX Runtime);
  /// or also the updates (training_info), so that there is nothing left to differentiate.
  bool ownGradients = false, ownUpdates = false;
  /// Dropout nodes with ratio > 0 that the graph leaves inactive (no training_mode): attention
  /// dropout, which exporters lose, or a model exported for inference; `--dropout on` activates
  /// them.
  std::vector<std::string> inactiveDropouts;
};

/// Replaces the module's `onnx.graph` by `train.symbol` ops and `func.func @forward`. On failure
/// errors were emitted, one for each kind of unsupported node, and the graph is left as it was.
mlir::LogicalResult legalizeONNX(mlir::ModuleOp module, const LegalizeOptions &options,
                                 LegalizeResult &result);

/// Prints the operators that legalization knows as rows of a table: name, first opset, element
/// types of its first input, whether it has a gradient. docs/ops.md is made of it.
void listOperators(llvm::raw_ostream &out);

/// Registers the pass `--legalize-onnx` (options loss, inference, trainable, freeze, dropout,
/// batchnorm).
void registerLegalizePasses();
/// The pass, with these options; `result` (if any) is filled when it runs.
std::unique_ptr<mlir::Pass> createLegalizePass(const LegalizeOptions &options,
                                               LegalizeResult *result = nullptr);

} // namespace trainc

#endif // TRAINC_CONVERSION_LEGALIZE_H
