// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// With the model's sizes and roles known, what the command line says of them is checked and told.

#include "dialects/Train/Collectives/Shards.h"
#include "format/status.h"
#include "lib/Driver/IdleExpressions.h"
#include "lib/Driver/ParameterSummary.h"
#include "lib/Driver/Phases/Phases.h"
#include "lib/Phases/Phases.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Conversion/ONNXToTrain/Roles/PadTokens.h"
#include "trainc/Schedule/Recompute/Config.h"

using namespace mlir;
using namespace trainc;

/// What of a model several ranks cannot do together, "" if nothing.
static std::string whyNotDistributed(func::FuncOp forward, bool ownUpdates) {
  if (ownUpdates)
    return "the model has a training algorithm of its own (training_info), whose gradients are not "
           "known apart from it; name an --optimizer to train the model without it";
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (getResultRole(forward, i) == "update")
      return "the forward pass itself changes '" + getResultName(forward, i).str() +
             "' (running statistics), which each rank would do in its own way; export the model "
             "with its normalization in evaluation mode, or compile it with --batchnorm frozen";
  return {};
}

/// What of the options does not go with the model, "" if nothing; reads what they name.
/// In an order that matters: sizes and roles before what is named by them.
static std::string applyOptions(Compilation &c) {
  CompileOptions &options = c.options;
  if (c.legalized.ownGradients && options.graph.precision == Precision::FP16)
    return "--precision fp16 scales the loss before it is differentiated, but this graph holds its "
           "gradients; use bf16";
  // Decided by the model, asked by pipelines.
  options.graph.ownUpdates = c.legalized.ownUpdates;
  auto forward = c.module->lookupSymbol<func::FuncOp>("forward");
  if (options.graph.distribution != Distribution::None)
    if (std::string problem = whyNotDistributed(forward, c.legalized.ownUpdates); !problem.empty())
      return "--distribute: " + problem;
  if (hasShards(options.graph.distribution))
    if (std::optional<StringRef> taken = train::declareRunSymbols(*c.module))
      return "--distribute " + nameOf(options.graph.distribution).str() +
             ": the model has a size called '" + taken->str() +
             "', which is one of the ranks; --distribute data has none, or export the model with "
             "another name for it";
  if (std::string problem = setPadTokens(forward, options.padTokens, c.model.paddingIds);
      !problem.empty())
    return problem;
  // Patterns need the model's values, files are read once.
  if (std::string problem = resolveRecompute(options.recompute); !problem.empty())
    return "--recompute: " + problem;
  return {};
}

/// --lora and --quantize
static LogicalResult addAdapters(Compilation &c) {
  // Branches change what is differentiated.
  if (c.options.graph.lora && (c.legalized.ownGradients || c.legalized.ownUpdates))
    return emitError(c.module->getLoc(),
                     "--lora needs a model without gradients: this one's are those of its own "
                     "parameters; export the forward pass and the loss");
  PassManager pm(&c.context, ModuleOp::getOperationName());
  // Errors of these passes are the user's: expressions that match nothing, for example.
  pm.enableTiming(c.timer);
  buildAdapterPipeline(pm, c.options.graph);
  return pm.run(*c.module);
}

int trainc::legalizeModel(Compilation &c) {
  const CompileOptions &options = c.options;
  LegalizeOptions legalize = options.legalize;
  if (failed(legalizeONNX(*c.module, legalize, c.legalized))) {
    // It is told twice where legalization succeeds.
    if (c.legalized.trained.empty() && !c.legalized.excluded.empty())
      warnOfIdleChoice(options, c.log, c.legalized); // which may be why
    return ExitInput;
  }
  if (std::string problem = applyOptions(c); !problem.empty()) {
    Log::error(options.model, problem);
    return ExitInput;
  }
  c.log.info() << trainrt::shown(options.model) << ": " << c.legalized.nodes << " nodes -> "
               << c.legalized.ops << " ops; target " << options.target->name() << " "
               << llvm::join(options.processors, " ") << "\n";
  if (std::string note =
          options.target->getPrecisionNote(options.graph.precision, options.processors);
      !note.empty())
    c.log.info() << note << "\n";
  // Before adapters, whose parameters have other names.
  warnOfIdleChoice(options, c.log, c.legalized);
  if (failed(addAdapters(c)))
    return ExitInput;
  // A factor of 0 times anything is 0.
  if (options.lr == 0 && llvm::any_of(options.groups, [](auto &group) { return group.lr; })) {
    Log::error(options.model, "a --group has a learning rate of its own, which is kept as a factor "
                              "of --lr, and that is 0");
    return ExitInput;
  }
  std::vector<GroupDecision> decisions =
      applyGroups(c.module->lookupSymbol<func::FuncOp>("forward"), options.groups, options.lr,
                  options.layerDecay);
  // Groups know what is trained only now.
  warnOfIdleGroups(options, c.log, decisions);
  reportGroups(decisions, c.log);
  reportParameters(*c.module, options, c.legalized, c.log);
  if (int code = runPlainPasses(c, "legalize"))
    return code;
  return failed(checkPluginOps(*c.module, !options.legalize.inference)) ? ExitInput : ExitSuccess;
}
