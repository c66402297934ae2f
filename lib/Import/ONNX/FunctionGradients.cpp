// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Local functions with their own gradient (docs/plugins.md): the call is followed by a node that
// passes its outputs on, with the nodes of the gradient's function as its subgraph.

#include "GraphBuilder.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using llvm::StringMap;
using ::onnx::FunctionProto;

namespace trainc::detail {

/// What is in front of the name of a value in that of its gradient.
static constexpr StringLiteral kPrefix = "grad_";

/// Numbers of the inputs called in the list `names`, which commas or spaces separate. Null with the
/// name that is none.
static std::optional<SmallVector<int64_t>> numbersOf(const FunctionProto &function, StringRef names,
                                                     StringRef &unknown) {
  SmallVector<int64_t> numbers;
  for (StringRef name : llvm::split(names, ',')) {
    if (name.trim().empty())
      continue;
    auto found = llvm::find(function.input(), name.trim().str());
    if (found == function.input().end()) {
      unknown = name.trim();
      return std::nullopt;
    }
    numbers.push_back(found - function.input().begin());
  }
  return numbers;
}

LogicalResult GraphBuilder::addGradient(const NodeRef &node, const FunctionProto &function,
                                        StringRef gradientKey, Call &call, OpBuilder &builder) {
  StringRef named = metadataOf(function, "trainc.gradient");
  const FunctionProto *gradient = functions.lookup(gradientKey);
  if (!gradient)
    return error(node, "there is no '" + named + "', which '" + function.name() +
                           "' names as its gradient; add it to the functions of the model, or to "
                           "the operators of a plug-in");
  StringRef unknown;
  auto exempt = numbersOf(function, metadataOf(function, "trainc.no_gradient"), unknown);
  if (!exempt)
    return error(node, "the metadata of the function '" + function.name() + "' exempt an input '" +
                           unknown + "', which it does not have");

  Region region;
  Block *block = new Block();
  region.push_back(block);
  OpBuilder body(context); // the block is in no op yet
  body.setInsertionPointToEnd(block);
  Type any = onnx::AnyType::get(context);
  // By name: what the gradient does not read it need not have.
  StringMap<Value> visible;
  SmallVector<Value> operands;
  auto add = [&](const Twine &name) { visible[name.str()] = block->addArgument(any, modelLoc()); };
  for (auto [name, value] : llvm::zip_equal(function.output(), call.outputs)) {
    if (!value)
      return error(node, "the model's function '" + function.name() +
                             "' does not define its output '" + name + "'");
    operands.push_back(value);
  }
  llvm::append_range(operands, call.inputs);
  for (const std::string &name : function.output())
    add(name);
  for (auto [name, value] : llvm::zip_equal(function.input(), call.inputs)) {
    add(name);
    if (isa<NoneType>(value.getType()))
      visible[name] = none(body);
  }
  for (const std::string &name : function.output())
    add(kPrefix + name);

  SmallVector<Value> inputs, outputs;
  for (const std::string &name : gradient->input()) {
    Value value = visible.lookup(name);
    if (!value)
      return error(node, "the gradient '" + named + "' has an input '" + name +
                             "'; its inputs are called as the inputs and outputs of '" +
                             function.name() + "' are, or '" + kPrefix +
                             "' and the name of an output");
    inputs.push_back(value);
  }
  SmallVector<int64_t> wrt;
  for (StringRef name : gradient->output()) {
    StringRef input = name;
    auto found = function.input().end();
    if (input.consume_front(kPrefix))
      found = llvm::find(function.input(), input.str());
    if (found == function.input().end())
      return error(node, "the gradient '" + named + "' has an output '" + name +
                             "'; its outputs are called '" + kPrefix +
                             "' and the name of an input of '" + function.name() + "'");
    wrt.push_back(found - function.input().begin());
  }
  inGradient = true;
  if (failed(inlineBody(node, *gradient, call, node.name + "/gradient/", inputs, outputs, body)))
    return failure();
  inGradient = false;
  for (auto [name, value] : llvm::zip_equal(gradient->output(), outputs))
    if (!value)
      return error(node, "the model's function '" + gradient->name() +
                             "' does not define its output '" + name + "'");
  onnx::ReturnOp::create(body, modelLoc(), outputs);

  auto strings = [&](const auto &names) {
    return builder.getArrayAttr(llvm::map_to_vector(
        names, [&](const std::string &name) -> Attribute { return builder.getStringAttr(name); }));
  };
  NamedAttrList attributes;
  attributes.set("gradient", builder.getStringAttr(named));
  attributes.set("inputs", strings(function.input()));
  attributes.set("outputs", strings(function.output()));
  attributes.set("wrt", builder.getDenseI64ArrayAttr(wrt));
  attributes.set("exempt", builder.getDenseI64ArrayAttr(*exempt));
  Location loc = NameLoc::get(StringAttr::get(context, uniqueName(node.name + "/gradient")),
                              FileLineColLoc::get(nodesFile, node.index, 0));
  auto op =
      onnx::NodeOp::create(builder, loc, llvm::to_vector(ValueRange(call.outputs).getTypes()),
                           builder.getStringAttr("CustomGradient"), builder.getStringAttr("trainc"),
                           builder.getI64IntegerAttr(1), attributes.getDictionary(context),
                           builder.getArrayAttr(builder.getStringAttr("body")), operands, 1u);
  op.getSubgraphs().front().takeBody(region);
  call.outputs = llvm::to_vector(
      llvm::map_range(op.getOutputs(), [](OpResult result) -> Value { return result; }));
  return success();
}

} // namespace trainc::detail
