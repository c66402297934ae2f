// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ONNX nodes a model's file says belong together, from the modules that they were traced in:
// a hint where layers are looked for.
#ifndef TRAINC_IMPORT_LAYERHINTS_H
#define TRAINC_IMPORT_LAYERHINTS_H

#include "mlir/IR/BuiltinOps.h"

namespace trainc {

/// On a module (a dictionary): names of nodes, and of the layer that each is in ("blocks.0").
inline constexpr llvm::StringLiteral kLayerHintsAttr = "train.layers";

/// The layer that a node is in; "" where the file says nothing.
inline llvm::StringRef getLayerHint(mlir::ModuleOp module, llvm::StringRef node) {
  auto hints = module ? module->getAttrOfType<mlir::DictionaryAttr>(kLayerHintsAttr) : nullptr;
  auto layer = hints && !node.empty() ? hints.getAs<mlir::StringAttr>(node) : nullptr;
  return layer ? layer.getValue() : llvm::StringRef();
}

} // namespace trainc

#endif // TRAINC_IMPORT_LAYERHINTS_H
