// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the command line leaves open, the model or the optimizer's defaults decide later.

#include "lib/Driver/Options/TrainingOptions.h"

#include "dialects/Train/Optimizer.h"
#include "lib/Driver/Options/OptionValues.h"

using namespace trainc;

static bool hasCollectives(const TargetTraits &target) { return target.collectives; }

TrainingOptions::TrainingOptions(CLI::App &app, CompileOptions &options)
    : OptionGroup(app, options) {
  // "Not given" for each of them.
  options.graph.optimizer.clear();
  options.lr = options.weightDecay = NAN;
  group("Training");
  app.add_flag("--inference", options.legalize.inference, "no loss: predictions only");
  add("--loss", options.legalize.loss, "NAME",
      "output that is minimised (default: 'loss', else the only scalar float output)");
  // As the optimizers list themselves.
  std::vector<std::string> optimizers;
  for (const train::OptimizerSpec &optimizer : train::getOptimizers())
    optimizers.push_back(optimizer.name.str());
  add("--optimizer", options.graph.optimizer, "NAME",
      "sgd|adam|adamw|adamw-hf|lamb (default adamw)")
      ->check(CLI::IsMember(optimizers));
  add("--lr", options.lr, "F", "learning rate (default 0.001)")->check(number(/*zero=*/true));
  add("--betas", betas, "F,F", "(default 0.9,0.999)");
  add("--eps", options.graph.epsilon, "F", "(default 1e-8; lamb: 1e-6)")
      ->check(number(/*zero=*/true));
  add("--weight-decay", options.weightDecay, "F", "(default: adamw 0.01, others 0)")
      ->check(number(/*zero=*/true));
  add("--momentum", options.graph.momentum, "F", "of sgd (default 0)")
      ->check(number(/*zero=*/true));
  app.add_flag("--nesterov", options.graph.nesterov, "Nesterov momentum (sgd)");
  add("--optimizer-state", options.graph.optimizerState, "TYPE",
      "fp32|bf16|int8: what the optimizer's averages are stored in (default: as the parameters)")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}));
  add("--clip-norm", options.clipNorm, "F", "clip the global gradient norm")
      ->check(number(/*zero=*/false));
  app.add_flag("--grad-norm", options.graph.gradNorm,
               "steps tell the norm of their gradients (with --clip-norm they do anyway)");
  add("--accumulate", options.accumulate, "N",
      "micro-batches a step unless trainc-run says otherwise")
      ->check(CLI::Range(1, 1 << 20));
  add("--distribute", distribution, "HOW",
      "data: several ranks train the package together, each on its share of the rows; zero1: and "
      "each with a part of the optimizer's state alone; zero2: and of the gradients; zero3: and of "
      "the parameters (" +
          namesOfTargets(hasCollectives) + ")")
      ->check(CLI::IsMember(getDistributionNames()));
  group("Which parameters (a REGEX is ECMAScript and matches anywhere in a name)");
  add("--trainable", options.legalize.trainable, "REGEX", "parameters to train");
  add("--group", groups, "REGEX: SETTING,...",
      "parameters with lr=Fx, lr=F, weight_decay=Fx, weight_decay=F or freeze; for each setting "
      "the "
      "first group that matches and has it counts")
      // Each in its own argument: expressions have commas.
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  add("--freeze", freeze, "REGEX", "parameters to leave alone: a group with freeze");
  add("--no-decay", noDecay, "REGEX",
      "parameters without weight decay: a group with weight_decay=0; auto: norms and biases");
  add("--lr-scale", lrScale, "REGEX=F,...", "factors of the learning rate: groups with lr=Fx");
  add("--layer-decay", options.layerDecay, "F",
      "each layer learns at F of the rate of the one above it (default 1)")
      ->check(number(/*zero=*/false));
}

void TrainingOptions::excludeFromInference() {
  for (const char *name :
       {"--loss",         "--optimizer", "--lr",          "--betas",           "--eps",
        "--weight-decay", "--momentum",  "--nesterov",    "--optimizer-state", "--clip-norm",
        "--grad-norm",    "--no-decay",  "--lr-scale",    "--accumulate",      "--trainable",
        "--freeze",       "--group",     "--layer-decay", "--recompute",       "--memory-budget",
        "--offload",      "--lora",      "--distribute"})
    // These options belong to training only.
    app.get_option("--inference")->excludes(app.get_option(name));
}

void TrainingOptions::read() {
  options.graph.inference = options.legalize.inference;
  // Expressions are compiled now, so that mistakes are told before the model is read.
  for (auto &[name, pattern] :
       {std::pair<std::string, std::string>("--trainable", options.legalize.trainable),
        {"--freeze", freeze},
        {"--no-decay", noDecay}})
    checkRegex(name, pattern);
  // Faster below than above is no decay.
  if (options.layerDecay > 1)
    throw CLI::ValidationError("--layer-decay", "expected a number above 0 and of at most 1");
  if (!distribution.empty()) {
    options.graph.distribution = *parseDistribution(distribution);
    const TargetTraits &traits = options.target->traits;
    // So many latencies that one more is next to nothing; more would begin later.
    constexpr double latencies = 8;
    options.graph.bucket = int64_t(latencies * traits.link.latency * traits.link.bandwidth);
    options.graph.narrowApart = !traits.schedule.widensTypes;
    if (options.shards && !hasShards(options.graph.distribution))
      throw CLI::ValidationError("--dim", "shards=" + std::to_string(options.shards) +
                                              " is for --distribute zero1, zero2 or zero3: "
                                              "with data each rank has all");
    checkTarget("--distribute", options.target->traits, hasCollectives,
                "on " + options.target->traits.phrase.str() +
                    " ranks cannot exchange their gradients yet");
  }
  // Groups before what depends on them.
  readGroups();
  readOptimizer();
}

void TrainingOptions::readGroups() {
  // In the order in which they count: --group, --lr-scale, --no-decay, --freeze.
  for (const std::string &text : groups)
    options.groups.push_back(parseGroup(text));
  for (const ParameterGroup &group : options.groups)
    if (group.freeze && has("--lora"))
      throw CLI::ValidationError("--group", "with --lora nothing but the branches is trained, so "
                                            "there is nothing to freeze ('" +
                                                group.pattern + "')");
  if (!lrScale.empty())
    for (auto &[pattern, factor] : parseLrScale(lrScale)) {
      ParameterGroup &group = options.groups.emplace_back();
      group.option = "--lr-scale";
      group.pattern = pattern;
      group.lrFactor = factor;
    }
  if (!noDecay.empty()) {
    ParameterGroup &group = options.groups.emplace_back();
    group.option = "--no-decay";
    // An empty pattern means norms and biases.
    group.pattern = noDecay == "auto" ? "" : noDecay;
    group.decay = 0;
  }
  if (!freeze.empty()) {
    ParameterGroup &group = options.groups.emplace_back();
    group.option = "--freeze";
    group.pattern = freeze;
    group.freeze = true;
  }
  // What is frozen is not trained: legalization has to know.
  for (const ParameterGroup &group : options.groups)
    if (group.freeze)
      options.legalize.freeze.push_back(group.pattern);
}

void TrainingOptions::readOptimizer() {
  GraphOptions &graph = options.graph;
  if (!betas.empty())
    graph.betas = parseNumbers("--betas", betas, 2);
  // Also false for NaN.
  for (double beta : graph.betas)
    if (!(beta >= 0 && beta < 1))
      throw CLI::ValidationError("--betas", "expected numbers in [0, 1)");
  if ((graph.momentum != 0 || graph.nesterov) && graph.optimizer != "sgd")
    throw CLI::ValidationError(
        "--momentum", "is for --optimizer sgd; " +
                          (graph.optimizer.empty() ? "adamw" : graph.optimizer) + " takes --betas");
  // There is nothing to store.
  if (!graph.optimizerState.empty() && graph.optimizer == "sgd" && graph.momentum == 0)
    throw CLI::ValidationError("--optimizer-state", "sgd without --momentum has none");
  if (graph.nesterov && graph.momentum == 0)
    throw CLI::ValidationError("--nesterov", "needs --momentum above 0");
}
