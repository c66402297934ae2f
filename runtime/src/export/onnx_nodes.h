// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes of an ONNX graph on the wire: what they read and write, subgraphs included, and the same
// nodes in evaluation mode.
#ifndef TRAINRT_EXPORT_ONNX_NODES_H
#define TRAINRT_EXPORT_ONNX_NODES_H

#include "io/protobuf.h"

#include <string_view>
#include <vector>

namespace trainrt {

/// Names in a NodeProto; views of the file.
struct OnnxNode {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;
  /// Inputs, and all names that its subgraphs mention; without `dropped`.
  std::vector<std::string_view> uses;
  /// An input that evaluation mode has no use for.
  std::string_view dropped;
  /// Outputs that it lacks in evaluation mode: the running statistics of BatchNormalization.
  std::vector<std::string_view> lost;
};

/// Throws MalformedMessage.
OnnxNode readOnnxNode(std::string_view node);

/// Adds the node to `to` as field `number`, as it is in evaluation mode, also within subgraphs:
/// Dropout without its input `training_mode`, BatchNormalization without its attribute of that name
/// and without its outputs but the first. Throws MalformedMessage.
void addForEvaluation(Message &to, uint64_t number, std::string_view node, Scraps &scraps);

} // namespace trainrt

#endif // TRAINRT_EXPORT_ONNX_NODES_H
