// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `autodiff`. One walk forward finds what depends on the wanted values, one walk backward
// what the loss depends on and, where both hold, asks each op for its vector-Jacobian product.

#include "lib/AutoDiff/AutoDiff.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_AUTODIFFPASS
#include "lib/AutoDiff/AutoDiff.h.inc"
} // namespace trainc

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

/// Appends to the block what computes the cotangents of `wanted`, for a cotangent `seed` of `of`.
/// Null where `of` does not depend on a wanted value. Linear in the ops of the block.
FailureOr<SmallVector<Value>> trainc::buildCotangents(OpBuilder &builder, Value of, Value seed,
                                                      ValueRange wanted) {
  // What depends on the wanted values.
  DenseSet<Value> varied(wanted.begin(), wanted.end());
  Block *block = of.getParentBlock();
  SmallVector<Operation *> ops;
  for (Operation &op : *block) {
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
  if (varied.contains(of))
    cotangents[of] = seed;
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
      // A way from the op up to a parameter.
      // The note names the parameter that asks for this derivative.
      Value from = op->getOperand(llvm::find(needed, true) - needed.begin());
      while (Operation *producer = from.getDefiningOp())
        from = *llvm::find_if(producer->getOperands(), [&](Value v) { return varied.contains(v); });
      return attachNotes(op->emitError()
                             << describeOp(op)
                             << " has no derivative, but the loss depends on a trainable parameter "
                                "through it; freeze what is before it, or replace the node",
                         {{"the parameter", from}});
    }
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<Value> gradients(op->getNumOperands());
    // `needed` keeps ops from building products that nobody reads.
    differentiable.buildVJP(tb, incoming, needed, gradients);
    for (auto [operand, gradient, need] : llvm::zip_equal(op->getOperands(), gradients, needed)) {
      if (!need || !gradient)
        continue;
      if (gradient.getType() != operand.getType())
        return attachNotes(op->emitError() << describeOp(op) << " gave a gradient of type "
                                           << gradient.getType() << " for an operand of type "
                                           << operand.getType(),
                           {{"the operand", operand}});
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

namespace {
struct AutoDiffPass : trainc::impl::AutoDiffPassBase<AutoDiffPass> {
  using AutoDiffPassBase::AutoDiffPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      module.emitError("expected the function @forward: legalize the model first");
      return signalPassFailure();
    }
    // The forward function is kept as it is for evaluation; gradients are built on a copy.
    if (Operation *known = module.lookupSymbol("gradients")) {
      module.emitError("@gradients exists already: the model is differentiated once")
              .attachNote(known->getLoc())
          << "it is here";
      return signalPassFailure();
    }
    if (failed(differentiate(forward)))
      signalPassFailure();
  }

private:
  /// Position of the loss among the results.
  FailureOr<unsigned> findLoss(func::FuncOp func) {
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      if (getResultRole(func, i) != "loss")
        continue;
      auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[i]);
      if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType())) {
        attachNotes(func.emitError("expected the loss to be a float scalar, got ")
                        << func.getResultTypes()[i],
                    {{"the loss", func.getBody().front().getTerminator()->getOperand(i)}});
        return failure();
      }
      return i;
    }
    func.emitError("expected a result with train.role \"loss\"");
    return failure();
  }

  LogicalResult differentiate(func::FuncOp forward) {
    if (!forward.getBody().hasOneBlock())
      return forward.emitError("expected one block");
    FailureOr<unsigned> loss = findLoss(forward);
    if (failed(loss))
      return failure();

    auto gradients = cast<func::FuncOp>(forward->clone());
    gradients.setName("gradients");
    SymbolTable(forward->getParentOfType<ModuleOp>())
        .insert(gradients, std::next(Block::iterator(forward)));
    Block &block = gradients.getBody().front();
    Operation *terminator = block.getTerminator();
    Builder b(&getContext());
    auto named = [&](StringRef role, Attribute name) {
      return DictionaryAttr::get(&getContext(), {b.getNamedAttr(kRoleAttr, b.getStringAttr(role)),
                                                 b.getNamedAttr(kNameAttr, name)});
    };

    SmallVector<Value> parameters;
    SmallVector<unsigned> numbers;
    for (BlockArgument argument : block.getArguments())
      if (gradients.getArgAttr(argument.getArgNumber(), kTrainableAttr)) {
        parameters.push_back(argument);
        numbers.push_back(argument.getArgNumber());
      }

    unsigned scaleNumber = gradients.getNumArguments();
    Location loc = gradients.getLoc();
    if (failed(gradients.insertArgument(scaleNumber, getTensorType({}, b.getF32Type()),
                                        named("hyper", b.getStringAttr("grad_scale")), loc)))
      return failure();

    Value lossValue = terminator->getOperand(*loss);
    OpBuilder builder(terminator);
    Value scale = block.getArgument(scaleNumber);
    FailureOr<SmallVector<Value>> cotangents =
        hasRole(gradients, "gradient")
            ? scaleGiven(builder, gradients, numbers, scale)
            : buildCotangents(
                  builder, lossValue,
                  TrainBuilder(builder, lossValue.getLoc()).cast(scale, lossValue.getType()),
                  parameters);
    if (failed(cotangents)) {
      gradients.erase();
      return failure();
    }
    // The loss first, then the model's own updates, then a gradient for each trainable parameter.
    SmallVector<Value> results = {lossValue};
    SmallVector<Attribute> resultAttrs = {gradients.getResultAttrDict(*loss)};
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "update") {
        results.push_back(terminator->getOperand(i));
        resultAttrs.push_back(gradients.getResultAttrDict(i));
      }
    // Where nothing is trainable, the function's own updates are what trains.
    bool ownUpdates = parameters.empty() && results.size() > 1;
    if (!ownUpdates && llvm::none_of(*cotangents, [](Value v) { return bool(v); }))
      forward.emitWarning("the loss depends on no trainable parameter: nothing will be trained");

    for (auto [parameter, number, cotangent] : llvm::zip_equal(parameters, numbers, *cotangents)) {
      NamedAttrList attrs(named("gradient", gradients.getArgAttr(number, kNameAttr)));
      // The optimizer still gets its gradient: zeros, marked as unused so that it may be left out.
      if (!cotangent) {
        cotangent = TrainBuilder(builder, parameter.getLoc()).zeros(parameter.getType());
        attrs.set(kUnusedAttr, b.getUnitAttr());
      }
      results.push_back(cotangent);
      resultAttrs.push_back(attrs.getDictionary(&getContext()));
    }
    terminator->setOperands(results);
    gradients.setFunctionType(
        b.getFunctionType(gradients.getArgumentTypes(), ValueRange(results).getTypes()));
    gradients.setResAttrsAttr(b.getArrayAttr(resultAttrs));

    // What only the other outputs needed, and what the derivatives did not use of themselves.
    eraseDeadOps(block);
    return hasRole(forward, "gradient") ? eraseResults(forward, "gradient") : success();
  }

  static bool hasRole(func::FuncOp func, StringRef wanted) {
    return llvm::any_of(llvm::seq(func.getNumResults()),
                        [&](unsigned i) { return getResultRole(func, i) == wanted; });
  }

  /// The gradients that the function returns itself, times `scale`, for the arguments `numbers`.
  /// The graph's own gradients (a joint graph, training artifacts) are taken in place of derived
  /// ones; the scale is that of a micro-batch.
  static FailureOr<SmallVector<Value>> scaleGiven(OpBuilder &builder, func::FuncOp func,
                                                  ArrayRef<unsigned> numbers, Value scale) {
    Operation *terminator = func.getBody().front().getTerminator();
    llvm::StringMap<Value> given;
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (getResultRole(func, i) == "gradient")
        given[getResultName(func, i)] = terminator->getOperand(i);
    SmallVector<Value> results;
    for (unsigned number : numbers) {
      StringRef name = func.getArgAttrOfType<StringAttr>(number, kNameAttr).getValue();
      Value gradient = given.lookup(name);
      if (!gradient)
        return attachNotes(func.emitError("expected a gradient of the trainable parameter '")
                               << name << "'",
                           {{"the parameter", func.getArgument(number)}});
      TrainBuilder tb(builder, gradient.getLoc());
      // In the gradient's own type: a scale of 1 changes no bit.
      results.push_back(tb.mul(gradient, tb.splat(tb.cast(scale, gradient.getType()), gradient)));
    }
    return results;
  }
};
} // namespace
