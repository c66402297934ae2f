// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes `model.tpk`: manifest, program, kernels and the weights that have no file of their own
// (docs/design/package.md).
#ifndef TRAINC_PACKAGE_PACKAGE_H
#define TRAINC_PACKAGE_PACKAGE_H

#include "trainc/Codegen/Codegen.h"
#include "trainc/Import/Import.h"
#include "trainc/Package/Interface.h"
#include "trainc/Plugin/Plugin.h"
#include "llvm/Support/JSON.h"

namespace trainc {

struct PackageContents {
  /// "training" or "inference".
  std::string kind;
  std::string loss;
  /// See Identity.h; "" where there was no model.
  std::string identity;
  llvm::json::Object optimizer;
  /// The command line without the program; none: the package does not tell it.
  std::vector<std::string> arguments;
  /// Targets ("cpu:x86-64-v4", "cuda:sm_90"), and the files with their kernels.
  std::vector<std::string> targets;
  std::vector<codegen::KernelObject> kernels;
  /// Those that the program may call; null: none.
  std::shared_ptr<const plugin::Plugins> plugins;
  std::vector<char> program;
  /// Text of the IR, for --embed-ir; "" for none.
  std::string ir;
  bool embedWeights = false;
  /// File with the private key that signs it; "": none does.
  std::string signKey;
};

/// Writes the package at `path` (temporary name, then rename). Errors are diagnostics at the
/// module.
mlir::LogicalResult writePackage(mlir::ModuleOp module, const PackageInterface &interface,
                                 const ImportedModel &model, const PackageContents &contents,
                                 llvm::StringRef path);

} // namespace trainc

#endif // TRAINC_PACKAGE_PACKAGE_H
