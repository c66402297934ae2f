// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-steps`: functions put together from @forward, @gradients and @update. Updates are
// guarded by the sticky flag `nonfinite`, which is set by what is known before any of them, and
// element by element against values that are not finite.

#include "lib/Transforms/FormSteps/FormSteps.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "lib/Transforms/FormSteps/LossScale.h"
#include "trainc/Conversion/LossWeight.h"
#include "trainc/Report/Reports.h"
#include "trainc/Support/Location.h"
#include "trainc/Transforms/Support/HoistReshape.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FORMSTEPSPASS
#include "lib/Transforms/FormSteps/FormSteps.h.inc"
} // namespace trainc

namespace {
constexpr StringLiteral kNonfinite = "nonfinite";

bool isFloat(Value value) { return isa<FloatType>(getElementType(value)); }

/// The sticky flag: guards updates while it is set.
/// State of the step: 0 until something was not finite, 1 from then on, until the runtime clears
/// it. All updates are selected by it.
class Guard {
public:
  explicit Guard(StepBuilder &step, Location loc) : step(step) {
    argument =
        step.argument("state", kNonfinite, getTensorType({}, step.builder().getI32Type()), loc);
    flag = argument;
  }
  /// Sets the flag where `number`, a scalar, is not finite, but for where `excuse` holds.
  /// Only numbers that are known before any update: what is checked later could not undo earlier
  /// updates.
  void check(Value number, Value excuse = {}) {
    Value bad = isBad(number);
    if (excuse) {
      TrainBuilder tb = step.at(number.getLoc());
      bad = tb.logicalAnd(bad, tb.logicalNot(excuse));
    }
    setWhere(bad);
  }
  /// Sets the flag where the number of one of the ranks is not finite, or one has met a bad index;
  /// null: this one has no number.
  void checkOnAllRanks(Value number) {
    TrainBuilder tb = step.at(number ? number.getLoc() : argument.getLoc());
    Value bad = number ? isBad(number) : tb.scalar(step.builder().getI1Type(), 0);
    setWhere(buildHoldsOnAnyRank(tb, bad, /*isVerdict=*/true));
  }
  /// Whether the flag is set.
  /// Compared once for each step: the same condition in every kernel.
  Value getFlag() {
    TrainBuilder tb = step.at(flag.getLoc());
    if (!isSet)
      isSet = tb.compare("ne", flag, tb.scalarLike(flag, 0));
    return isSet;
  }
  /// Leaves this step out where `condition` holds, without setting the flag.
  /// For the loss scale: a step that is left out is no fault.
  void skipWhere(Value condition) {
    skip = step.at(condition.getLoc()).logicalOr(getFlag(), condition);
  }
  /// `updated`, or `old` where this step is left out.
  Value select(Value old, Value updated) {
    TrainBuilder tb = step.at(updated.getLoc());
    // In the shape that it was computed in, and so in the same kernel.
    // The select is then part of the kernel that computes the update, and the value is not stored
    // twice.
    if (Value inner = getReshaped(updated))
      return tb.reshape(select(tb.reshape(old, getDims(inner)), inner), getDims(old));
    Value condition = skip ? skip : getFlag();
    return tb.select(tb.splat(condition, old), old, updated);
  }
  /// A value that changes, as it was and as it is computed.
  struct Change {
    Value old, updated;
    /// Elements that never were finite, as the -inf of a mask, are not told of.
    bool maybeNot = false;
  };
  /// As `select`, and the old value for elements that are not finite, of which the runtime is told:
  /// an update runs as soon as its gradient is there and cannot wait for those of others. Of
  /// `changes`, which have one shape, an element stays as it was in all of them, and the runtime is
  /// told with the first alone.
  SmallVector<Value> selectFinite(ArrayRef<Change> changes) {
    const Change &first = changes.front();
    TrainBuilder tb = step.at(first.updated.getLoc());
    // In the shape that they were computed in.
    if (Value inner = getReshaped(first.updated)) {
      // State in another shape is brought into the parameter's.
      SmallVector<Change> inside;
      for (const Change &change : changes) {
        Value same = getReshaped(change.updated);
        inside.push_back({tb.reshape(change.old, getDims(inner)),
                          same && getDims(same) == getDims(inner)
                              ? same
                              : tb.reshape(change.updated, getDims(inner)),
                          change.maybeNot});
      }
      SmallVector<Value> kept = selectFinite(inside);
      for (Value &value : kept)
        value = tb.reshape(value, getDims(first.old));
      return kept;
    }
    SmallVector<Value> values;
    for (const Change &change : changes)
      values.push_back(select(change.old, change.updated));
    // Integers are always finite.
    if (!isFloat(values.front()))
      return values;
    // Any of them: parameter and state must not be of different steps.
    Value bad;
    for (Value value : values)
      bad = bad ? tb.logicalOr(bad, isNotFinite(tb, value)) : isNotFinite(tb, value);
    for (auto [value, change] : llvm::zip_equal(values, changes))
      value = tb.select(bad, change.old, value);
    Value &kept = values.front();
    // The first tells for all: `bad` is the same for each.
    if (!first.maybeNot) {
      told(kept);
      return values;
    }
    // `kept` is the old value there, and so this is one kernel, whatever makes the new one.
    Value wasFinite = tb.compare("eq", tb.sub(kept, kept), tb.scalarLike(kept, 0));
    kept = tell(tb, tb.logicalAnd(bad, wasFinite), kept);
    return values;
  }
  /// As `select`, and the runtime is told of elements that are not finite, which stay in sight.
  Value selectTold(Value old, Value updated) {
    Value value = select(old, updated);
    TrainBuilder tb = step.at(updated.getLoc());
    return isFloat(value) ? tell(tb, isNotFinite(tb, value), value) : value;
  }
  void finish() { step.update("state", kNonfinite, flag); }

private:
  Value isBad(Value number) {
    TrainBuilder tb = step.at(number.getLoc());
    return tb.logicalOr(tb.isNan(number), tb.isInf(number));
  }
  void setWhere(Value bad) {
    TrainBuilder tb = step.at(bad.getLoc());
    flag = tb.select(bad, tb.scalarLike(argument, 1), flag);
  }
  /// x - x is 0 for those that are, else NaN.
  /// NaN for infinities and NaN alike.
  static Value isNotFinite(TrainBuilder &tb, Value x) { return tb.isNan(tb.sub(x, x)); }
  /// The runtime is told where the condition holds.
  static Value told(Value selected) {
    selected.getDefiningOp()->setAttr(kReportsAttr, UnitAttr::get(selected.getContext()));
    return selected;
  }
  /// `value`, and the runtime is told where the condition holds.
  /// Both sides are the value: the select is only there to carry the mark.
  static Value tell(TrainBuilder &tb, Value condition, Value value) {
    return told(tb.select(condition, value, value));
  }

  StepBuilder &step;
  Value argument, flag, isSet, skip;
};

struct FormStepsPass : trainc::impl::FormStepsPassBase<FormStepsPass> {
  using FormStepsPassBase::FormStepsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    auto gradients = module.lookupSymbol<func::FuncOp>("gradients");
    auto update = module.lookupSymbol<func::FuncOp>("update");
    if (!forward) {
      module.emitError("expected the function @forward: legalize the model first");
      return signalPassFailure();
    }
    if (update && !gradients) {
      update.emitError("expected @gradients beside @update");
      return signalPassFailure();
    }
    for (StringRef name : {"step", "micro"})
      if (Operation *known = module.lookupSymbol(name)) {
        InFlightDiagnostic error = module.emitError("@")
                                   << name << " exists already: steps are formed once";
        error.attachNote(known->getLoc()) << "it is here";
        return signalPassFailure();
      }
    exchange = module.lookupSymbol<func::FuncOp>("exchange");
    shards = module.lookupSymbol<func::FuncOp>("shards");
    publish = module.lookupSymbol<func::FuncOp>("publish");
    exchangesMicro = exchange && exchange->hasAttr(kInStepAttr);
    exchangesLast = exchange && exchange->hasAttr(kWithLastAttr);
    // With micro-batches and no update there is only @micro.
    if (gradients && (update || !micro))
      formStep(module, gradients, update);
    if (gradients && micro)
      formMicro(module, gradients, update);
    if (gradients && micro && (exchangesMicro || exchangesLast))
      formAbsent(module, update);
    if (gradients && exchange)
      formAbsentStep(module, update);
    if (update) {
      if (micro)
        formUpdate(module, update);
      else
        update.erase();
    }
    for (func::FuncOp function : {exchange, shards, publish})
      if (function)
        function.erase();
    // Only micro-batches are weighted.
    if (Operation *weight = module.lookupSymbol(kLossWeightFunction);
        weight && !(gradients && micro))
      weight->erase();
    // Their bodies have been copied where they are needed.
    if (gradients)
      gradients.erase();
    forward.erase();
    // In the order of a training run.
    for (StringRef name : {StringRef("eval"), StringRef(kLossWeightFunction)})
      if (Operation *function = module.lookupSymbol(name))
        function->moveBefore(module.getBody(), module.getBody()->end());
  }

private:
  /// One batch is one step: gradients go to the updates without being stored in accumulators. Where
  /// each rank has one, all have the step together: what they exchange is part of it.
  void formStep(ModuleOp module, func::FuncOp gradients, func::FuncOp update) {
    StepBuilder step(module, "step", gradients.getLoc());
    step.argumentsLike(gradients, "parameter");
    step.argumentsLike(gradients, "input");
    if (update)
      step.argumentsLike(update, "state");
    Guard guard(step, gradients.getLoc());
    std::optional<LossScale> scale = makeScale(step, gradients.getLoc(), /*changes=*/true);
    step.argumentsLike(gradients, "hyper");
    if (update)
      step.argumentsLike(update, "hyper");

    SmallVector<Value> computed = inlineGradients(step, gradients, scale);
    const size_t ofGradients = callsOf(step).size();
    llvm::StringMap<Value> byName;
    // The loss is checked before any update: it is there when the backward begins.
    for (unsigned i = 0; i < gradients.getNumResults(); ++i) {
      if (getResultRole(gradients, i) == "loss") {
        step.result(computed[i], gradients.getResultAttrDict(i));
        exchange ? guard.checkOnAllRanks(computed[i]) : guard.check(computed[i]);
      } else if (getResultRole(gradients, i) == "gradient") {
        byName[getResultName(gradients, i)] = computed[i];
      }
    }
    SmallVector<Value> updated;
    IRMapping mapping;
    if (update)
      updated = updateWith(step, guard, update, byName, mapping, scale);
    addForwardUpdates(step, guard, gradients, computed);
    if (update)
      addUpdates(step, guard, update, updated, mapping, scale);
    guard.finish();
    if (exchange)
      numberCalls(step, ofGradients);
    markInStep(step.finish(), exchange ? "step" : "");
  }

  /// What a rank without a batch runs while others run @step: the same exchanges, of zeros, and the
  /// same updates.
  void formAbsentStep(ModuleOp module, func::FuncOp update) {
    StepBuilder step(module, "absent_step", update.getLoc());
    addUpdatedParameters(step, update);
    step.argumentsLike(update, "state");
    Guard guard(step, update.getLoc());
    std::optional<LossScale> scale = makeScale(step, update.getLoc(), /*changes=*/true);
    step.argumentsLike(update, "hyper");
    guard.checkOnAllRanks({});
    llvm::StringMap<Value> zeros = makeZeros(step, update.getLoc());
    IRMapping mapping;
    SmallVector<Value> updated = updateWith(step, guard, update, zeros, mapping, scale);
    addUpdates(step, guard, update, updated, mapping, scale);
    guard.finish();
    numberCalls(step, 0);
    markInStep(step.finish(), "step");
  }

  /// The body of `update` for these gradients by name, or for what @exchange makes of them.
  SmallVector<Value> updateWith(StepBuilder &step, Guard &guard, func::FuncOp update,
                                llvm::StringMap<Value> &gradients, IRMapping &mapping,
                                std::optional<LossScale> &scale) {
    if (exchange)
      for (auto &[name, sum] : exchanged(step, gradients))
        gradients[name] = sum;
    mapShards(step, update, mapping);
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      // What @update takes as arguments are values here.
      if (getArgRole(update, i) == "gradient")
        mapping.map(update.getArgument(i),
                    step.at(update.getLoc())
                        .cast(gradients.lookup(getArgName(update, i)),
                              getElementTypeOrSelf(update.getArgumentTypes()[i])));
    return inlineUpdate(step, guard, update, mapping, scale);
  }

  /// What ranks do together in the function that is being built, in the order of the program.
  static SmallVector<Operation *> callsOf(StepBuilder &step) {
    SmallVector<Operation *> calls;
    for (Operation &op : *step.builder().getInsertionBlock())
      if (op.hasTrait<CollectiveCall>())
        calls.push_back(&op);
    return calls;
  }
  /// Numbers the calls behind the first `count`, which are of the gradients' own: those that @step
  /// and @absent_step both have.
  static void numberCalls(StepBuilder &step, size_t count) {
    const SmallVector<Operation *> calls = callsOf(step);
    for (auto [i, call] : llvm::enumerate(ArrayRef(calls).drop_front(count)))
      call->setAttr(kBucketAttr, step.builder().getI64IntegerAttr(int64_t(i)));
  }

  llvm::StringMap<Value> makeZeros(StepBuilder &step, Location loc) {
    llvm::StringMap<Value> zeros;
    for (BlockArgument argument : exchange.getArguments())
      zeros[getArgName(exchange, argument.getArgNumber())] = step.at(loc).zeros(argument.getType());
    return zeros;
  }

  /// By name what @exchange makes of gradients: of these, or of the accumulators, which are
  /// arguments then.
  std::vector<std::pair<std::string, Value>> exchanged(StepBuilder &step,
                                                       const llvm::StringMap<Value> &gradients) {
    IRMapping given;
    for (BlockArgument argument : exchange.getArguments())
      if (Value gradient = gradients.lookup(getArgName(exchange, argument.getArgNumber())))
        given.map(
            argument,
            step.at(gradient.getLoc()).cast(gradient, getElementTypeOrSelf(argument.getType())));
    std::vector<std::pair<std::string, Value>> sums;
    for (auto [i, value] : llvm::enumerate(step.inlineBody(exchange, given)))
      sums.emplace_back(getResultName(exchange, i), value);
    return sums;
  }

  /// Maps the arguments of `update` that are shards of parameters to those.
  void mapShards(StepBuilder &step, func::FuncOp update, IRMapping &mapping) {
    if (!shards)
      return;
    SmallVector<Value> values = step.inlineBody(shards);
    for (BlockArgument argument : update.getArguments())
      for (auto [i, value] : llvm::enumerate(values))
        if (getArgRole(update, argument.getArgNumber()) == "parameter" &&
            getArgName(update, argument.getArgNumber()) == getResultName(shards, i))
          mapping.map(argument, value);
  }

  std::optional<LossScale> makeScale(StepBuilder &step, Location loc, bool changes) {
    return lossScaling ? std::optional<LossScale>(std::in_place, step, loc, changes) : std::nullopt;
  }

  /// The body of `gradients`, for the scaled loss where there is a scale; the gradients are those
  /// of the loss.
  SmallVector<Value> inlineGradients(StepBuilder &step, func::FuncOp gradients,
                                     std::optional<LossScale> &scale) {
    if (!scale)
      return step.inlineBody(gradients);
    IRMapping mapping;
    // The caller's scale (of a micro-batch) and the loss scale are one factor for the backward.
    for (unsigned i = 0; i < gradients.getNumArguments(); ++i)
      if (getArgName(gradients, i) == "grad_scale" && getArgRole(gradients, i) == "hyper")
        mapping.map(
            gradients.getArgument(i),
            step.at(gradients.getLoc()).mul(step.argumentLike(gradients, i), scale->getScale()));
    SmallVector<Value> computed = step.inlineBody(gradients, mapping);
    // Divided out at once: clipping and updates see gradients of the loss itself.
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient")
        computed[i] = scale->unscale(computed[i]);
    return computed;
  }

  /// Adds a batch's gradients to the accumulators, and updates what the forward itself changes.
  /// With an exchange in each micro-batch, of all ranks' sums.
  void formMicro(ModuleOp module, func::FuncOp gradients, func::FuncOp update) {
    StepBuilder step(module, "micro", gradients.getLoc());
    step.argumentsLike(gradients, "parameter");
    step.argumentsLike(gradients, "input");
    Guard guard(step, gradients.getLoc());
    std::optional<LossScale> scale = makeScale(step, gradients.getLoc(), /*changes=*/false);
    // Arguments before the body, so that their order does not depend on it.
    if (exchangesMicro)
      addAccumulators(step, update);
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient" && !isExchanged(getResultName(gradients, i)))
        step.argument("gradient", getResultName(gradients, i),
                      accumulatorType(gradients.getResultTypes()[i]), gradients.getLoc());
    step.argumentsLike(gradients, "hyper");

    SmallVector<Value> computed = inlineGradients(step, gradients, scale);
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "loss") {
        step.result(computed[i], gradients.getResultAttrDict(i));
        guard.check(computed[i]);
      }
    addForwardUpdates(step, guard, gradients, computed);
    llvm::StringMap<Value> byName;
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient")
        byName[getResultName(gradients, i)] = computed[i];
    if (exchangesMicro)
      for (auto &[name, sum] : exchanged(step, byName))
        byName[name] = sum;
    llvm::StringMap<Value> sums;
    for (unsigned i = 0; i < gradients.getNumResults(); ++i) {
      if (getResultRole(gradients, i) != "gradient")
        continue;
      StringRef name = getResultName(gradients, i);
      Value gradient = byName.lookup(name);
      // The argument that was declared above: one for each role and name.
      Value old =
          step.argument("gradient", name, accumulatorType(gradient.getType()), gradients.getLoc());
      TrainBuilder tb = step.at(gradient.getLoc());
      // Summed in the accumulator's type.
      Value sum = tb.add(old, tb.cast(gradient, train::getElementType(old)));
      // What does not fit into f16 is the loss scale's matter.
      sums[name] = scale ? guard.select(old, sum) : guard.selectTold(old, sum);
    }
    if (exchangesLast)
      for (auto &[name, sum] : exchanged(step, sums))
        sums[name] = sum;
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient") {
        StringRef name = getResultName(gradients, i);
        step.update("gradient", name, sums.lookup(name));
      }
    guard.finish();
    markInStep(step.finish(), exchangesMicro || exchangesLast ? "micro" : "");
  }

  /// What a rank runs for a micro-batch that others have and it has not: the exchange of zeros, or
  /// of the accumulators.
  void formAbsent(ModuleOp module, func::FuncOp update) {
    StepBuilder step(module, "absent", update.getLoc());
    addAccumulators(step, update);
    if (exchangesLast) {
      for (auto &[name, sum] : exchanged(step, {}))
        step.update("gradient", name, sum);
      return markInStep(step.finish(), "micro");
    }
    for (auto &[name, sum] : exchanged(step, makeZeros(step, update.getLoc()))) {
      TrainBuilder tb = step.at(update.getLoc());
      Value old = step.argument("gradient", name, sum.getType(), update.getLoc());
      step.update("gradient", name, tb.add(old, sum));
    }
    markInStep(step.finish(), "micro");
  }

  /// The accumulators of `update`.
  static void addAccumulators(StepBuilder &step, func::FuncOp update) {
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "gradient")
        step.argument("gradient", getArgName(update, i),
                      accumulatorType(update.getArgumentTypes()[i]), update.getLoc(),
                      update.getArgAttrDict(i));
  }
  bool isExchanged(StringRef name) {
    return exchangesMicro && llvm::any_of(exchange.getArguments(), [&](BlockArgument argument) {
             return getArgName(exchange, argument.getArgNumber()) == name;
           });
  }
  /// `with`: the function that others may run at the same time; "": none.
  static void markInStep(func::FuncOp function, StringRef with) {
    if (!with.empty())
      function->setAttr(kInStepAttr, StringAttr::get(function.getContext(), with));
  }
  /// Whole ones, where the update is of shards of them.
  void addUpdatedParameters(StepBuilder &step, func::FuncOp update) {
    for (func::FuncOp function : {shards, update})
      for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
        if (getArgRole(function, i) == "parameter" && !(shards && getShard(function, i)))
          step.argumentLike(function, i);
  }

  /// What the forward pass itself changes (running statistics), guarded by the flag.
  /// A parameter that the forward updates may hold -inf from the start.
  void addForwardUpdates(StepBuilder &step, Guard &guard, func::FuncOp gradients,
                         ArrayRef<Value> computed) {
    for (unsigned i = 0; i < gradients.getNumResults(); ++i) {
      if (getResultRole(gradients, i) != "update")
        continue;
      StringRef role = cast<StringAttr>(gradients.getResultAttr(i, kUpdatesAttr)).getValue();
      StringRef name = getResultName(gradients, i);
      Value old = step.argument(role, name, computed[i].getType(), gradients.getLoc());
      step.update(role, name,
                  guard.selectFinite({{old, computed[i], role == "parameter"}}).front());
    }
  }

  /// @update again, guarded by the flag, of what @exchange, where there is one, makes of the
  /// accumulated gradients.
  /// The name stays with the guarded function; the plain one is inlined and goes.
  void formUpdate(ModuleOp module, func::FuncOp update) {
    StringAttr name = update.getSymNameAttr();
    update.setName("update_unguarded");
    StepBuilder step(module, name, update.getLoc());
    addUpdatedParameters(step, update);
    const bool exchanges = exchange && !exchangesMicro && !exchangesLast;
    if (exchanges)
      step.argumentsLike(exchange, "gradient");
    else
      addAccumulators(step, update);
    step.argumentsLike(update, "state");
    Guard guard(step, update.getLoc());
    std::optional<LossScale> scale = makeScale(step, update.getLoc(), /*changes=*/true);
    step.argumentsLike(update, "hyper");
    IRMapping mapping;
    mapShards(step, update, mapping);
    llvm::StringMap<Value> sums;
    if (exchanges)
      for (auto &[name, sum] : exchanged(step, {}))
        sums[name] = sum;
    // Accumulators are cast to the type that the update was made for.
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "gradient") {
        Type type = update.getArgumentTypes()[i];
        Value sum = sums.lookup(getArgName(update, i));
        if (!sum)
          sum = step.argument("gradient", getArgName(update, i), accumulatorType(type),
                              update.getLoc());
        mapping.map(update.getArgument(i),
                    step.at(update.getLoc()).cast(sum, getElementTypeOrSelf(type)));
      }
    // The flag can only change by a verdict: without one it is not written.
    SmallVector<Value> updated = inlineUpdate(step, guard, update, mapping, scale);
    addUpdates(step, guard, update, updated, mapping, scale);
    if (hasVerdict(update))
      guard.finish();
    func::FuncOp guarded = step.finish();
    guarded->setDiscardableAttrs(update->getDiscardableAttrDictionary());
    update.erase();
  }

  /// Where updates are computed in another shape than the gradient's.
  /// The reshape is done on what the gradient is made of, so that its kernel computes in the
  /// update's shape.
  static void hoistReshapes(Value gradient) {
    for (Operation *user : llvm::make_early_inc_range(gradient.getUsers())) {
      if (user->getNumResults() != 1 || getReshaped(user->getResult(0)) != gradient)
        continue;
      OpBuilder builder(user);
      TrainBuilder tb(builder, user->getLoc());
      Value hoisted = hoistReshape(tb, gradient, getDims(user->getResult(0)));
      user->getResult(0).replaceAllUsesWith(hoisted);
      user->erase();
    }
  }

  static bool isVerdict(func::FuncOp update, unsigned result) {
    return getResultRole(update, result) == "verdict";
  }
  static bool hasVerdict(func::FuncOp update) {
    return llvm::any_of(llvm::seq(update.getNumResults()),
                        [&](unsigned i) { return isVerdict(update, i); });
  }

  /// The body of `update`, and what it says before anything is updated. `mapping` has the
  /// gradients.
  /// The order matters: overflow is asked of gradients before the body uses them, verdicts after it
  /// has been built.
  SmallVector<Value> inlineUpdate(StepBuilder &step, Guard &guard, func::FuncOp update,
                                  IRMapping &mapping, std::optional<LossScale> &scale) {
    for (unsigned i = 0; scale && i < update.getNumArguments(); ++i) {
      BlockArgument argument = update.getArgument(i);
      if (getArgRole(update, i) == "gradient")
        scale->check(mapping.lookup(argument));
      else if (getArgRole(update, i) == "hyper" && getArgName(update, i) == "step")
        mapping.map(argument, scale->countUpdates(step.argumentLike(update, i)));
    }
    // Of all gradients: nothing is updated where one has overflowed.
    if (scale && hasShards(update))
      scale->checkRanks();
    const Value overflow = scale ? scale->getOverflow() : Value();
    SmallVector<Value> updated = step.inlineBody(update, mapping);
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "gradient")
        hoistReshapes(mapping.lookup(update.getArgument(i)));
    for (auto [i, value] : llvm::enumerate(updated)) {
      if (getResultRole(update, i) == "output")
        step.result(value, update.getResultAttrDict(i));
      // An overflow that the scale answers for is no fault of the model.
      if (isVerdict(update, i))
        guard.check(value, overflow);
    }
    if (overflow)
      guard.skipWhere(overflow);
    return updated;
  }

  /// The results of `update`, guarded: a parameter's together with those of its state ("NAME/...")
  /// that have its shape.
  /// Groups changes that belong together, so that one kernel decides for a parameter and its state.
  /// `mapping` has the shards of parameters.
  void addUpdates(StepBuilder &step, Guard &guard, func::FuncOp update, ArrayRef<Value> updated,
                  const IRMapping &mapping, std::optional<LossScale> &scale) {
    llvm::StringMap<Value> old = shardsOf(update, mapping);
    struct Result {
      StringRef role, name;
      Guard::Change change;
    };
    SmallVector<Result> results;
    // The parameter's result comes before its state's: attach-optimizer makes them so.
    llvm::StringMap<SmallVector<unsigned>> together; // by parameter, which comes first
    for (auto [i, value] : llvm::enumerate(updated)) {
      if (getResultRole(update, i) != "update")
        continue;
      StringRef role = cast<StringAttr>(update.getResultAttr(i, kUpdatesAttr)).getValue();
      StringRef name = getResultName(update, i);
      Value before = role == "parameter" ? old.lookup(name) : Value();
      if (!before)
        before = step.argument(role, name, value.getType(), update.getLoc());
      if (role == "parameter")
        together[name].push_back(results.size());
      results.push_back({role, name, {before, value, role == "parameter"}});
    }
    SmallVector<unsigned> leaders;
    for (auto [i, result] : llvm::enumerate(results)) {
      auto with =
          result.role == "state" ? together.find(result.name.rsplit('/').first) : together.end();
      const bool follows =
          with != together.end() && isFloat(result.change.updated) &&
          getDims(result.change.updated) == getDims(results[with->second.front()].change.updated);
      if (follows)
        with->second.push_back(i);
      else
        leaders.push_back(i);
    }
    // Guarded as a group, told in the order of the results.
    for (unsigned leader : leaders) {
      SmallVector<unsigned> members = {leader};
      if (results[leader].role == "parameter")
        members = together[results[leader].name];
      SmallVector<Guard::Change> changes;
      for (unsigned member : members)
        changes.push_back(results[member].change);
      for (auto [member, kept] : llvm::zip_equal(members, guard.selectFinite(changes)))
        results[member].change.updated = kept;
    }
    // Whole again, what was decided on shards.
    IRMapping guarded;
    for (unsigned i = 0; publish && i < publish.getNumArguments(); ++i)
      for (const Result &result : results)
        if (result.role == "parameter" && result.name == getArgName(publish, i))
          guarded.map(publish.getArgument(i), result.change.updated);
    llvm::StringMap<Value> whole;
    if (publish)
      for (auto [i, value] : llvm::enumerate(step.inlineBody(publish, guarded)))
        whole[getResultName(publish, i)] = value;
    for (const Result &result : results) {
      Value value = result.role == "parameter" ? whole.lookup(result.name) : Value();
      step.update(result.role, result.name, value ? value : result.change.updated);
    }
    if (scale)
      scale->finish(guard.getFlag());
  }

  /// By name the values that stand for parameters of which `update` has a shard.
  static llvm::StringMap<Value> shardsOf(func::FuncOp update, const IRMapping &mapping) {
    llvm::StringMap<Value> values;
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "parameter" && getShard(update, i))
        if (Value value = mapping.lookupOrNull(update.getArgument(i)))
          values[getArgName(update, i)] = value;
    return values;
  }
  /// Whether what is updated are shards.
  static bool hasShards(func::FuncOp update) {
    return llvm::any_of(llvm::seq(update.getNumArguments()),
                        [&](unsigned i) { return getShard(update, i).has_value(); });
  }

  /// What ranks exchange before the update, and what makes shards of parameters before it and
  /// parameters of shards behind it; null: nothing.
  func::FuncOp exchange, shards, publish;
  /// The exchange is part of each micro-batch, or of the last one of a step.
  bool exchangesMicro = false, exchangesLast = false;
};
} // namespace
