// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The declaration of an operator as a node of the model has it, as far as the file says.

#include "lib/Driver/PluginStub.h"
#include "dialects/ONNX/ONNXDialect.h"
#include "format/status.h"
#include "trainc/Conversion/ONNXToTrain/NodeContext.h"
#include "trainc/Conversion/ONNXToTrain/OwnHandlers.h"
#include "trainc/Package/ProgramWriter.h"
#include "trainc/Support/Nearest.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

static std::string operatorName(onnx::NodeOp node) {
  return ((node.getDomain().empty() ? "ai.onnx" : node.getDomain()) + "::" + node.getOpType())
      .str();
}

/// Axes of sizes that are not known are called after `axes`; where not even their number is, the
/// shape is `otherwise`.
static plugin::Tensor declare(Value value, const std::string &name, StringRef axes,
                              StringRef otherwise) {
  plugin::Tensor tensor;
  tensor.name = name;
  tensor.types = {"f32"};
  std::string shape = otherwise.str();
  if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
    if (StringRef known = getDTypeName(type.getElementType()); !known.empty())
      tensor.types = {known == "bool8" ? "bool" : known.str()};
    shape.clear();
    for (auto [axis, size] : llvm::enumerate(type.getShape())) {
      shape += axis ? ", " : "";
      shape +=
          ShapedType::isDynamic(size) ? (axes + "_" + Twine(axis)).str() : std::to_string(size);
    }
  }
  tensor.text = name + ": " + tensor.types.front() + "[" + shape + "]";
  return tensor;
}

static plugin::Operator describe(onnx::NodeOp node) {
  using Kind = plugin::Attribute::Kind;
  plugin::Operator op;
  op.name = operatorName(node);
  op.domain = node.getDomain().str();
  op.type = node.getOpType().str();
  for (auto [i, input] : llvm::enumerate(node.getInputs())) {
    const std::string name = "x" + std::to_string(i);
    op.inputs.push_back(declare(input, name, name, "..."));
  }
  // A guess: as the first input's.
  std::string shape;
  if (!op.inputs.empty())
    shape = StringRef(op.inputs.front().text).split('[').second.drop_back().str();
  for (auto [i, output] : llvm::enumerate(node.getOutputs()))
    op.outputs.push_back(declare(output, "y" + std::to_string(i), "x0", shape));
  for (NamedAttribute entry : node.getNodeAttributes()) {
    Attribute value = entry.getValue();
    plugin::Attribute attribute;
    attribute.name = entry.getName().str();
    attribute.kind = isa<FloatAttr>(value)           ? Kind::Float
                     : isa<DenseI64ArrayAttr>(value) ? Kind::Ints
                     : isa<DenseF32ArrayAttr>(value) ? Kind::Floats
                     : isa<StringAttr>(value)        ? Kind::String
                                                     : Kind::Int;
    op.attributes.push_back(attribute);
  }
  return op;
}

/// What no description can say of a node, with the way out; "": nothing.
static std::string faultOf(onnx::NodeOp node) {
  const std::string others =
      "; a function of the model or a plug-in in C++ can take its place (docs/plugins.md)";
  // Trailing ones that are left out are not in the node at all.
  for (auto [i, input] : llvm::enumerate(node.getInputs()))
    if (isa<NoneType>(input.getType()))
      return "its input " + std::to_string(i) +
             " is left out, and functions in C are given all of theirs" + others;
  // Tensors, lists of strings, and types.
  for (NamedAttribute entry : node.getNodeAttributes())
    if (!isa<IntegerAttr, FloatAttr, DenseI64ArrayAttr, DenseF32ArrayAttr, StringAttr>(
            entry.getValue()))
      return "its attribute '" + entry.getName().str() +
             "' is neither a number or several nor a string, which is all that functions in C are "
             "given: make it an input" +
             others;
  return "";
}

int trainc::writePluginStub(Compilation &c) {
  const std::string &wanted = c.options.pluginStub;
  onnx::NodeOp found;
  legalize::HandlerTable own;
  legalize::registerAll(own);
  std::vector<std::string> names;
  c.module->walk([&](onnx::NodeOp node) {
    if (!own.entries.contains(node.getDomain().empty() ? node.getOpType().str()
                                                       : operatorName(node)) &&
        node.getDomain() != "trainc" && node.getNumRegions() == 0)
      names.push_back(operatorName(node));
    if (!found && operatorName(node) == wanted)
      found = node;
  });
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  if (!found || !llvm::is_contained(names, wanted)) {
    Log::error(c.options.model, "--write-plugin-stub: the model has no operator '" + wanted +
                                    "' that a plug-in could compute" + suggestion(wanted, names) +
                                    (names.empty() ? "; it has none that the compiler lacks"
                                                   : "; it has " + llvm::join(names, ", ")));
    return ExitInput;
  }
  if (const std::string fault = faultOf(found); !fault.empty()) {
    Log::error(c.options.model, "--write-plugin-stub: the operator '" + wanted + "': " + fault);
    return ExitInput;
  }
  StringRef folder = llvm::sys::path::parent_path(c.options.output);
  std::vector<std::string> written;
  if (std::optional<plugin::Fault> fault = plugin::writeStub(describe(found), folder, written)) {
    Log::error(fault->where, fault->what);
    return ExitInput;
  }
  c.log.info() << "wrote " << trainrt::shown(written[0]) << " and " << trainrt::shown(written[1])
               << ": fill the functions in, build them, and name the former with --plugin\n";
  return ExitSuccess;
}
