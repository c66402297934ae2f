// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layer that a node was traced in, as PyTorch's exporters tell it.
#ifndef TRAINC_LIB_IMPORT_ONNX_LAYERNAMES_H
#define TRAINC_LIB_IMPORT_ONNX_LAYERNAMES_H

#include "onnx.pb.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace trainc::detail {

/// The outermost numbered module around a node ("blocks.0"): of the scopes in its metadata, which
/// the dynamo exporter writes, or of its name, which TorchScript makes of them. "": none.
std::string layerOf(const ::onnx::NodeProto &node);

/// Whether a local function is the body of a checkpointed region.
bool isCheckpointed(llvm::StringRef function);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_LAYERNAMES_H
