// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operator example::Squareplus as an op of its own, for which the compiler makes the code on
// every target.
#include <trainc/Plugin/PluginRegistry.h>

#include <dialects/Train/TrainScalar.h>
#include <dialects/Train/TrainVJP.h>
#include <mlir/Dialect/Math/IR/Math.h>

using namespace mlir;
namespace scalar = trainc::train::scalar;

/// One element.
static Value squareplus(OpBuilder &b, Location loc, Value x, double bend) {
  Value square =
      scalar::add(b, loc, scalar::mul(b, loc, x, x), scalar::constantLike(b, loc, x, bend));
  return scalar::mul(b, loc, scalar::add(b, loc, x, math::SqrtOp::create(b, loc, square)),
                     scalar::constantLike(b, loc, x, 0.5));
}

/// dy/dx = (1 + x / sqrt(x^2 + b)) / 2
static Value slope(trainc::train::TrainBuilder &tb, Value x, double bend) {
  Value root = tb.sqrt(tb.add(tb.mul(x, x), tb.scalarLike(x, bend)));
  return tb.mul(tb.add(tb.scalarLike(x, 1), tb.div(x, root)), tb.scalarLike(x, 0.5));
}

#include "squareplus.dialect.h.inc"
#define GET_OP_CLASSES
#include "squareplus.ops.h.inc"

#include "squareplus.dialect.cpp.inc"
#define GET_OP_CLASSES
#include "squareplus.ops.cpp.inc"

void example::ExampleDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "squareplus.ops.cpp.inc"
      >();
}

/// A node of ONNX.
static LogicalResult importSquareplus(trainc::legalize::NodeContext &c) {
  const double bend = c.attr("b", 4.0);
  if (bend <= 0)
    return c.fail("its b is not positive");
  Value x = c.tensor(0);
  return c.set(
      example::SquareplusOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, llvm::APFloat(bend)));
}

TRAINC_PLUGIN(registry) {
  registry.dialects.insert<example::ExampleDialect>();
  registry.handlers.addExact("example::Squareplus", importSquareplus, /*inputs=*/1, /*since=*/1);
}
