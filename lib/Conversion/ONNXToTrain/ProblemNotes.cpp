// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of a model go before operators of the same name, so that any operator may have one.

#include "ProblemNotes.h"

#include "Legalizer.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace trainc::legalize {

void noteProducers(InFlightDiagnostic &diag, onnx::NodeOp node) {
  for (auto [number, input] : llvm::enumerate(node.getInputs()))
    if (auto producer = input.getDefiningOp<onnx::NodeOp>()) {
      Diagnostic &note = diag.attachNote(producer.getLoc());
      note << "input " << number << " is made by " << producer.getOpType();
      // Files say the types of inputs, and of all else if they like.
      if (!isa<onnx::AnyType>(input.getType()))
        note << ", of type " << input.getType();
    }
}

/// In the form of `onnx.parser.parse_function`.
static std::string headOf(onnx::NodeOp node, StringRef suffix, ArrayRef<std::string> inputs,
                          ArrayRef<std::string> outputs) {
  auto graph = node->getParentOfType<onnx::GraphOp>();
  auto opset = graph ? graph.getOpsetImports().getAs<IntegerAttr>("ai.onnx") : IntegerAttr();
  std::string attributes;
  if (!node.getNodeAttributes().empty())
    attributes = "<" +
                 llvm::join(llvm::map_range(node.getNodeAttributes(),
                                            [](NamedAttribute attribute) {
                                              return attribute.getName().strref();
                                            }),
                            ", ") +
                 "> ";
  return ("<opset_import: [\"\": " + Twine(opset ? opset.getInt() : 18) + "], domain: \"" +
          node.getDomain() + "\"> " + node.getOpType() + suffix + " " + attributes + "(" +
          llvm::join(inputs, ", ") + ") => (" + llvm::join(outputs, ", ") + ") { " + outputs[0] +
          " = ... }")
      .str();
}

/// Types that are not known may be floats.
static bool mayBeFloat(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type ? isa<FloatType>(type.getElementType()) : isa<onnx::AnyType>(value.getType());
}

void noteStub(InFlightDiagnostic &diag, onnx::NodeOp node, bool isUnknown) {
  // A subgraph is no attribute that a function could have.
  if (node.getNumRegions() || node.getOutputs().empty()) {
    diag.attachNote(node.getLoc()) << "no function can take its place: write it as other operators "
                                      "before exporting";
    return;
  }
  SmallVector<std::string> inputs, outputs, known, gradients;
  for (auto [i, input] : llvm::enumerate(node.getInputs())) {
    inputs.push_back("x" + std::to_string(i));
    if (mayBeFloat(input))
      gradients.push_back("grad_" + inputs.back());
  }
  known = inputs;
  for (auto [i, output] : llvm::enumerate(node.getOutputs()))
    outputs.push_back("y" + std::to_string(i));
  llvm::append_range(known, outputs);
  for (auto [name, output] : llvm::zip_equal(outputs, node.getOutputs()))
    if (mayBeFloat(output))
      known.push_back("grad_" + name);
  Diagnostic &note = diag.attachNote(node.getLoc());
  note << "a function of the model with this name takes its place (docs/plugins.md): "
       << headOf(node, "", inputs, outputs);
  if (!gradients.empty())
    note << "; where its derivative is not the one to train with, metadata trainc.gradient = "
         << (node.getOpType() + "_grad").str() << " and "
         << headOf(node, "_grad", known, gradients);
  if (isUnknown)
    note << "; or a function in C does: --write-plugin-stub "
         << (node.getDomain().empty() ? "ai.onnx" : node.getDomain()) << "::" << node.getOpType()
         << " writes what it begins with";
}

//===- What the legalizer tells -------------------------------------------===//

void Legalizer::addProblem(onnx::NodeOp node, const Twine &reason) {
  std::string text = reason.str();
  // Nodes with the same problem are one message.
  std::string key = (node.getDomain() + "\x01" + node.getOpType() + "\x01" + text).str();
  Problem &problem = problems[builder.getStringAttr(key)];
  if (!problem.count++) {
    problem.first = node;
    problem.reason = text;
  }
}

LogicalResult Legalizer::reportProblems() {
  for (auto &[key, problem] : problems) {
    onnx::NodeOp node = problem.first;
    std::string op = nameOf(node), name = op;
    if (auto loc = dyn_cast<NameLoc>(node.getLoc()))
      name = loc.getName().str();
    InFlightDiagnostic diag =
        emitError(node.getLoc(), "node '" + name + "' (" + op + ", opset " +
                                     Twine(node.getVersion()) + "): " + problem.reason);
    if (problem.count > 1)
      diag << " (" << problem.count << " such nodes, this is the first)";
    noteProducers(diag, node);
    if (options->explainUnsupported)
      noteStub(diag, node, /*isUnknown=*/!entryOf(node));
  }
  return failure(!problems.empty());
}

} // namespace trainc::legalize
