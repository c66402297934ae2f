// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function's nodes are counted after those that it calls, on a stack of our own: a file decides
// how deep calls go.

#include "Expansion.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <vector>

using llvm::StringRef;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace trainc::detail {
namespace {

/// What a file may grow to: so much for any file, and so much more for each of its nodes or bytes.
constexpr uint64_t kFloor = 100'000, kPerNode = 64, kByteFloor = 64 << 20, kPerByte = 16;

/// Nodes in one place, and the functions that they call.
/// Of a graph's or a function's own list, its subgraphs included.
struct Nodes {
  uint64_t own = 0;
  std::vector<const FunctionProto *> calls;
};

/// Sums are saturated: a few functions that call each other twice are more nodes than 64 bits
/// count.
class Counter {
public:
  explicit Counter(const Functions &functions) : functions(functions) {}

  Nodes look(const google::protobuf::RepeatedPtrField<NodeProto> &list) {
    Nodes nodes;
    add(list, nodes);
    return nodes;
  }

  /// Nodes of a function after inlining.
  uint64_t count(const FunctionProto *function) {
    std::vector<const FunctionProto *> stack = {function};
    while (!stack.empty()) {
      const FunctionProto *at = stack.back();
      // Twice on the stack for each function: before its callees, then behind them.
      auto [state, isNew] = states.try_emplace(at);
      if (isNew) {
        state->second.nodes = look(at->node());
        if (auto key = gradientKey(*at))
          if (const FunctionProto *gradient = functions.lookup(*key))
            state->second.nodes.calls.push_back(gradient);
        // By the pointer: entries move as others come.
        std::vector<const FunctionProto *> calls = state->second.nodes.calls;
        for (const FunctionProto *callee : calls)
          if (!states.count(callee))
            stack.push_back(callee);
        continue;
      }
      stack.pop_back();
      if (state->second.done)
        continue;
      state->second.done = true; // a call of itself finds 0
      uint64_t sum = state->second.nodes.own;
      for (const FunctionProto *callee : state->second.nodes.calls)
        sum = llvm::SaturatingAdd(sum, states.find(callee)->second.expanded);
      states.find(at)->second.expanded = sum;
    }
    return states.find(function)->second.expanded;
  }

private:
  /// What is known of a function; not done yet, or with its number of nodes.
  struct State {
    Nodes nodes;
    bool done = false;
    uint64_t expanded = 0;
  };

  void add(const google::protobuf::RepeatedPtrField<NodeProto> &list, Nodes &nodes) {
    nodes.own += list.size();
    for (const NodeProto &node : list) {
      // Calls go by domain and overload, too.
      auto called = functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
      if (called != functions.end())
        nodes.calls.push_back(called->second);
      for (const auto &attribute : node.attribute()) {
        // Subgraphs are inlined where their node is.
        if (attribute.has_g())
          add(attribute.g().node(), nodes);
        for (const GraphProto &graph : attribute.graphs())
          add(graph.node(), nodes);
      }
    }
  }

  const Functions &functions;
  llvm::DenseMap<const FunctionProto *, State> states;
};

} // namespace

/// The default domain has two names.
std::string functionKey(StringRef domain, StringRef name, StringRef overload) {
  return ((domain == "ai.onnx" ? "" : domain) + "\x01" + name + "\x01" + overload).str();
}

StringRef metadataOf(const FunctionProto &function, StringRef key) {
  for (const auto &entry : function.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return {};
}

/// Of the same domain, where none is written.
std::optional<std::string> gradientKey(const FunctionProto &function) {
  StringRef name = metadataOf(function, "trainc.gradient");
  if (name.empty())
    return std::nullopt;
  auto [domain, type] = name.split("::");
  if (type.empty())
    std::tie(domain, type) = std::pair(StringRef(function.domain()), name);
  return functionKey(domain, type, function.overload());
}

Expansion measureExpansion(const ::onnx::ModelProto &model, const Functions &functions) {
  Counter counter(functions);
  Expansion result;
  // Whether functions are called or not: they are in the file.
  for (const FunctionProto &function : model.functions())
    result.fileNodes += counter.look(function.node()).own;
  std::vector<Nodes> roots = {counter.look(model.graph().node())};
  for (const auto &info : model.training_info()) {
    roots.push_back(counter.look(info.algorithm().node()));
    roots.push_back(counter.look(info.initialization().node()));
  }
  // Each graph of the file by itself.
  for (const Nodes &root : roots) {
    result.fileNodes += root.own;
    result.nodes = llvm::SaturatingAdd(result.nodes, root.own);
    for (const FunctionProto *function : root.calls) {
      uint64_t nodes = counter.count(function);
      result.nodes = llvm::SaturatingAdd(result.nodes, nodes);
      // The worst of them is what a message names.
      if (nodes > result.functionNodes) {
        result.functionNodes = nodes;
        result.function = function->name();
      }
    }
  }
  result.byteLimit = kByteFloor + kPerByte * model.ByteSizeLong();
  // More than any exporter writes.
  result.limit = kFloor + kPerNode * result.fileNodes;
  return result;
}

} // namespace trainc::detail
