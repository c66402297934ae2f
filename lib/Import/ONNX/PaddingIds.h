// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The padding_idx of embeddings, which ONNX's Gather has no attribute for: PyTorch's exporter keeps
// the call that a node comes from in its metadata.
#ifndef TRAINC_LIB_IMPORT_ONNX_PADDINGIDS_H
#define TRAINC_LIB_IMPORT_ONNX_PADDINGIDS_H

#include "onnx.pb.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainc::detail {

/// Inputs of the graph that hold ids of an embedding with a padding_idx, maybe in another shape or
/// type, and that id.
std::vector<std::pair<std::string, int64_t>> findPaddingIds(const ::onnx::GraphProto &graph);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_PADDINGIDS_H
