// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `keep-rounded-weights`: which weights, then every function that reads or updates one.

#include "lib/Transforms/KeepRoundedWeights/KeepRoundedWeights.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Transforms/Support/HoistReshape.h"
#include "trainc/Transforms/Support/StepBuilder.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_KEEPROUNDEDWEIGHTSPASS
#include "lib/Transforms/KeepRoundedWeights/KeepRoundedWeights.h.inc"
} // namespace trainc

namespace {

/// Bytes that are copied in less time than a launch takes.
constexpr int64_t kLittle = 1 << 20;

constexpr StringLiteral kDerived = "derived", kDerive = "derive";

/// A parameter whose rounded value is kept.
struct Weight {
  BlockArgument parameter; ///< of the first function that has it
  Type rounded;
};

class RoundedWeights {
public:
  explicit RoundedWeights(ModuleOp module) : module(module), builder(module.getContext()) {}

  void run() {
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (trains(function))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      findWeights(function);
    if (weights.empty())
      return;
    for (func::FuncOp function : functions) {
      readRounded(function);
      writeRounded(function);
    }
    addDerive();
    remark::passed(module.getLoc(),
                   remark::RemarkOpts::name("Kept").category("keep-rounded-weights"))
        << remark::add("{0} weights are kept as they are multiplied, too, and rounded by their "
                       "update",
                       weights.size());
  }

private:
  /// Evaluation does neither, and has no memory for what is kept.
  static bool trains(func::FuncOp function) {
    return llvm::any_of(llvm::seq(function.getNumResults()), [&](unsigned i) {
      auto updates = function.getResultAttrOfType<StringAttr>(i, kUpdatesAttr);
      return updates && (updates == "parameter" || updates == "gradient");
    });
  }

  /// A cast of the argument to a float of fewer bits; null for all else.
  static Operation *getRounding(Operation *user, Value argument) {
    auto from = dyn_cast<FloatType>(getElementType(argument));
    auto to = isa<CastOpInterface>(user) && user->getNumResults() == 1
                  ? dyn_cast<FloatType>(getElementType(user->getResult(0)))
                  : FloatType();
    return from && to && to.getWidth() < from.getWidth() ? user : nullptr;
  }

  /// Whether a library reads it, through a view or not. What pads or joins little is read, too: its
  /// update is one launch with those of others then.
  static bool isStored(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      const FusionRole role = getFusionRole(user);
      if (role == FusionRole::Library)
        return true;
      if ((role != FusionRole::View && role != FusionRole::Access) || user->getNumResults() != 1)
        return false;
      std::optional<int64_t> bytes = getBytes(user->getResult(0).getType()).getConstant();
      return (role == FusionRole::View || (bytes && *bytes <= kLittle)) &&
             isStored(user->getResult(0));
    });
  }

  void findWeights(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      const unsigned number = argument.getArgNumber();
      if (getArgRole(function, number) != "parameter" ||
          !function.getArgAttr(number, kTrainableAttr))
        continue;
      for (Operation *user : argument.getUsers())
        if (Operation *cast = getRounding(user, argument); cast && isStored(cast->getResult(0)))
          weights.insert({getArgName(function, number), {argument, cast->getResult(0).getType()}});
    }
  }

  /// The argument that is the rounded weight, added where it is missing.
  Value getRounded(func::FuncOp function, StringRef name) {
    for (BlockArgument argument : function.getArguments())
      if (getArgRole(function, argument.getArgNumber()) == kDerived &&
          getArgName(function, argument.getArgNumber()) == name)
        return argument;
    const unsigned number = function.getNumArguments();
    const Weight &weight = weights.find(name)->second;
    (void)function.insertArgument(
        number, weight.rounded,
        builder.getDictionaryAttr({builder.getNamedAttr(kRoleAttr, builder.getStringAttr(kDerived)),
                                   builder.getNamedAttr(kNameAttr, builder.getStringAttr(name))}),
        weight.parameter.getLoc());
    return function.getArgument(number);
  }

  void readRounded(func::FuncOp function) {
    // Arguments are added behind those that are looked at.
    for (unsigned number : llvm::seq(function.getNumArguments())) {
      auto known = weights.find(getArgName(function, number));
      if (known == weights.end() || getArgRole(function, number) != "parameter")
        continue;
      Value parameter = function.getArgument(number);
      SmallVector<Operation *> casts;
      for (Operation *user : parameter.getUsers())
        if (Operation *cast = getRounding(user, parameter);
            cast && cast->getResult(0).getType() == known->second.rounded)
          casts.push_back(cast);
      for (Operation *cast : casts)
        cast->getResult(0).replaceAllUsesWith(getRounded(function, known->first));
    }
    eraseDeadOps(function.getBody().front());
  }

  void writeRounded(func::FuncOp function) {
    Operation *end = function.getBody().front().getTerminator();
    builder.setInsertionPoint(end);
    // Results are added behind those that are looked at.
    for (unsigned number : llvm::seq(function.getNumResults())) {
      auto updates = function.getResultAttrOfType<StringAttr>(number, kUpdatesAttr);
      auto known = weights.find(getResultName(function, number));
      if (!updates || updates != "parameter" || known == weights.end())
        continue;
      Value updated = end->getOperand(number);
      // One that stays as it is.
      if (isa<BlockArgument>(updated))
        continue;
      (void)getRounded(function, known->first);
      addUpdate(function, known->first,
                round(updated, getElementTypeOrSelf(known->second.rounded)));
    }
  }

  /// In the shape that the value is computed in, and so by the kernel that computes it.
  Value round(Value value, Type type) {
    TrainBuilder tb(builder, value.getLoc());
    if (Value inner = getReshaped(value))
      return tb.reshape(round(inner, type), getDims(value));
    return tb.cast(value, type);
  }

  void addUpdate(func::FuncOp function, StringRef name, Value value) {
    Operation *end = function.getBody().front().getTerminator();
    end->insertOperands(end->getNumOperands(), value);
    (void)function.insertResult(
        function.getNumResults(), value.getType(),
        builder.getDictionaryAttr(
            {builder.getNamedAttr(kRoleAttr, builder.getStringAttr("update")),
             builder.getNamedAttr(kUpdatesAttr, builder.getStringAttr(kDerived)),
             builder.getNamedAttr(kNameAttr, builder.getStringAttr(name))}));
  }

  /// What a runtime runs once parameters are there.
  void addDerive() {
    StepBuilder derive(module, kDerive, module.getLoc());
    for (auto &[name, weight] : weights) {
      auto function = cast<func::FuncOp>(weight.parameter.getOwner()->getParentOp());
      Value parameter = derive.argumentLike(function, weight.parameter.getArgNumber());
      (void)derive.argument(kDerived, name, weight.rounded, parameter.getLoc());
      derive.update(
          kDerived, name,
          derive.at(parameter.getLoc()).cast(parameter, getElementTypeOrSelf(weight.rounded)));
    }
    (void)derive.finish();
  }

  ModuleOp module;
  OpBuilder builder;
  /// By name, in the order of the program.
  llvm::MapVector<StringRef, Weight> weights;
};

struct KeepRoundedWeightsPass : trainc::impl::KeepRoundedWeightsPassBase<KeepRoundedWeightsPass> {
  using KeepRoundedWeightsPassBase::KeepRoundedWeightsPassBase;
  void runOnOperation() override { RoundedWeights(getOperation()).run(); }
};

} // namespace
