// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads `call_function[target=torch.ops.aten.embedding.default](args = (%weight, %ids, 1), ...)`
// and `call_function[target=torch.ops.aten.cross_entropy_loss.default](args = (%logits, %labels,
// None, 1, -100, 0.1), kwargs = {})`.

#include "LostArguments.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cmath>

using llvm::StringRef;
using ::onnx::NodeProto;

namespace trainc::detail {

/// PyTorch's exporter writes the call that a node was made for.
static StringRef callOf(const NodeProto &node) {
  for (const auto &entry : node.metadata_props())
    if (entry.key() == "pkg.torch.onnx.fx_node")
      return entry.value();
  return {};
}

LostArguments::LostArguments(const Nodes &nodes) {
  for (const NodeProto &node : nodes)
    if (StringRef call = callOf(node); call.contains("aten.cross_entropy_loss.default]") &&
                                       node.op_type() != "Constant" && node.op_type() != "Cast" &&
                                       node.op_type() != "Identity")
      // One node for one call: else it is not clear which of them has the argument.
      ++nodesOfCall[call];
}

double LostArguments::labelSmoothing(const NodeProto &node) const {
  StringRef call = callOf(node);
  if (node.op_type() != "SoftmaxCrossEntropyLoss" || nodesOfCall.lookup(call) != 1)
    return 0;
  // Positional arguments, then those with names; an argument is at its place or has its name.
  auto [positional, named] =
      call.split("aten.cross_entropy_loss.default](args = (").second.split("kwargs = {");
  llvm::SmallVector<StringRef> arguments;
  positional.split(')').first.split(arguments, ',');
  StringRef text = arguments.size() > 5 ? arguments[5] : named.split("label_smoothing: ").second;
  double smoothing;
  // Anything unexpected is "none", never a guess.
  if (text.take_until([](char c) { return c == ',' || c == '}'; }).trim().getAsDouble(smoothing) ||
      !(smoothing > 0 && smoothing <= 1))
    return 0;
  return smoothing;
}

std::optional<int64_t> LostArguments::paddingIdx(const NodeProto &node) {
  StringRef call = callOf(node).split("aten.embedding.default](args = (").second;
  llvm::SmallVector<StringRef> arguments;
  call.split(')').first.split(arguments, ',');
  int64_t id; // -1 without any
  // The third argument, if the call has it.
  if (node.op_type() != "Gather" || arguments.size() < 3 ||
      arguments[2].trim().getAsInteger(10, id) || id < 0)
    return std::nullopt;
  return id;
}

/// Only Identity stands for a detach.
bool LostArguments::detaches(const NodeProto &node) {
  return node.op_type() == "Identity" && callOf(node).contains("aten.detach.default]");
}

bool namesAny(StringRef call, const llvm::StringSet<> &values) {
  // Names begin behind a percent sign.
  while (!values.empty() && !call.empty()) {
    call = call.split('%').second;
    if (values.contains(call.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; })))
      return true;
  }
  return false;
}

} // namespace trainc::detail
