// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `autodiff`: the loss, and which cotangents are wanted
// (dialects/Train/Reverse/Cotangents.h).

#include "lib/AutoDiff/AutoDiff.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/Reverse/Cotangents.h"
#include "dialects/Train/TrainBuilder.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_AUTODIFFPASS
#include "lib/AutoDiff/AutoDiff.h.inc"
} // namespace trainc

FailureOr<SmallVector<Value>> trainc::buildCotangents(OpBuilder &builder, Value of, Value seed,
                                                      ValueRange wanted) {
  CotangentProblem problem;
  FailureOr<SmallVector<Value>> found =
      train::buildCotangents(builder, *of.getParentBlock(), of, seed, wanted, problem);
  if (succeeded(found))
    return found;
  // The note names the parameter that asks for this derivative.
  if (!problem.gradient)
    return attachNotes(problem.op->emitError()
                           << describeOp(problem.op)
                           << " has no derivative, but the loss depends on a trainable parameter "
                              "through it; freeze what is before it, or replace the node",
                       {{"the parameter", problem.value}});
  return attachNotes(problem.op->emitError()
                         << describeOp(problem.op) << " gave a gradient of type "
                         << problem.gradient << " for an operand of type "
                         << problem.value.getType(),
                     {{"the operand", problem.value}});
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
    // A derivative may have replaced its op by one that keeps more.
    lossValue = terminator->getOperand(*loss);
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
