// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inlining of functions and their gradients does the rest.

#include "PluginFunctions.h"

#include "Expansion.h"
#include "trainc/Plugin/LoadedPlugins.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::NodeProto;

namespace trainc::detail {

using plugin::Attribute;
using plugin::Operator;

static AttributeProto::AttributeType typeOf(Attribute::Kind kind) {
  switch (kind) {
  case Attribute::Kind::Int:
    return AttributeProto::INT;
  case Attribute::Kind::Float:
    return AttributeProto::FLOAT;
  case Attribute::Kind::Ints:
    return AttributeProto::INTS;
  case Attribute::Kind::Floats:
    return AttributeProto::FLOATS;
  case Attribute::Kind::String:
    return AttributeProto::STRING;
  }
  llvm_unreachable("all kinds are handled");
}

static void setDefault(const Attribute &attribute, AttributeProto &proto) {
  proto.set_name(attribute.name);
  proto.set_type(typeOf(attribute.kind));
  switch (attribute.kind) {
  case Attribute::Kind::Int:
    proto.set_i(attribute.ints.front());
    break;
  case Attribute::Kind::Float:
    proto.set_f(float(attribute.floats.front()));
    break;
  case Attribute::Kind::Ints:
    proto.mutable_ints()->Add(attribute.ints.begin(), attribute.ints.end());
    break;
  case Attribute::Kind::Floats:
    for (double value : attribute.floats)
      proto.add_floats(float(value));
    break;
  case Attribute::Kind::String:
    proto.set_s(attribute.string);
    break;
  }
}

static void addMetadata(FunctionProto &function, StringRef key, const std::string &value) {
  auto *entry = function.add_metadata_props();
  entry->set_key(key.str());
  entry->set_value(value);
}

static void setFunction(const Operator &op, FunctionProto &function) {
  function.set_domain(op.domain == "ai.onnx" ? "" : op.domain);
  function.set_name(op.type);
  auto *opset = function.add_opset_import();
  opset->set_domain(plugin::kDomain.str());
  opset->set_version(1);
  NodeProto *node = function.add_node();
  node->set_domain(plugin::kDomain.str());
  node->set_op_type(op.name);
  node->set_name(op.type);
  for (const plugin::Tensor &input : op.inputs) {
    function.add_input(input.name);
    node->add_input(input.name);
  }
  for (const plugin::Tensor &output : op.outputs) {
    function.add_output(output.name);
    node->add_output(output.name);
  }
  for (const Attribute &attribute : op.attributes) {
    if (attribute.isOptional)
      setDefault(attribute, *function.add_attribute_proto());
    else
      function.add_attribute(attribute.name);
    AttributeProto *passed = node->add_attribute();
    passed->set_name(attribute.name);
    passed->set_type(typeOf(attribute.kind));
    passed->set_ref_attr_name(attribute.name);
  }
  if (op.gradient.empty())
    return;
  addMetadata(function, "trainc.gradient", op.gradient);
  if (!op.withoutGradient.empty())
    addMetadata(function, "trainc.no_gradient", llvm::join(op.withoutGradient, ","));
}

/// As descriptions have it; ONNX's own domain has no name in models, mostly.
static std::string nameOf(const std::string &domain, const std::string &type) {
  return (domain.empty() ? "ai.onnx" : domain) + "::" + type;
}

/// Functions take any attributes; what a plug-in would never be told is an error.
static std::string checkCall(const plugin::Plugins &plugins, const NodeProto &node) {
  const Operator *op = findOperator(plugins, nameOf(node.domain(), node.op_type()));
  if (!op)
    return "";
  for (const AttributeProto &given : node.attribute())
    if (llvm::none_of(op->attributes,
                      [&](const Attribute &known) { return known.name == given.name(); }))
      return "node '" + node.name() + "' (" + op->name + ") has an attribute '" + given.name() +
             "', which the plug-in does not declare (" + op->where + "); add it to 'attributes'";
  return "";
}

template <typename Nodes>
static std::string checkCalls(const plugin::Plugins &plugins, const Nodes &nodes) {
  std::string problem;
  for (const NodeProto &node : nodes) {
    if (problem.empty())
      problem = checkCall(plugins, node);
    for (const AttributeProto &attribute : node.attribute())
      if (problem.empty() && attribute.has_g())
        problem = checkCalls(plugins, attribute.g().node());
  }
  return problem;
}

std::string addPluginFunctions(const plugin::Plugins &plugins, ::onnx::ModelProto &model) {
  auto *functions = model.mutable_functions();
  for (int i = functions->size(); i-- > 0;) {
    const FunctionProto &own = functions->Get(i);
    const std::string name = nameOf(own.domain(), own.name());
    // Handlers have operators of ONNX's own domain without it.
    if (findOperator(plugins, name) ||
        plugin::findPluginOfOperator(own.domain().empty() ? own.name() : name))
      functions->DeleteSubrange(i, 1);
  }
  if (plugins.empty())
    return "";
  std::string problem = checkCalls(plugins, model.graph().node());
  for (const FunctionProto &function : *functions)
    if (problem.empty())
      problem = checkCalls(plugins, function.node());
  for (const plugin::Plugin &plugin : plugins)
    for (const Operator &op : plugin.operators)
      setFunction(op, *functions->Add());
  return problem;
}

} // namespace trainc::detail
