// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of PyTorch's operators that its dynamo exporter drops, and which only its note on the
// node (metadata `pkg.torch.onnx.fx_node`) still says.

#ifndef TRAINC_LIB_IMPORT_ONNX_LOSTARGUMENTS_H
#define TRAINC_LIB_IMPORT_ONNX_LOSTARGUMENTS_H

#include "onnx.pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace trainc::detail {

class LostArguments {
public:
  using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
  /// Reads the notes of a graph's nodes.
  explicit LostArguments(const Nodes &nodes);
  LostArguments() = default;

  /// The label smoothing of the cross entropy that `node` is made for, where no other node computes
  /// for the same call: else the exporter has written it out. 0 without any.
  double labelSmoothing(const ::onnx::NodeProto &node) const;
  /// The row of an embedding's table that is not trained, where `node` reads it.
  static std::optional<int64_t> paddingIdx(const ::onnx::NodeProto &node);
  /// Whether no gradient flows through `node`.
  static bool detaches(const ::onnx::NodeProto &node);

private:
  /// How many nodes compute for a call.
  llvm::StringMap<unsigned> nodesOfCall;
};

/// Whether a note is about a call on one of these values.
bool namesAny(llvm::StringRef call, const llvm::StringSet<> &values);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_LOSTARGUMENTS_H
