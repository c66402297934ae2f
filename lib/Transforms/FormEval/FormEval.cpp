// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-eval`: the forward pass twice, for evaluation with its outputs, for training
// without.

#include "lib/Transforms/FormEval/FormEval.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Conversion/LossWeight.h"
#include "trainc/Formulas/DrawnMasks.h"
#include "trainc/Formulas/LossMean.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FORMEVALPASS
#include "lib/Transforms/FormEval/FormEval.h.inc"
} // namespace trainc

namespace {
struct FormEvalPass : trainc::impl::FormEvalPassBase<FormEvalPass> {
  using FormEvalPassBase::FormEvalPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      module.emitError("expected the function @forward: legalize the model first");
      return signalPassFailure();
    }
    if (Operation *known = module.lookupSymbol("eval")) {
      module.emitError("@eval exists already: it is formed once").attachNote(known->getLoc())
          << "it is here";
      return signalPassFailure();
    }
    if (failed(formEval(module, forward)))
      return signalPassFailure();
    // Before outputs go: evaluation returns them, training would compute them for nothing.
    bool trains = llvm::any_of(llvm::seq(forward.getNumResults()),
                               [&](unsigned i) { return getResultRole(forward, i) == "loss"; });
    if (trains && failed(eraseResults(forward, "output")))
      return signalPassFailure();
  }

private:
  /// @forward in evaluation mode, with what losses of batches are weighted by. @forward itself
  /// stays as it is.
  LogicalResult formEval(ModuleOp module, func::FuncOp forward) {
    auto func = cast<func::FuncOp>(forward->clone());
    func.setName("eval");
    SymbolTable(module).insert(func);
    SmallVector<EvalModeOpInterface> ops;
    func.walk([&](EvalModeOpInterface op) { ops.push_back(op); });
    // Each op by what it is in evaluation: Dropout passes on, BatchNormalization uses its running
    // statistics.
    for (EvalModeOpInterface op : ops) {
      OpBuilder builder(op);
      TrainBuilder tb(builder, op->getLoc());
      SmallVector<Value> results;
      op.buildEvalMode(tb, results);
      if (!llvm::equal(ValueRange(results).getTypes(), op->getResultTypes()))
        return op->emitError() << describeOp(op) << " has other result types in evaluation";
      op->replaceAllUsesWith(results);
      op->erase();
    }
    dropDrawnMasks(func);
    // What trains: running statistics, and the gradients of a graph that holds them.
    // Evaluation must change nothing.
    if (failed(eraseResults(func, "update")) || failed(eraseResults(func, "gradient")) ||
        failed(addLossWeight(func)) || failed(formLossWeight(module, func)))
      return failure();
    // Seeds that no dropout asks for any more.
    BitVector unused(func.getNumArguments());
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (getArgRole(func, i) == "hyper" && func.getArgument(i).use_empty())
        unused.set(i);
    return func.eraseArguments(unused);
  }

  /// Dropout that the graph writes out is none in evaluation either. Other draws stay: a model that
  /// computes with noise evaluates with noise.
  static void dropDrawnMasks(func::FuncOp func) {
    auto options = [&](StringRef name) {
      return remark::RemarkOpts::name(name).category("form-eval").function(func.getName());
    };
    SmallVector<DrawnMask> masks = findDrawnMasks(func);
    for (const DrawnMask &mask : masks)
      remark::passed(mask.value.getLoc(), options("DrawnMask"))
          << remark::add("evaluations leave out the drawn mask that keeps {0} and scales by its "
                         "inverse",
                         mask.keep);
    dropMasks(func, masks);
    for (Operation *draw : findDraws(func))
      remark::analysis(draw->getLoc(), options("DrawStays")) << remark::add(
          "evaluations draw these random numbers, too: no mask that is scaled by the "
          "inverse of what it keeps is made of them");
  }

  /// The denominator alone: micro-batches are weighted by it before their gradients are computed.
  /// From evaluation, since the number must not depend on dropout.
  static LogicalResult formLossWeight(ModuleOp module, func::FuncOp eval) {
    StringRef name;
    for (unsigned i = 0; i < eval.getNumResults(); ++i)
      if (auto weight = eval.getResultAttrOfType<StringAttr>(i, kLossWeightAttr))
        name = weight.getValue();
    if (name.empty())
      return success();
    auto func = cast<func::FuncOp>(eval->clone());
    func.setName(kLossWeightFunction);
    SymbolTable(module).insert(func);
    if (failed(eraseResults(func, [&](unsigned i) { return getResultName(func, i) != name; })))
      return failure();
    // Parameters, too: counting labels reads none.
    BitVector unused(func.getNumArguments());
    for (BlockArgument argument : func.getArguments())
      if (argument.use_empty())
        unused.set(argument.getArgNumber());
    return func.eraseArguments(unused);
  }

  /// By what the losses of batches are weighted for that of all rows: their denominators.
  /// Adds the denominator as an output, unless it is the same for all batches (a mean over rows,
  /// say), and marks the loss either way.
  static LogicalResult addLossWeight(func::FuncOp func) {
    unsigned index = 0;
    while (index < func.getNumResults() && getResultRole(func, index) != "loss")
      ++index;
    if (index == func.getNumResults())
      return success();
    Operation *end = func.getBody().front().getTerminator();
    Value loss = end->getOperand(index);
    LossMean mean = findLossMean(func, loss);
    auto options = [&](StringRef name) {
      return remark::RemarkOpts::name(name).category("form-eval").function(func.getName());
    };
    // Without the mark the runtime knows no more than the number of rows.
    if (!mean.isMean) {
      auto missed = remark::missed(loss.getLoc(), options("LossNoMean"));
      missed << remark::add("evaluations weight the losses of batches by rows, which is not the "
                            "loss of all rows at once")
             << remark::reason("{0}", mean.obstacle.reason);
      mean.obstacle.suggestTo(missed);
      return success();
    }
    std::string name;
    if (mean.number || mean.count) {
      OpBuilder builder(end);
      TrainBuilder tb(builder, mean.number ? mean.number.getLoc() : loss.getLoc());
      Value number =
          mean.number ? tb.reshape(mean.number, {}) : tb.dim(mean.count, tb.b().getF32Type());
      number = tb.cast(number, tb.b().getF32Type());
      name = (getResultName(func, index) + ".weight").str();
      // A name that no output of the model has.
      auto isTaken = [&](unsigned i) { return getResultName(func, i) == name; };
      while (llvm::any_of(llvm::seq(func.getNumResults()), isTaken))
        name += "_";
      auto attributes = builder.getDictionaryAttr(
          {builder.getNamedAttr(kRoleAttr, builder.getStringAttr("output")),
           builder.getNamedAttr(kNameAttr, builder.getStringAttr(name))});
      end->insertOperands(end->getNumOperands(), number);
      if (failed(func.insertResult(func.getNumResults(), number.getType(), attributes)))
        return failure();
      remark::passed(loss.getLoc(), options("LossMean"))
          << remark::add("evaluations weight the losses of batches by {0}",
                         mean.number ? "what " + describeOp(mean.number.getDefiningOp()) + " gives"
                                     : mean.count.str());
    }
    func.setResultAttr(index, kLossWeightAttr, StringAttr::get(func.getContext(), name));
    return success();
  }
};
} // namespace
