// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads `call_function[target=torch.ops.aten.embedding.default](args = (%weight, %ids, 1), ...)`.

#include "PaddingIds.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

using llvm::StringRef;
using ::onnx::NodeProto;

namespace trainc::detail {

/// The third argument of the call to embedding that `node` is made for; PyTorch writes -1 for none.
static std::optional<int64_t> paddingIdOf(const NodeProto &node) {
  for (const auto &entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.fx_node")
      continue;
    auto [before, call] = StringRef(entry.value()).split("aten.embedding.default](args = (");
    llvm::SmallVector<StringRef> arguments;
    call.split(')').first.split(arguments, ',');
    int64_t id;
    if (arguments.size() > 2 && !arguments[2].trim().getAsInteger(10, id) && id >= 0)
      return id;
  }
  return std::nullopt;
}

/// Nodes whose first input has the same elements as their output.
static bool keepsElements(StringRef type) {
  return type == "Cast" || type == "Flatten" || type == "Identity" || type == "Reshape" ||
         type == "Squeeze" || type == "Unsqueeze";
}

std::vector<std::pair<std::string, int64_t>> findPaddingIds(const ::onnx::GraphProto &graph) {
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      producers.try_emplace(output, &node);
  llvm::StringSet<> inputs;
  for (const auto &input : graph.input())
    inputs.insert(input.name());
  std::vector<std::pair<std::string, int64_t>> found;
  for (const NodeProto &node : graph.node()) {
    std::optional<int64_t> id = paddingIdOf(node);
    if (!id || node.op_type() != "Gather" || node.input_size() != 2)
      continue;
    StringRef name = node.input(1);
    // A few at most; names may go in a circle in a file that is refused later.
    for (int steps = 0; steps < 16 && !inputs.contains(name); ++steps) {
      const NodeProto *from = producers.lookup(name);
      if (!from || !keepsElements(from->op_type()) || !from->input_size())
        break;
      name = from->input(0);
    }
    if (inputs.contains(name))
      found.emplace_back(name.str(), *id);
  }
  return found;
}

} // namespace trainc::detail
