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

/// The table of a vocabulary has rows behind it, too, and is not in memory at the largest moment of
/// a step unless it is kept; what has fewer bytes than this costs a launch alone.
constexpr int64_t kMostPaddedBytes = 1 << 20;

constexpr StringLiteral kDerived = "derived", kDerive = "derive";

/// A parameter whose rounded value is kept.
struct Weight {
  BlockArgument parameter; ///< of the first function that has it
  Type kept;               ///< in 16 bits, maybe with rows of zeros behind it
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

  /// Whether a library reads it, through a view or not.
  static bool isStored(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      const FusionRole role = getFusionRole(user);
      return role == FusionRole::Library ||
             (role == FusionRole::View && user->getNumResults() == 1 &&
              isStored(user->getResult(0)));
    });
  }

  /// The operand with rows of zeros behind it; null for all else.
  static Value getWithZeroRows(Operation *user) {
    auto range = dyn_cast<SubrangeOpInterface>(user);
    if (!range || user->getNumOperands() != 1 || user->getNumResults() != 1)
      return {};
    const Value to = user->getResult(0);
    const SmallVector<DimAttr> from = getDims(user->getOperand(0)), dims = getDims(to);
    auto fill = dyn_cast_or_null<FloatAttr>(range.getFill());
    const Subrange where = range.getSubrange(0, 0);
    const bool isWhole =
        llvm::all_of(where.starts, [](DimAttr start) { return start.isConstant(0); }) &&
        llvm::all_of(where.steps, [](int64_t step) { return step == 1; });
    // A crop is such a range, too.
    return fill && fill.getValue().isPosZero() && isWhole && !dims.empty() &&
                   ArrayRef(from).drop_front() == ArrayRef(dims).drop_front() &&
                   from[0].getConstant().value_or(INT64_MAX) < dims[0].getConstant().value_or(0)
               ? to
               : Value();
  }

  void findWeights(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      const unsigned number = argument.getArgNumber();
      if (getArgRole(function, number) != "parameter" ||
          !function.getArgAttr(number, kTrainableAttr))
        continue;
      for (Operation *user : argument.getUsers())
        if (Operation *cast = getRounding(user, argument))
          if (Type kept = getKept(cast->getResult(0)))
            addWeight(function, {argument, kept}, cast->getLoc());
    }
  }

  void addWeight(func::FuncOp function, const Weight &weight, Location reader) {
    StringRef name = getArgName(function, weight.parameter.getArgNumber());
    if (weights.insert({name, weight}).second)
      remark::passed(reader, remark::RemarkOpts::name("Kept")
                                 .category("keep-rounded-weights")
                                 .function(function.getName()))
          << remark::add("the weight '{0}' is kept in {1}, too, and rounded by its update", name,
                         getElementTypeOrSelf(weight.kept));
  }

  /// The type that a library reads of a rounded weight: its own, or one with more rows.
  static Type getKept(Value rounded) {
    if (isStored(rounded))
      return rounded.getType();
    for (Operation *user : rounded.getUsers())
      if (Value padded = getWithZeroRows(user); padded && isStored(padded))
        if (getBytes(padded.getType()).getConstant().value_or(INT64_MAX) <= kMostPaddedBytes)
          return padded.getType();
    return {};
  }

  /// The argument that is the rounded weight, added where it is missing.
  Value getRounded(func::FuncOp function, StringRef name) {
    for (BlockArgument argument : function.getArguments())
      if (getArgRole(function, argument.getArgNumber()) == kDerived &&
          getArgName(function, argument.getArgNumber()) == name)
        return argument;
    const Weight &weight = weights.find(name)->second;
    auto type = cast<RankedTensorType>(weight.kept);
    return addArgument(function, kDerived, name, type.getShape(), type.getElementType(),
                       weight.parameter.getLoc());
  }

  void readRounded(func::FuncOp function) {
    // Arguments are added behind those that are looked at.
    for (unsigned number : llvm::seq(function.getNumArguments())) {
      auto known = weights.find(getArgName(function, number));
      if (known == weights.end() || getArgRole(function, number) != "parameter")
        continue;
      Value parameter = function.getArgument(number);
      SmallVector<Value> kept;
      for (Operation *user : parameter.getUsers()) {
        Operation *cast = getRounding(user, parameter);
        if (!cast)
          continue;
        kept.push_back(cast->getResult(0));
        for (Operation *reader : cast->getResult(0).getUsers())
          if (Value padded = getWithZeroRows(reader))
            kept.push_back(padded);
      }
      for (Value value : kept)
        if (value.getType() == known->second.kept)
          value.replaceAllUsesWith(getRounded(function, known->first));
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
      addUpdate(function, known->first, round(updated, getElementTypeOrSelf(known->second.kept)));
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
    (void)function.insertResult(function.getNumResults(), value.getType(),
                                getUpdateAttrs(builder, kDerived, name));
  }

  /// What a runtime runs once parameters are there.
  void addDerive() {
    StepBuilder derive(module, kDerive, module.getLoc());
    for (auto &[name, weight] : weights) {
      auto function = cast<func::FuncOp>(weight.parameter.getOwner()->getParentOp());
      Value parameter = derive.argumentLike(function, weight.parameter.getArgNumber());
      (void)derive.argument(kDerived, name, weight.kept, parameter.getLoc());
      derive.update(
          kDerived, name,
          derive.at(parameter.getLoc()).cast(parameter, getElementTypeOrSelf(weight.kept)));
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
