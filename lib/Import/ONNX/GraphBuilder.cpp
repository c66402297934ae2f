// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes to ops. Files may list nodes in any order and reuse them through local functions; here they
// become one flat, ordered list of onnx.node ops, each with a unique name as its location.

#include "GraphBuilder.h"
#include "LayerNames.h"

#include "ProtoConvert.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <queue>

using namespace mlir;
using llvm::StringMap;
using llvm::Twine;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace trainc::detail {

/// Calls within calls and subgraphs: each takes a frame of the stack.
static constexpr unsigned maxDepth = 64;

/// From the inside out: subgraphs see the values around them.
Value Scope::find(StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->parent)
    if (auto it = scope->values.find(name); it != scope->values.end())
      return it->second;
  return {};
}

GraphBuilder::GraphBuilder(std::string modelName, MLIRContext *context)
    : modelName(std::move(modelName)), context(context),
      nodesFile(StringAttr::get(context, this->modelName + ":nodes")) {}

/// Also checks what inlining would make, before anything is made.
LogicalResult GraphBuilder::readFunctions(const ::onnx::ModelProto &model) {
  for (const FunctionProto &function : model.functions()) {
    std::string key = functionKey(function.domain(), function.name(), function.overload());
    if (!functions.try_emplace(key, &function).second)
      return error("the model defines the function '" + function.name() + "' twice");
  }
  // Saturated; a file that grows too much ends here.
  expansion = measureExpansion(model, functions);
  if (expansion.nodes > expansion.limit)
    return error("the model's function '" + expansion.function + "' is " +
                 Twine(expansion.functionNodes) + " nodes when the functions that it calls are " +
                 "inlined; of a file of " + Twine(expansion.fileNodes) + " nodes at most " +
                 Twine(expansion.limit) + " are made");
  return success();
}

Location GraphBuilder::modelLoc() const {
  return FileLineColLoc::get(StringAttr::get(context, modelName), 0, 0);
}

InFlightDiagnostic GraphBuilder::error(const Twine &message) {
  return emitError(modelLoc(), message);
}

InFlightDiagnostic GraphBuilder::warning(const Twine &message) {
  return emitWarning(modelLoc(), message);
}

/// As all messages of the compiler name nodes.
std::string GraphBuilder::describe(const NodeRef &node) const {
  StringRef domain = normalDomain(node.proto.domain());
  std::string op =
      domain.empty() ? node.proto.op_type() : (domain + "::" + node.proto.op_type()).str();
  return "node '" + node.name + "' (" + op + ", opset " + std::to_string(node.version) + ")";
}

/// At the node's place in the file's list: editors and tests find it by that.
InFlightDiagnostic GraphBuilder::error(const NodeRef &node, const Twine &message) {
  Location loc = NameLoc::get(StringAttr::get(context, node.name),
                              FileLineColLoc::get(nodesFile, node.index, 0));
  return emitError(loc, describe(node) + ": " + message);
}

/// One version a domain: a second one would make a node's meaning depend on where it stands.
LogicalResult GraphBuilder::readOpsets(const OpsetImports &imports, StringMap<int64_t> &out) {
  for (const auto &import : imports) {
    StringRef domain = normalDomain(import.domain());
    int64_t version = import.version();
    if (domain.empty() && (version < 1 || version > 27))
      return error("opset " + Twine(version) +
                   " is not supported, 1 to 27 are; export with "
                   "opset_version=20, or use onnx.version_converter");
    // The same version twice is harmless.
    if (auto [known, added] = out.try_emplace(domain, version); !added && known->second != version)
      return error("the model imports the opset of '" + (domain.empty() ? "ai.onnx" : domain) +
                   "' in two versions, " + Twine(known->second) + " and " + Twine(version));
  }
  return success();
}

void GraphBuilder::readTypes(const GraphProto &graph, Scope &scope) {
  ArrayAttr dims;
  // The file's types are a hint: what matters is computed again.
  for (const auto *infos : {&graph.value_info(), &graph.output()})
    for (const auto &info : *infos)
      if (info.has_type())
        scope.types[info.name()] = convertType(info.type(), context, dims);
}

/// The one place where names get values.
LogicalResult GraphBuilder::define(Scope &scope, StringRef name, Value value,
                                   const Twine &definer) {
  auto [it, added] = scope.definers.try_emplace(name, definer.str());
  if (!added)
    return error("the value '" + name + "' is defined twice, by " + it->second + " and by " +
                 definer + "; every value of an ONNX graph has one definition");
  scope.values[name] = value;
  return success();
}

/// Stands for an input that is left out.
Value GraphBuilder::none(OpBuilder &builder) {
  return onnx::NoneOp::create(builder, modelLoc(), NoneType::get(context));
}

//===- Order --------------------------------------------------------------===//

bool isGradient(const NodeProto &node) {
  return node.op_type() == "Gradient" && node.domain() == "ai.onnx.preview.training";
}

/// Calls `visit` for the tensors that a Gradient node names, in the order xs, zs, y.
/// These names are uses that are no inputs.
static void eachNamedTensor(const NodeProto &node, llvm::function_ref<void(StringRef)> visit) {
  if (!isGradient(node))
    return;
  for (StringRef list : {"xs", "zs", "y"})
    for (const AttributeProto &attribute : node.attribute()) {
      if (attribute.name() != list)
        continue;
      // As exporters write it: lists, or one string.
      for (const std::string &name : attribute.strings())
        visit(name);
      if (list == "y")
        visit(attribute.s());
    }
}

/// Calls `visit` for every name that `node` uses, those used in its subgraphs included.
static void eachUse(const NodeProto &node, llvm::function_ref<void(StringRef)> visit) {
  for (const std::string &input : node.input())
    if (!input.empty())
      visit(input);
  eachNamedTensor(node, visit);
  // What a subgraph takes from outside is a use of its node; its own names do no harm.
  auto visitGraph = [&](const GraphProto &graph) {
    for (const NodeProto &inner : graph.node())
      eachUse(inner, visit);
    for (const auto &output : graph.output())
      visit(output.name());
  };
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      visitGraph(attribute.g());
    for (const GraphProto &graph : attribute.graphs())
      visitGraph(graph);
  }
}

/// Topological order, stable: the file's own where that is one. False after an error.
bool GraphBuilder::order(const Nodes &nodes, const Scope &scope, int64_t index,
                         std::vector<int> &out) {
  int count = nodes.size();
  // The first definition counts here; a second one is an error later.
  StringMap<int> producer;
  for (int i = 0; i < count; ++i)
    for (const std::string &output : nodes[i].output())
      if (!output.empty())
        producer.try_emplace(output, i);
  // Once for each use: the counts go up and down alike.
  std::vector<std::vector<int>> users(count);
  std::vector<int> missing(count, 0);
  bool sorted = true;
  for (int i = 0; i < count; ++i)
    eachUse(nodes[i], [&](StringRef name) {
      auto it = producer.find(name);
      if (it == producer.end())
        return;
      users[it->second].push_back(i);
      ++missing[i];
      sorted &= it->second < i;
    });
  out.resize(count);
  // The usual case.
  if (sorted) {
    for (int i = 0; i < count; ++i)
      out[i] = i;
    return true;
  }
  out.clear();
  assert(int(missing.size()) == count && "a count a node");
  std::vector<int> waiting = missing;
  // Of nodes that may come the first in the file.
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < count; ++i)
    if (!waiting[i])
      ready.push(i);
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    out.push_back(next);
    for (int user : users[next])
      if (--waiting[user] == 0)
        ready.push(user);
  }
  if (int(out.size()) == count)
    return true;
  // Walking from any blocked node to a blocked producer ends on the cycle.
  int at = 0;
  assert(llvm::any_of(waiting, [](int left) { return left > 0; }) && "some are blocked");
  while (!waiting[at])
    ++at;
  for (int step = 0; step < count; ++step) {
    int next = -1;
    eachUse(nodes[at], [&](StringRef name) {
      auto it = producer.find(name);
      if (it != producer.end() && waiting[it->second])
        next = it->second;
    });
    assert(next >= 0 && "a blocked node waits for one that is blocked");
    at = next;
    // After as many steps as there are nodes it is on the cycle.
  }
  const NodeProto &node = nodes[at];
  std::string name = node.name().empty() ? node.op_type() + "#" + std::to_string(at) : node.name();
  auto version = scope.opsets->find(normalDomain(node.domain()));
  error(NodeRef{node, scope.prefix + name, index < 0 ? at : index,
                version == scope.opsets->end() ? 0 : version->second},
        "it depends on its own result: the graph has a cycle");
  return false;
}

//===- Nodes --------------------------------------------------------------===//

/// The first keeps its name; others get numbers, past names that the file has itself.
std::string GraphBuilder::uniqueName(const std::string &name) {
  unsigned uses = usedNames[name]++;
  if (!uses)
    return name;
  std::string unique;
  do
    unique = name + "#" + std::to_string(++uses);
  while (!usedNames.try_emplace(unique, 1).second);
  usedNames[name] = uses;
  return unique;
}

LogicalResult GraphBuilder::addNodes(const Nodes &nodes, Scope &scope, OpBuilder &builder,
                                     int64_t index) {
  assert(scope.opsets && "a scope has the opsets of its graph or function");
  std::vector<int> sequence;
  // The file's order is kept where it can be.
  if (!order(nodes, scope, index, sequence))
    return failure();
  for (int i : sequence) {
    const NodeProto &proto = nodes[i];
    std::string name =
        scope.prefix +
        (proto.name().empty() ? proto.op_type() + "#" + std::to_string(i) : proto.name());
    auto version = scope.opsets->find(normalDomain(proto.domain()));
    // Random numbers are keyed on the name, so two nodes never share one.
    NodeRef node{proto, uniqueName(name), index < 0 ? i : index,
                 version == scope.opsets->end() ? 1 : version->second};
    // Only functions repeat names and attributes.
    if (scope.attributes && (functionBytes += node.name.size()) > expansion.byteLimit)
      return error(node, "the names and attributes of the model's functions are too large to be "
                         "repeated wherever they are called");
    if (proto.op_type().empty())
      return error(node, "it has no operator type");
    // Other domains may go without: 1 is taken then.
    if (version == scope.opsets->end() && normalDomain(proto.domain()).empty())
      return error(node, "the model imports no opset of the default domain");
    if (std::string layer = scope.region.empty() ? layerOf(proto) : scope.region; !layer.empty())
      layers.push_back(builder.getNamedAttr(node.name, builder.getStringAttr(layer)));
    // A layer is that of the call around, if that is one unit.
    if (failed(addNode(node, scope, builder)))
      return failure();
  }
  return success();
}

const FunctionProto *GraphBuilder::functionOf(const NodeRef &node) const {
  return functions.lookup(
      functionKey(node.proto.domain(), node.proto.op_type(), node.proto.overload()));
}

LogicalResult GraphBuilder::addNode(const NodeRef &node, Scope &scope, OpBuilder &builder) {
  const NodeProto &proto = node.proto;
  // Local functions go before operators of the same name.
  if (const FunctionProto *function = functionOf(node))
    return inlineCall(node, *function, scope, builder);
  // Operators of this domain are made here, and trusted to be whole.
  if (proto.domain() == "trainc")
    return error(node, "the domain 'trainc' is the compiler's own; give the operator another one, "
                       "or a function of the model");

  assert(!node.name.empty() && "made unique above");
  SmallVector<Value> inputs;
  for (const std::string &name : proto.input()) {
    Value value = name.empty() ? none(builder) : scope.find(name);
    if (!value)
      return error(node, "its input '" + name +
                             "' is defined nowhere; if it is a weight, the model "
                             "was saved without its initializers");
    inputs.push_back(value);
  }
  // The tensors that a Gradient node names follow its inputs.
  // Last, behind the optional inputs.
  std::string unknown;
  eachNamedTensor(proto, [&](StringRef name) {
    inputs.push_back(scope.find(name));
    if (!inputs.back())
      unknown = name;
  });
  if (!unknown.empty())
    return error(node, "it names a tensor '" + unknown + "', which is defined nowhere");
  NamedAttrList attributes;
  SmallVector<Attribute> subgraphNames;
  std::vector<const GraphProto *> graphs;
  for (const AttributeProto &given : proto.attribute()) {
    const AttributeProto *attribute = &given;
    StringRef name = given.name();
    if (name.empty())
      return error(node, "it has an attribute without a name");
    // An attribute of the function that this node is in.
    if (!given.ref_attr_name().empty()) {
      if (!scope.attributes)
        return error(node, "its attribute '" + name + "' refers to a function's attribute '" +
                               given.ref_attr_name() + "', but it is in no function");
      auto it = scope.attributes->find(given.ref_attr_name());
      if (it == scope.attributes->end())
        continue; // the caller left it out: the operator's default holds
      attribute = it->second;
    }
    // Protobuf lists may repeat.
    if (attributes.get(name))
      return error(node, "it has the attribute '" + name + "' twice");
    // Counted wherever they are copied to.
    if (scope.attributes && attribute->has_t())
      functionBytes += attribute->t().ByteSizeLong();
    Attribute value;
    size_t before = graphs.size();
    if (failed(convert(node, *attribute, value, graphs)))
      return failure();
    // One name for each region: an attribute may hold several.
    for (size_t i = before; i < graphs.size(); ++i)
      subgraphNames.push_back(builder.getStringAttr(name));
    if (value)
      attributes.set(name, value);
  }

  // What exporters dropped, from their notes; the node's own attribute wins.
  double smoothing = lost.labelSmoothing(proto);
  if (smoothing != 0 && !attributes.get("label_smoothing"))
    attributes.set("label_smoothing", builder.getF64FloatAttr(smoothing));
  if (std::optional<int64_t> row = lost.paddingIdx(proto); row && !attributes.get("padding_idx"))
    attributes.set("padding_idx", builder.getI64IntegerAttr(*row));
  if (lost.detaches(proto))
    attributes.set("detach", builder.getUnitAttr());

  // Types from the file where it has them.
  SmallVector<Type> types;
  for (const std::string &name : proto.output()) {
    auto it = scope.types.find(name);
    types.push_back(it == scope.types.end() ? Type(onnx::AnyType::get(context)) : it->second);
  }
  Location loc = NameLoc::get(StringAttr::get(context, node.name),
                              FileLineColLoc::get(nodesFile, node.index, 0));
  auto op = onnx::NodeOp::create(
      builder, loc, types, builder.getStringAttr(proto.op_type()),
      builder.getStringAttr(normalDomain(proto.domain())), builder.getI64IntegerAttr(node.version),
      attributes.getDictionary(context),
      subgraphNames.empty() ? ArrayAttr() : builder.getArrayAttr(subgraphNames), inputs,
      unsigned(graphs.size()));
  // After the node is there: regions belong to it.
  for (auto [graph, region] : llvm::zip(graphs, op.getSubgraphs()))
    if (failed(addSubgraph(node, *graph, scope, region)))
      return failure();
  assert(proto.output_size() == int(op.getOutputs().size()) && "one result an output");
  for (auto [name, result] : llvm::zip(proto.output(), op.getOutputs()))
    if (!name.empty() && failed(define(scope, name, result, "node '" + node.name + "'")))
      return failure();
  return success();
}

LogicalResult GraphBuilder::addSubgraph(const NodeRef &node, const GraphProto &graph,
                                        const Scope &parent, Region &region) {
  // Before anything recursive.
  if (++depth > maxDepth)
    return error(node,
                 "its subgraphs and functions are nested more than " + Twine(maxDepth) + " deep");
  Block *block = new Block();
  region.push_back(block);
  auto builder = OpBuilder::atBlockEnd(block);
  // Values of outside are found through the parent.
  Scope scope;
  scope.parent = &parent;
  scope.opsets = parent.opsets;
  scope.attributes = parent.attributes;
  scope.prefix = parent.prefix;
  readTypes(graph, scope);
  ArrayAttr dims;
  for (const auto &input : graph.input()) {
    Value argument = block->addArgument(convertType(input.type(), context, dims), modelLoc());
    if (failed(define(scope, input.name(), argument, "a subgraph's input")))
      return failure();
  }
  // A subgraph's constants are in the file itself, as bytes or typed data.
  for (const auto &tensor : graph.initializer()) {
    Attribute value;
    std::string problem = inlineTensor(tensor, context, value);
    auto dense = dyn_cast_or_null<DenseElementsAttr>(value);
    if (!dense || tensor.name().empty())
      return error(node, "its subgraph's initializer '" + tensor.name() + "': " +
                             (problem.empty() ? "it is not a named numeric tensor" : problem));
    Value result = onnx::InitializerOp::create(
        builder, modelLoc(), dense.getType(), builder.getStringAttr(tensor.name()),
        onnx::WeightAttr::get(context, "", 0, 0, -1, false), cast<ElementsAttr>(value));
    if (failed(define(scope, tensor.name(), result, "a subgraph's initializer")))
      return failure();
  }
  if (failed(addNodes(graph.node(), scope, builder, node.index)))
    return failure();
  SmallVector<Value> outputs;
  // Names of outputs may be those of values outside.
  for (const auto &output : graph.output()) {
    Value value = scope.find(output.name());
    if (!value)
      return error(node, "its subgraph's output '" + output.name() + "' is defined nowhere");
    outputs.push_back(value);
  }
  onnx::ReturnOp::create(builder, modelLoc(), outputs);
  // On failure everything ends, so that only this way back counts.
  --depth;
  return success();
}

LogicalResult GraphBuilder::inlineCall(const NodeRef &node, const FunctionProto &function,
                                       Scope &scope, OpBuilder &builder) {
  const NodeProto &proto = node.proto;
  // Fewer are allowed: they are optional.
  if (proto.input_size() > function.input_size() || proto.output_size() > function.output_size())
    return error(node, "it has more inputs or outputs than the model's function of that name");

  // Defaults first, then what the call says.
  Call call{scope, {}, {}, {}};
  for (const AttributeProto &attribute : function.attribute_proto())
    call.attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : proto.attribute()) {
    const AttributeProto *value = &attribute;
    // The call may pass on an attribute of the function that it is in.
    if (!attribute.ref_attr_name().empty()) {
      auto it = scope.attributes ? scope.attributes->find(attribute.ref_attr_name())
                                 : StringMap<const AttributeProto *>::const_iterator();
      // Left out by the caller's caller: the default holds.
      if (!scope.attributes || it == scope.attributes->end())
        continue;
      value = it->second;
    }
    call.attributes[attribute.name()] = value;
  }
  // Parameters that the call leaves out are none.
  for (int i = 0; i < function.input_size(); ++i) {
    bool given = i < proto.input_size() && !proto.input(i).empty();
    call.inputs.push_back(given ? scope.find(proto.input(i)) : none(builder));
    if (!call.inputs.back())
      return error(node, "its input '" + proto.input(i) + "' is defined nowhere");
  }
  if (failed(inlineBody(node, function, call, node.name + "/", call.inputs, call.outputs, builder)))
    return failure();
  // What computes a gradient is not differentiated itself.
  if (std::optional<std::string> gradient = gradientKey(function); gradient && !inGradient)
    if (failed(addGradient(node, function, *gradient, call, builder)))
      return failure();
  // What the function calls its outputs becomes what the call does.
  for (auto [i, output] : llvm::enumerate(proto.output())) {
    if (output.empty())
      continue;
    if (!call.outputs[i])
      return error(node, "the model's function '" + function.name() +
                             "' does not define its output '" + function.output(i) + "'");
    if (failed(define(scope, output, call.outputs[i], "node '" + node.name + "'")))
      return failure();
  }
  return success();
}

LogicalResult GraphBuilder::inlineBody(const NodeRef &node, const FunctionProto &function,
                                       const Call &call, std::string prefix, ArrayRef<Value> inputs,
                                       SmallVectorImpl<Value> &outputs, OpBuilder &builder) {
  std::string key = functionKey(function.domain(), function.name(), function.overload());
  // Also through others.
  if (!activeCalls.insert(key).second)
    return error(node, "the model's function '" + function.name() + "' calls itself");
  if (++depth > maxDepth)
    return error(node,
                 "its subgraphs and functions are nested more than " + Twine(maxDepth) + " deep");
  StringMap<int64_t> opsets;
  if (failed(readOpsets(function.opset_import(), opsets)))
    return failure();
  const Scope &scope = call.scope;
  Scope body;
  // Not the caller's names: a function sees its parameters only.
  body.opsets = &opsets;
  body.attributes = &call.attributes;
  body.prefix = std::move(prefix);
  body.region = scope.region.empty() && isCheckpointed(function.name()) ? node.name : scope.region;
  for (auto [formal, actual] : llvm::zip_equal(function.input(), inputs))
    if (failed(define(body, formal, actual, "a parameter of '" + function.name() + "'")))
      return failure();
  ArrayAttr dims;
  // Types of the body; results have the types that the caller's file gives them.
  for (const auto &info : function.value_info())
    body.types[info.name()] = convertType(info.type(), context, dims);
  if (functionOf(node) == &function)
    for (auto [i, output] : llvm::enumerate(node.proto.output()))
      if (auto it = scope.types.find(output); it != scope.types.end())
        body.types[function.output(i)] = it->second;
  if (failed(addNodes(function.node(), body, builder, node.index)))
    return failure();
  for (const std::string &output : function.output())
    outputs.push_back(body.find(output));
  // Only now another call of it may come.
  activeCalls.erase(key);
  --depth;
  return success();
}

//===- Attributes ---------------------------------------------------------===//

/// The kind of an attribute; files of the first IR versions leave `type` out.
/// Newer files always say.
static int kindOf(const AttributeProto &a) {
  if (a.type() != AttributeProto::UNDEFINED)
    return a.type();
  if (a.has_f())
    return AttributeProto::FLOAT;
  if (a.has_i())
    return AttributeProto::INT;
  if (a.has_s())
    return AttributeProto::STRING;
  if (a.has_t())
    return AttributeProto::TENSOR;
  if (a.has_g())
    return AttributeProto::GRAPH;
  if (a.floats_size())
    return AttributeProto::FLOATS;
  if (a.ints_size())
    return AttributeProto::INTS;
  if (a.strings_size())
    return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

/// Graphs go to `graphs`, everything else to `out`.
LogicalResult GraphBuilder::convert(const NodeRef &node, const AttributeProto &a, Attribute &out,
                                    std::vector<const GraphProto *> &graphs) {
  assert(!out && "one attribute at a time");
  Builder b(context);
  auto fail = [&](const Twine &why) {
    return error(node, "its attribute '" + a.name() + "': " + why);
  };
  switch (kindOf(a)) {
  case AttributeProto::FLOAT:
    out = b.getF32FloatAttr(a.f());
    return success();
  case AttributeProto::INT:
    out = b.getI64IntegerAttr(a.i());
    return success();
  case AttributeProto::STRING:
    out = b.getStringAttr(a.s());
    return success();
  case AttributeProto::FLOATS:
    out = b.getDenseF32ArrayAttr(ArrayRef<float>(a.floats().data(), a.floats_size()));
    return success();
  case AttributeProto::INTS:
    out = b.getDenseI64ArrayAttr(ArrayRef<int64_t>(a.ints().data(), a.ints_size()));
    return success();
  case AttributeProto::STRINGS: {
    SmallVector<Attribute> strings;
    for (const std::string &text : a.strings())
      strings.push_back(b.getStringAttr(text));
    out = b.getArrayAttr(strings);
    return success();
  }
  case AttributeProto::TENSOR:
    if (!a.has_t())
      return fail("it is declared a tensor but holds none");
    if (std::string problem = inlineTensor(a.t(), context, out); !problem.empty())
      return fail(problem);
    return success();
  case AttributeProto::TENSORS: {
    SmallVector<Attribute> tensors(a.tensors_size());
    // As a list: operators with several tensors are few.
    for (auto [tensor, value] : llvm::zip(a.tensors(), tensors))
      if (std::string problem = inlineTensor(tensor, context, value); !problem.empty())
        return fail(problem);
    out = b.getArrayAttr(tensors);
    return success();
  }
  case AttributeProto::TYPE_PROTO: {
    ArrayAttr dims;
    out = TypeAttr::get(convertType(a.tp(), context, dims));
    return success();
  }
  case AttributeProto::GRAPH:
    if (!a.has_g())
      return fail("it is declared a graph but holds none");
    graphs.push_back(&a.g());
    return success();
  // In their order, which is that of the regions.
  case AttributeProto::GRAPHS:
    for (const GraphProto &graph : a.graphs())
      graphs.push_back(&graph);
    return success();
  case AttributeProto::SPARSE_TENSOR:
  case AttributeProto::SPARSE_TENSORS:
    return fail("sparse tensors are not supported");
  default:
    return fail("it has no known kind of value");
  }
}

} // namespace trainc::detail
