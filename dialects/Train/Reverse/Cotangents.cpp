// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One walk forward finds what depends on the wanted values, one walk backward what the given
// cotangents reach and, where both hold, asks each op for its vector-Jacobian product.

#include "dialects/Train/Reverse/Cotangents.h"

#include "dialects/Train/TrainBuilder.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc::train;

/// Whether a gradient can flow through this operand. An op without a derivative is asked by type,
/// so that it is found where it stands in the way.
static bool isDifferentiable(OpOperand &operand) {
  if (auto op = dyn_cast<DifferentiableOpInterface>(operand.getOwner()))
    return op.isDifferentiable(operand.getOperandNumber());
  return isa<FloatType>(getElementTypeOrSelf(operand.get().getType()));
}

static bool isDifferentiable(OpResult result) {
  if (auto op = dyn_cast<DifferentiableOpInterface>(result.getOwner()))
    return op.isDifferentiableResult(result.getResultNumber());
  return isa<FloatType>(getElementTypeOrSelf(result.getType()));
}

/// Null where nothing of `of` depends on a wanted value. Linear in the ops of the block.
FailureOr<SmallVector<Value>> trainc::train::buildCotangents(OpBuilder &builder, Block &block,
                                                             ArrayRef<Value> of,
                                                             ArrayRef<Value> seeds,
                                                             ValueRange wanted,
                                                             CotangentProblem &problem) {
  // What depends on the wanted values.
  DenseSet<Value> varied(wanted.begin(), wanted.end());
  SmallVector<Operation *> ops;
  for (Operation &op : block) {
    // Taken down before anything is built: ops that are added are not walked.
    ops.push_back(&op);
    bool any = llvm::any_of(op.getOpOperands(), [&](OpOperand &operand) {
      return varied.contains(operand.get()) && isDifferentiable(operand);
    });
    if (any)
      for (OpResult result : op.getResults())
        if (isDifferentiable(result))
          varied.insert(result);
  }

  DenseMap<Value, Value> cotangents;
  for (auto [value, seed] : llvm::zip_equal(of, seeds)) {
    if (!seed || !varied.contains(value))
      continue;
    Value &sum = cotangents[value];
    sum = sum ? TrainBuilder(builder, seed.getLoc()).add(sum, seed) : seed;
  }
  // Gradients of one value of a 16-bit type are summed in f32.
  auto cotangentOf = [&](Value value) {
    Value sum = cotangents.lookup(value);
    return sum ? TrainBuilder(builder, sum.getLoc()).cast(sum, value.getType()) : sum;
  };
  for (Operation *op : llvm::reverse(ops)) {
    // In reverse order every use of a result comes before the op itself: its cotangent is complete.
    SmallVector<Value> incoming;
    bool any = false;
    for (Value result : op->getResults()) {
      incoming.push_back(cotangentOf(result));
      any |= bool(incoming.back());
    }
    if (!any)
      continue;
    SmallVector<bool> needed;
    for (OpOperand &operand : op->getOpOperands())
      needed.push_back(varied.contains(operand.get()) && isDifferentiable(operand));
    if (llvm::none_of(needed, [](bool need) { return need; })) // it makes a wanted value
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable || !differentiable.hasDerivative()) {
      // A way from the op up to what asks for this derivative.
      Value from = op->getOperand(llvm::find(needed, true) - needed.begin());
      while (Operation *producer = from.getDefiningOp())
        from = *llvm::find_if(producer->getOperands(), [&](Value v) { return varied.contains(v); });
      problem = {op, from, {}};
      return failure();
    }
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> gradients(op->getNumOperands());
    // `needed` keeps ops from building products that nobody reads.
    differentiable.buildVJP(tb, incoming, needed, gradients);
    for (auto [operand, gradient, need] : llvm::zip_equal(op->getOperands(), gradients, needed)) {
      if (!need || !gradient)
        continue;
      if (gradient.getType() != operand.getType()) {
        problem = {op, operand, gradient.getType()};
        return failure();
      }
      // The first of several gradients is taken as it is; later ones are added in reverse program
      // order, always the same.
      Value &sum = cotangents[operand];
      if (sum && getElementType(operand).getIntOrFloatBitWidth() < 32)
        sum = tb.add(tb.cast(sum, builder.getF32Type()), tb.cast(gradient, builder.getF32Type()));
      else
        sum = tb.add(sum, gradient);
    }
  }
  SmallVector<Value> result;
  for (Value value : wanted)
    result.push_back(cotangentOf(value));
  return result;
}
