// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads `['', 'model', 'model.layers.0', 'model.layers.0.mlp', 'linear']` and
// `/model/layers.0/mlp/MatMul`; the last part is the operation.

#include "LayerNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::SmallVector;
using llvm::StringRef;

namespace trainc::detail {

/// "model.layers.0": a path that ends in a number.
static bool isNumbered(StringRef module) {
  auto [path, number] = module.rsplit('.');
  return !path.empty() && !number.empty() && llvm::all_of(number, llvm::isDigit);
}

/// The innermost scopes come last: the outermost numbered one is the layer.
std::string layerOf(const ::onnx::NodeProto &node) {
  SmallVector<StringRef> parts;
  for (const auto &entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.name_scopes")
      continue;
    StringRef(entry.value()).trim("[]").split(parts, ',');
    // The last part is the operation itself.
    for (StringRef scope : llvm::ArrayRef(parts).drop_back())
      if (StringRef module = scope.trim(" '"); isNumbered(module))
        return module.str();
    return {};
  }
  StringRef name = node.name();
  // Names of TorchScript's exporter begin with a slash.
  if (!name.consume_front("/"))
    return {};
  name.split(parts, '/');
  for (StringRef part : llvm::ArrayRef(parts).drop_back())
    // With all that is in front of it.
    if (isNumbered(part))
      return std::string(name.begin(), part.end());
  return {};
}

bool isCheckpointed(StringRef function) { return function.starts_with("wrap_body"); }

} // namespace trainc::detail
