// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The importer: an ONNX file becomes a module of the `onnx` dialect. Weights stay in their files;
// the few that no file holds as raw bytes are converted into blobs that the package stores.

#ifndef TRAINC_IMPORT_H
#define TRAINC_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace trainc {

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
};

/// Imports the ONNX model at `path` into a new module with one `onnx.graph`. Returns null after at
/// least one error diagnostic; its location names the model, its message the node where there is
/// one: "node 'x' (Op, opset 18): ...". Locations of ops are NameLoc(node name) over
/// FileLineColLoc("<model>:nodes", index in the file, 0). Loads the `onnx` dialect.
/// A training algorithm of the model (training_info) becomes part of the graph, with results that
/// have `onnx.updates`, unless `algorithm` is false; then a warning says that it is left out.
mlir::OwningOpRef<mlir::ModuleOp> importONNX(llvm::StringRef path, mlir::MLIRContext &context,
                                             ImportedModel &out, bool algorithm = true);

} // namespace trainc

#endif // TRAINC_IMPORT_H
