// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The importer: an ONNX file becomes a module of the `onnx` dialect. Weights stay in their files;
// the few that no file holds as raw bytes are converted into blobs that the package stores.

#ifndef TRAINC_IMPORT_IMPORT_H
#define TRAINC_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "trainc/Plugin/Plugin.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <utility>
#include <vector>

namespace trainc {

/// Where the value of a tensor of the optimizer's state is: `name` is that of the package
/// (PARAMETER/exp_avg), `file` is relative to the model's folder.
struct StateBytes {
  std::string name, file;
  uint64_t offset = 0, length = 0;
};

/// What an import makes beside the module.
struct ImportedModel {
  /// The model as given, and its folder ("." for the current one): `file` of every `#onnx.weight`
  /// is relative to it.
  std::string path;
  std::string folder;
  /// Bytes (row major, little endian) of the initializers with `#onnx.weight<blob = index>`.
  std::vector<std::vector<char>> blobs;
  /// Files that hold weights, relative to `folder`, the model itself included when it does; and
  /// those among them that do not exist (a warning was emitted for each).
  std::vector<std::string> weightFiles;
  std::vector<std::string> missingFiles;
  /// Inputs that hold ids of tokens, and the id that pads, where the model says so.
  std::vector<std::pair<std::string, int64_t>> paddingIds;
  /// A graph that computes what initializers begin with (TrainingInfoProto.initialization), in a
  /// module of its own, and which output is for which initializer; null without one.
  mlir::OwningOpRef<mlir::ModuleOp> initialization;
  std::vector<std::pair<std::string, std::string>> initialValues;
  /// State of the optimizer, which an earlier training has left, and the steps that were made.
  std::vector<StateBytes> optimizerState;
  int64_t steps = 0;
};

/// Imports the ONNX model at `path` into a new module with one `onnx.graph`. Returns null after at
/// least one error diagnostic; its location names the model, its message the node where there is
/// one: "node 'x' (Op, opset 18): ...". Locations of ops are NameLoc(node name) over
/// FileLineColLoc("<model>:nodes", index in the file, 0). Loads the `onnx` dialect.
/// A training algorithm of the model (training_info) becomes part of the graph, with results that
/// have `onnx.updates`, unless `algorithm` is false; then a warning says that it is left out.
/// Operators of `plugins` go before functions of the model of the same name.
mlir::OwningOpRef<mlir::ModuleOp> importONNX(llvm::StringRef path, mlir::MLIRContext &context,
                                             ImportedModel &out, bool algorithm = true,
                                             const plugin::Plugins &plugins = {});

} // namespace trainc

#endif // TRAINC_IMPORT_IMPORT_H
