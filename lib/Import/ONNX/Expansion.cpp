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

constexpr uint64_t kFloor = 100'000, kPerNode = 64, kByteFloor = 64 << 20, kPerByte = 16;

/// Nodes in one place, and the functions that they call.
struct Nodes {
  uint64_t own = 0;
  std::vector<const FunctionProto *> calls;
};

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
      auto [state, isNew] = states.try_emplace(at);
      if (isNew) {
        state->second.nodes = look(at->node());
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
  struct State {
    Nodes nodes;
    bool done = false;
    uint64_t expanded = 0;
  };

  void add(const google::protobuf::RepeatedPtrField<NodeProto> &list, Nodes &nodes) {
    nodes.own += list.size();
    for (const NodeProto &node : list) {
      auto called = functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
      if (called != functions.end())
        nodes.calls.push_back(called->second);
      for (const auto &attribute : node.attribute()) {
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

std::string functionKey(StringRef domain, StringRef name, StringRef overload) {
  return ((domain == "ai.onnx" ? "" : domain) + "\x01" + name + "\x01" + overload).str();
}

Expansion measureExpansion(const ::onnx::ModelProto &model, const Functions &functions) {
  Counter counter(functions);
  Expansion result;
  for (const FunctionProto &function : model.functions())
    result.fileNodes += counter.look(function.node()).own;
  std::vector<Nodes> roots = {counter.look(model.graph().node())};
  for (const auto &info : model.training_info()) {
    roots.push_back(counter.look(info.algorithm().node()));
    roots.push_back(counter.look(info.initialization().node()));
  }
  for (const Nodes &root : roots) {
    result.fileNodes += root.own;
    result.nodes = llvm::SaturatingAdd(result.nodes, root.own);
    for (const FunctionProto *function : root.calls) {
      uint64_t nodes = counter.count(function);
      result.nodes = llvm::SaturatingAdd(result.nodes, nodes);
      if (nodes > result.functionNodes) {
        result.functionNodes = nodes;
        result.function = function->name();
      }
    }
  }
  result.byteLimit = kByteFloor + kPerByte * model.ByteSizeLong();
  result.limit = kFloor + kPerNode * result.fileNodes;
  return result;
}

} // namespace trainc::detail
