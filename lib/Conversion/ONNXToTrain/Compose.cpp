// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators made of others, by nodes that are outside of the graph.

#include "Compose.h"

#include "lib/AutoDiff/AutoDiff.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// For a node that reads what no other node has made.
LegalValue &asInput(NodeContext &c, Value tensor) {
  LegalValue &value = c.state.newValue(c.tb.loc());
  value.dims = train::getDims(tensor);
  value.element = train::getElementType(tensor);
  value.tensor = tensor;
  return value;
}

/// The node is outside of the graph: only its first output counts, and its failure is the caller's.
FailureOr<LegalValue *> applyOperator(NodeContext &c, StringRef type, ArrayRef<LegalValue *> inputs,
                                      DictionaryAttr attributes) {
  onnx::NodeOp node = c.state.makeNode(type, inputs, attributes, c.op.getLoc());
  NodeContext other(node, c.state, c.tb.b());
  if (failed(c.state.legalizeWith(type, other))) {
    c.reason = other.reason;
    return failure();
  }
  return &c.state.valueOf(node.getOutputs()[0]);
}

FailureOr<SmallVector<Value>> gradientOf(NodeContext &c, StringRef type,
                                         ArrayRef<LegalValue *> inputs, Value seed,
                                         ArrayRef<unsigned> wanted, DictionaryAttr attributes) {
  // Values of their own: nothing else leads to them.
  SmallVector<LegalValue *> own(inputs);
  SmallVector<Value> variables;
  for (unsigned input : wanted) {
    // A cast to the same type stands for the input while it is differentiated: only what goes
    // through it counts.
    Value tensor = c.state.tensorOf(*inputs[input]);
    Value variable = UnrealizedConversionCastOp::create(c.tb.b(), c.tb.loc(),
                                                        TypeRange(tensor.getType()), tensor)
                         .getResult(0);
    variables.push_back(variable);
    own[input] = &asInput(c, variable);
  }
  FailureOr<LegalValue *> result = applyOperator(c, type, own, attributes);
  if (failed(result))
    return failure();
  Value of = c.state.tensorOf(**result);
  assert(of && "an operator has a result");
  if (of.getType() != seed.getType()) {
    (void)c.fail("its output gradient does not have the shape of the output of " + type);
    return failure();
  }
  FailureOr<SmallVector<Value>> gradients = buildCotangents(c.tb.b(), of, seed, variables);
  if (failed(gradients))
    return failure();
  // What the output does not depend on.
  for (auto [gradient, variable] : llvm::zip_equal(*gradients, variables))
    if (!gradient)
      gradient = c.tb.zeros(variable.getType());
  // The casts go away again: gradients are then functions of the inputs themselves.
  for (Value variable : variables)
    variable.replaceAllUsesWith(variable.getDefiningOp()->getOperand(0));
  return gradients;
}

/// The sum over axes that broadcasting has added or stretched.
Value sumTo(NodeContext &c, Value x, ArrayRef<DimAttr> dims) {
  Dims from = train::getDims(x);
  SmallVector<int64_t> axes;
  int64_t added = int64_t(from.size()) - int64_t(dims.size());
  assert(added >= 0 && "a sum has no more axes than its terms");
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    if (i < added || dims[i - added] != from[i])
      axes.push_back(i);
  return axes.empty() ? x : c.tb.reshape(c.tb.sum(x, axes), dims);
}

} // namespace trainc::legalize
