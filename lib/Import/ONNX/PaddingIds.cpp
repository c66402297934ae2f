// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the ids of embeddings that name their padding back to graph inputs.

#include "PaddingIds.h"

#include "LostArguments.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

using llvm::StringRef;
using ::onnx::NodeProto;

namespace trainc::detail {

/// Nodes whose first input has the same elements as their output.
static bool keepsElements(StringRef type) {
  return type == "Cast" || type == "Flatten" || type == "Identity" || type == "Reshape" ||
         type == "Squeeze" || type == "Unsqueeze";
}

std::vector<std::pair<std::string, int64_t>> findPaddingIds(const ::onnx::GraphProto &graph) {
  // Each value has one node; a second definition is refused elsewhere.
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      producers.try_emplace(output, &node);
  llvm::StringSet<> inputs;
  for (const auto &input : graph.input())
    inputs.insert(input.name());
  std::vector<std::pair<std::string, int64_t>> found;
  for (const NodeProto &node : graph.node()) {
    std::optional<int64_t> id = LostArguments::paddingIdx(node);
    // An embedding has a table and its ids.
    if (!id || node.input_size() != 2)
      continue;
    StringRef name = node.input(1);
    // A few at most; names may go in a circle in a file that is refused later.
    for (int steps = 0; steps < 16 && !inputs.contains(name); ++steps) {
      const NodeProto *from = producers.lookup(name);
      if (!from || !keepsElements(from->op_type()) || !from->input_size())
        break;
      name = from->input(0);
    }
    // Ids that are computed have no input to name.
    if (inputs.contains(name))
      found.emplace_back(name.str(), *id);
  }
  return found;
}

} // namespace trainc::detail
