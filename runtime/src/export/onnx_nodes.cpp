// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NodeProto: input 1, output 2, name 3, op_type 4, attribute 5, domain 7. AttributeProto: name 1,
// i 3, g 6, graphs 11. GraphProto: node 1, output 12.
#include "export/onnx_nodes.h"

namespace trainrt {

namespace {

/// Subgraphs within each other; models have a few.
constexpr int maxDepth = 32;

/// A malformed model could otherwise nest as deep as its size allows, and each level is a call of
/// its own here.
void checkDepth(int depth) {
  if (depth > maxDepth)
    throw MalformedMessage("subgraphs are nested too deeply");
}

/// Calls `visit` with each subgraph in the content of an attribute.
/// An attribute has one graph (g) or several (graphs); If and Loop have the one, other operators
/// may have the other.
template <typename Visit> void eachSubgraph(std::string_view attribute, const Visit &visit) {
  eachField(attribute, [&](const Field &field) {
    if (field.is(6, Field::bytes) || field.is(11, Field::bytes))
      visit(field.content);
  });
}

/// Of the node itself; what is within the subgraph is not looked at.
bool hasSubgraph(std::string_view node) {
  bool has = false;
  eachField(node, [&](const Field &field) {
    if (field.is(5, Field::bytes))
      eachSubgraph(field.content, [&](std::string_view) { has = true; });
  });
  return has;
}

/// All values that a node reads by name, its subgraphs' as well: these see the outer graph's
/// values. A name that a subgraph makes itself is told, too, which keeps more than is needed, never
/// less.
void collectUses(std::string_view node, std::vector<std::string_view> &uses, int depth) {
  checkDepth(depth);
  eachField(node, [&](const Field &field) {
    if (field.is(1, Field::bytes) && !field.content.empty())
      uses.push_back(field.content);
    if (!field.is(5, Field::bytes))
      return;
    eachSubgraph(field.content, [&](std::string_view graph) {
      eachField(graph, [&](const Field &part) {
        if (part.is(1, Field::bytes))
          collectUses(part.content, uses, depth + 1);
        // A subgraph may pass an outer value through.
        if (part.is(12, Field::bytes))
          eachField(part.content, [&](const Field &output) {
            if (output.is(1, Field::bytes))
              uses.push_back(output.content);
          });
      });
    });
  });
}

/// Both spellings of ONNX's own domain are valid.
bool isStandard(const OnnxNode &node, std::string_view op) {
  return node.op == op && (node.domain.empty() || node.domain == "ai.onnx");
}

std::string_view attributeName(std::string_view attribute) {
  std::string_view name;
  eachField(attribute, [&](const Field &field) {
    if (field.is(1, Field::bytes))
      name = field.content;
  });
  return name;
}

/// Without it BatchNormalization is in evaluation mode, the default.
bool isTrainingMode(const Field &field) {
  return field.is(5, Field::bytes) && attributeName(field.content) == "training_mode";
}

void addNode(Message &to, uint64_t number, std::string_view content, Scraps &scraps, int depth);

/// A copy of the attribute whose subgraphs are turned to evaluation as well; all else byte for
/// byte.
void addAttribute(Message &to, std::string_view content, Scraps &scraps, int depth) {
  Message attribute(scraps);
  eachField(content, [&](const Field &field) {
    if (!field.is(6, Field::bytes) && !field.is(11, Field::bytes))
      return attribute.add(field);
    Message graph(scraps);
    eachField(field.content, [&](const Field &part) {
      if (part.is(1, Field::bytes))
        addNode(graph, 1, part.content, scraps, depth + 1);
      else
        graph.add(part);
    });
    attribute.addMessage(field.number, graph);
  });
  to.addMessage(5, attribute);
}

/// Nodes that need no change are taken as one piece of the original, without a copy.
void addNode(Message &to, uint64_t number, std::string_view content, Scraps &scraps, int depth) {
  checkDepth(depth);
  const OnnxNode node = readOnnxNode(content);
  const bool dropout = isStandard(node, "Dropout");
  const bool normalization = isStandard(node, "BatchNormalization");
  if (!(dropout && node.inputs.size() > 2) && !normalization && !hasSubgraph(content))
    return to.addBytes(number, content);
  Message copy(scraps);
  size_t inputs = 0, outputs = 0;
  // Counts inputs and outputs by their position, since fields of NodeProto have no index.
  eachField(content, [&](const Field &field) {
    // The third input is training_mode: without it Dropout passes its input on.
    if (field.is(1, Field::bytes) && ++inputs > 2 && dropout)
      return;
    // Outputs behind the first are the running statistics of training mode, which evaluation does
    // not have.
    if (normalization && (isTrainingMode(field) || (field.is(2, Field::bytes) && ++outputs > 1)))
      return;
    if (field.is(5, Field::bytes))
      addAttribute(copy, field.content, scraps, depth);
    else
      copy.add(field);
  });
  to.addMessage(number, copy);
}

} // namespace

/// Views into `content`, which outlives the result. What evaluation mode leaves out is told apart:
/// an input in `dropped`, outputs in `lost`.
OnnxNode readOnnxNode(std::string_view content) {
  OnnxNode node;
  eachField(content, [&](const Field &field) {
    if (field.type != Field::bytes)
      return;
    switch (field.number) {
    case 1:
      node.inputs.push_back(field.content);
      break;
    case 2:
      node.outputs.push_back(field.content);
      break;
    case 3:
      node.name = field.content;
      break;
    case 4:
      node.op = field.content;
      break;
    case 7:
      node.domain = field.content;
      break;
    default:
      break;
    }
  });
  collectUses(content, node.uses, 0);
  if (isStandard(node, "Dropout") && node.inputs.size() > 2) {
    node.dropped = node.inputs[2];
    std::erase(node.uses, node.dropped);
  }
  if (isStandard(node, "BatchNormalization") && node.outputs.size() > 1)
    node.lost.assign(node.outputs.begin() + 1, node.outputs.end());
  return node;
}

/// `number` is the field of a graph (1) or of a function (7) that holds nodes.
void addForEvaluation(Message &to, uint64_t number, std::string_view node, Scraps &scraps) {
  addNode(to, number, node, scraps, 0);
}

} // namespace trainrt
