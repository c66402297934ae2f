// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of ONNX nodes in locations: what diagnostics and remarks call an op.
#ifndef TRAINC_SUPPORT_LOCATION_H
#define TRAINC_SUPPORT_LOCATION_H

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

namespace trainc {

/// Name of the ONNX node that `loc` stands for, or an empty string where it has none.
inline llvm::StringRef getNodeName(mlir::Location loc) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(loc))
    return name.getName().getValue();
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(loc)) {
    for (mlir::Location part : fused.getLocations())
      if (llvm::StringRef name = getNodeName(part); !name.empty())
        return name;
  }
  return {};
}

/// Adds the names of all ONNX nodes that `loc` stands for, each once, in their order.
inline void collectNodeNames(mlir::Location loc, llvm::SmallVectorImpl<llvm::StringRef> &names) {
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(loc)) {
    for (mlir::Location part : fused.getLocations())
      collectNodeNames(part, names);
    return;
  }
  llvm::StringRef name = getNodeName(loc);
  if (!name.empty() && !llvm::is_contained(names, name))
    names.push_back(name);
}

/// "train.add of node 'encoder/add_3'", or only the op's name where the node has none.
inline std::string describeOp(mlir::Operation *op) {
  std::string text = op->getName().getStringRef().str();
  if (llvm::StringRef name = getNodeName(op->getLoc()); !name.empty())
    text += " of node '" + name.str() + "'";
  return text;
}

} // namespace trainc

#endif // TRAINC_SUPPORT_LOCATION_H
