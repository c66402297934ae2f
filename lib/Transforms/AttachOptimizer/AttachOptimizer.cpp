// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `attach-optimizer`: one optimizer op a parameter, looked up by name.

#include "lib/Transforms/AttachOptimizer/AttachOptimizer.h"

#include "lib/Transforms/AttachOptimizer/StateStorage.h"
#include "trainc/Conversion/GradNorm.h"
#include "trainc/Conversion/ParameterGroups.h"
#include "trainc/Transforms/Support/StepBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ATTACHOPTIMIZERPASS
#include "lib/Transforms/AttachOptimizer/AttachOptimizer.h.inc"
} // namespace trainc

/// Elements that one unit of a shard has.
static constexpr int64_t kFewestInShards = 4096;

namespace {
/// A parameter that is trained, and its gradient.
struct Trained {
  std::string name;
  Value parameter, gradient;
  Location loc;
  double lrScale, decayScale;
  /// In place of the hyper-parameter.
  std::optional<double> decay;
  StateStorage storage;
};

struct AttachOptimizerPass : trainc::impl::AttachOptimizerPassBase<AttachOptimizerPass> {
  using AttachOptimizerPassBase::AttachOptimizerPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const OptimizerSpec *spec = findOptimizer(kind);
    OptimizerOptions options;
    if (failed(readOptions(module, spec, options)))
      return signalPassFailure();
    // By name, so that the pass runs on any module that autodiff has left.
    auto gradients = module.lookupSymbol<func::FuncOp>("gradients");
    if (!gradients) {
      module.emitError("expected the function @gradients: run autodiff first");
      return signalPassFailure();
    }
    if (Operation *known = module.lookupSymbol("update")) {
      module.emitError("@update exists already").attachNote(known->getLoc()) << "it is here";
      return signalPassFailure();
    }
    std::optional<StateFormat> format = parseStateFormat(stateFormat);
    if (!format) {
      module.emitError("expected fp32, bf16 or int8 for the state, got '") << stateFormat << "'";
      return signalPassFailure();
    }
    build(module, gradients, *spec, options, *format);
  }

private:
  LogicalResult readOptions(ModuleOp module, const OptimizerSpec *spec, OptimizerOptions &options) {
    if (!spec) {
      InFlightDiagnostic error = module.emitError("unknown optimizer '") << kind << "'; known are";
      llvm::interleave(
          getOptimizers(), [&](const OptimizerSpec &known) { error << " " << known.name; },
          [&] { error << ","; });
      return error;
    }
    if (!betas.empty() && betas.size() != 2)
      return module.emitError("expected two betas, got ") << betas.size();
    if (!betas.empty()) {
      options.beta1 = betas[0];
      options.beta2 = betas[1];
    }
    for (double beta : {options.beta1, options.beta2})
      if (!(beta >= 0 && beta < 1))
        return module.emitError("expected betas in [0, 1), got ") << beta;
    // Negative stands for "not given", since 0 is a choice.
    options.epsilon = epsilon < 0 ? spec->defaultEpsilon : double(epsilon);
    options.momentum = momentum;
    options.nesterov = nesterov;
    options.biasCorrection = biasCorrection;
    if (!options.biasCorrection && spec->name != "adamw-hf")
      return module.emitError("only adamw-hf can do without bias correction, not ") << spec->name;
    if (!(options.momentum >= 0))
      return module.emitError("expected a momentum of at least 0, got ") << options.momentum;
    if (options.nesterov && options.momentum == 0)
      return module.emitError("expected a momentum above 0 with nesterov");
    if (shardFrom && shardFrom < kFewestInShards)
      return module.emitError("expected shards of parameters of at least ")
             << kFewestInShards << " elements, got " << int64_t(shardFrom);
    if (shardFrom && !hasRunSymbols(module))
      return module.emitError("expected the symbols of a run, @world and @rank, for shards");
    return success();
  }

  bool isSharded(Type parameter) const {
    return shardFrom && getNumElements(parameter).getConstant().value_or(0) >= shardFrom;
  }

  static double scaleOf(func::FuncOp func, unsigned argument, StringRef attribute) {
    auto scale = func.getArgAttrOfType<FloatAttr>(argument, attribute);
    return scale ? scale.getValueAsDouble() : 1.0;
  }

  static std::optional<double> ownDecay(func::FuncOp func, unsigned argument) {
    auto decay = func.getArgAttrOfType<FloatAttr>(argument, kWeightDecayAttr);
    return decay ? std::optional(decay.getValueAsDouble()) : std::nullopt;
  }

  /// Parameters that are trained, or a rank's shards of them, and their gradients.
  std::vector<Trained> addTrained(StepBuilder &step, func::FuncOp gradients,
                                  StateFormat format) const {
    MLIRContext *context = gradients.getContext();
    std::vector<Trained> trained;
    for (unsigned i = 0; i < gradients.getNumArguments(); ++i) {
      StringRef name = getArgName(gradients, i);
      // Parameters that the loss does not depend on get no update, and no state.
      if (!gradients.getArgAttr(i, kTrainableAttr) || !isUsed(gradients, name))
        continue;
      BlockArgument like = gradients.getArgument(i);
      Location loc = NameLoc::get(StringAttr::get(context, name + "/update"), gradients.getLoc());
      // Of a parameter that is itself a shard, the whole decides.
      const std::optional<Shard> held = getShard(gradients, i);
      const Type type = held ? Type(held->of) : like.getType();
      StateStorage storage(format, type, isSharded(type));
      NamedAttrList attributes(gradients.getArgAttrDict(i));
      if (storage.getShard())
        attributes.set(kShardAttr, storage.getShard()->toAttr());
      Value parameter = step.argument("parameter", name, storage.getArgumentType(), like.getLoc(),
                                      attributes.getDictionary(context));
      trained.push_back({name.str(), parameter, Value(), loc, scaleOf(gradients, i, kLrScaleAttr),
                         scaleOf(gradients, i, kDecayScaleAttr), ownDecay(gradients, i), storage});
    }
    for (Trained &one : trained)
      one.gradient = step.argument("gradient", one.name, one.parameter.getType(), one.loc,
                                   shardAttr(context, one.storage.getShard()));
    return trained;
  }
  static DictionaryAttr shardAttr(MLIRContext *context, const std::optional<Shard> &shard) {
    return shard ? DictionaryAttr::get(context, NamedAttribute(StringAttr::get(context, kShardAttr),
                                                               shard->toAttr()))
                 : DictionaryAttr();
  }

  void build(ModuleOp module, func::FuncOp gradients, const OptimizerSpec &spec,
             const OptimizerOptions &options, StateFormat format) {
    MLIRContext *context = module.getContext();
    Builder b(context);
    Location loc = gradients.getLoc();
    StepBuilder step(module, "update", loc);
    SmallVector<OptimizerState> states = spec.states(options);
    // Without state there is nothing to store in another format.
    if (states.empty())
      format = StateFormat::Parameter;

    // Arguments in the order of the documentation: parameters, gradients, state, hyper-parameters.
    std::vector<Trained> trained = addTrained(step, gradients, format);
    auto partName = [](const Trained &one, const OptimizerState &state,
                       const StateStorage::Part &part) {
      return (one.name + "/" + state.name + part.suffix).str();
    };
    SmallVector<SmallVector<SmallVector<Value>>> stored;
    for (Trained &one : trained) {
      auto &ofParameter = stored.emplace_back();
      for (const OptimizerState &state : states) {
        auto &ofState = ofParameter.emplace_back();
        for (const StateStorage::Part &part : one.storage.getParts())
          ofState.push_back(step.argument("state", partName(one, state, part), part.type, one.loc,
                                          shardAttr(context, part.shard)));
      }
    }
    Type f32 = getTensorType({}, b.getF32Type()), i64 = getTensorType({}, b.getI64Type());
    Value lr = step.argument("hyper", "lr", f32, loc);
    Value weightDecay = step.argument("hyper", "weight_decay", f32, loc);
    Value stepNumber = step.argument("hyper", "step", i64, loc);
    Value seed;
    // Rounding at random needs a seed; without it the function has no such argument.
    if (llvm::any_of(trained, [](const Trained &one) { return one.storage.isRounded(); }))
      seed = step.argument("hyper", "seed", i64, loc);
    for (Trained &one : trained) {
      // In blocks where the state is: all arithmetic is then in one shape and one kernel.
      TrainBuilder tb = step.at(one.loc);
      one.gradient = one.storage.arrange(tb, one.gradient);
    }
    // Clipping uses the norm of the gradients as they come, before any scale of the optimizer.
    Value clipNorm = clip ? step.argument("hyper", "clip_norm", f32, loc) : Value(), norm;
    if (clip || gradNorm)
      norm = buildNorm(step, trained, NameLoc::get(b.getStringAttr("grad_norm"), loc));
    if (clip && norm)
      clipGradients(step, trained, norm, clipNorm, NameLoc::get(b.getStringAttr("clip_norm"), loc));

    SmallVector<SmallVector<Value>> updates;
    for (auto [one, old] : llvm::zip_equal(trained, stored)) {
      TrainBuilder tb = step.at(one.loc);
      const StateStorage &storage = one.storage;
      OptimizerOperands operands{
          storage.arrange(tb, one.parameter), one.gradient, {}, Value(), Value(), stepNumber, {}};
      if (storage.getShard())
        operands.sumOverRanks = [&storage](TrainBuilder &tb, Value part) {
          return StateStorage::sumOverRanks(tb, {{&storage, part}}).front();
        };
      for (auto [state, parts] : llvm::zip_equal(states, old))
        operands.state.push_back(storage.load(tb, parts, state));
      // Factors of 1 fold away: parameters without a scale of their own cost nothing.
      operands.lr = tb.mul(lr, tb.scalarLike(lr, one.lrScale));
      operands.weightDecay = one.decay
                                 ? tb.scalarLike(weightDecay, *one.decay)
                                 : tb.mul(weightDecay, tb.scalarLike(weightDecay, one.decayScale));
      updates.push_back(spec.build(tb, operands, options));
    }
    // All updates after all arithmetic: a result of each parameter, then of each state, in the
    // order of the arguments.
    for (auto [one, values] : llvm::zip_equal(trained, updates)) {
      TrainBuilder tb = step.at(one.loc);
      step.update("parameter", one.name, one.storage.restore(tb, values[0]));
    }
    for (auto [one, values, old] : llvm::zip_equal(trained, updates, stored)) {
      TrainBuilder tb = step.at(one.loc);
      Value bits;
      if (one.storage.isRounded())
        bits = one.storage.drawBits(tb, seed, stepNumber, one.name);
      for (auto [number, state] : llvm::enumerate(states)) {
        // The two halves of a random word are for the first two states.
        SmallVector<Value> parts =
            one.storage.store(tb, values[1 + number], old[number], state, bits, unsigned(number));
        for (auto [part, value] : llvm::zip_equal(one.storage.getParts(), parts))
          step.update("state", partName(one, state, part), value);
      }
    }
    auto addResult = [&](StringRef role, StringRef name, ArrayRef<NamedAttribute> more = {}) {
      SmallVector<NamedAttribute> attributes(more);
      attributes.push_back(b.getNamedAttr(kRoleAttr, b.getStringAttr(role)));
      attributes.push_back(b.getNamedAttr(kNameAttr, b.getStringAttr(name)));
      step.result(norm, b.getDictionaryAttr(attributes));
    };
    if (norm)
      addResult("output", nameOfNorm(module), {b.getNamedAttr(kGradNormAttr, b.getUnitAttr())});
    // The verdict: whether the norm is finite decides if the step is taken.
    if (norm && clip)
      addResult("verdict", "norm");
    func::FuncOp update = step.finish();
    update->setAttr("train.optimizer", b.getStringAttr(spec.name));
  }

  /// Whether the loss depends on the parameter.
  static bool isUsed(func::FuncOp gradients, StringRef name) {
    for (unsigned i = 0; i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient" && getResultName(gradients, i) == name)
        return !gradients.getResultAttr(i, kUnusedAttr);
    return false;
  }

  /// "grad_norm", or what no output of the model is called: variants are in a module of their own,
  /// and their outputs are to have the same names.
  static std::string nameOfNorm(ModuleOp module) {
    while (auto outer = module->getParentOfType<ModuleOp>())
      module = outer;
    auto eval = module.lookupSymbol<func::FuncOp>("eval");
    std::string name = "grad_norm";
    auto isTaken = [&](unsigned i) { return getResultName(eval, i) == name; };
    while (eval && llvm::any_of(llvm::seq(eval.getNumResults()), isTaken))
      name += "_";
    return name;
  }

  /// The norm of all gradients together, in f32 (f64 where a gradient is f64); null without
  /// gradients. Each is summed up by itself, so that none is kept for it.
  static Value buildNorm(StepBuilder &step, ArrayRef<Trained> trained, Location loc) {
    TrainBuilder tb = step.at(loc);
    Type type = tb.b().getF32Type();
    for (const Trained &one : trained)
      if (getElementType(one.gradient).isF64())
        type = tb.b().getF64Type();
    SmallVector<std::pair<const StateStorage *, Value>> shards;
    SmallVector<Value> sums;
    for (const Trained &one : trained) {
      Value g = tb.cast(one.gradient, type), squares = tb.mul(g, g);
      if (one.storage.getShard())
        shards.push_back({&one.storage, squares});
      sums.push_back(one.storage.getShard() ? Value() : tb.sumAll(squares));
    }
    SmallVector<Value> ofRanks;
    if (!shards.empty())
      ofRanks = StateStorage::sumOverRanks(tb, shards);
    // In the order of the parameters: sums are the same in every compilation.
    Value total;
    for (auto next = ofRanks.begin(); Value sum : sums)
      total = tb.add(total, sum ? sum : *next++);
    return total ? tb.sqrt(total) : Value();
  }

  /// torch.nn.utils.clip_grad_norm_
  static void clipGradients(StepBuilder &step, MutableArrayRef<Trained> trained, Value norm,
                            Value clipNorm, Location loc) {
    TrainBuilder tb = step.at(loc);
    Value divisor = tb.add(norm, tb.scalarLike(norm, 1e-6));
    // At most 1: gradients are never made longer. A NaN norm makes all NaN, which the verdict
    // tells.
    Value coefficient =
        tb.min(tb.div(tb.cast(clipNorm, norm.getType()), divisor), tb.scalarLike(norm, 1));
    // Cast for each, in its own type.
    for (Trained &one : trained) {
      TrainBuilder own = step.at(one.loc);
      Value factor = own.cast(coefficient, one.gradient.getType());
      one.gradient = own.mul(one.gradient, own.splat(factor, one.gradient));
    }
  }
};
} // namespace
