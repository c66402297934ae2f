// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the command line leaves open, the model or the optimizer's defaults decide later.

#include "lib/Driver/Options/TrainingOptions.h"

#include "dialects/Train/Optimizer.h"
#include "lib/Driver/Options/OptionValues.h"

using namespace trainc;

TrainingOptions::TrainingOptions(CLI::App &app, CompileOptions &options)
    : OptionGroup(app, options) {
  options.graph.optimizer.clear();
  options.lr = options.weightDecay = NAN;
  group("Training");
  app.add_flag("--inference", options.legalize.inference, "no loss: predictions only");
  add("--loss", options.legalize.loss, "NAME",
      "output that is minimised (default: 'loss', else the only scalar float output)");
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
  group("Which parameters (a REGEX is ECMAScript and matches anywhere in a name)");
  add("--trainable", options.legalize.trainable, "REGEX", "parameters to train");
  add("--freeze", options.legalize.freeze, "REGEX", "parameters to leave alone");
  add("--no-decay", options.noDecay, "REGEX", "parameters without weight decay");
  add("--lr-scale", lrScale, "REGEX=F,...", "factors of the learning rate; the first match counts");
}

void TrainingOptions::excludeFromInference() {
  for (const char *name : {"--loss",      "--optimizer",  "--lr",
                           "--betas",     "--eps",        "--weight-decay",
                           "--momentum",  "--nesterov",   "--optimizer-state",
                           "--clip-norm", "--grad-norm",  "--no-decay",
                           "--lr-scale",  "--accumulate", "--trainable",
                           "--freeze",    "--recompute",  "--memory-budget",
                           "--offload",   "--lora"})
    app.get_option("--inference")->excludes(app.get_option(name));
}

void TrainingOptions::read() {
  options.graph.inference = options.legalize.inference;
  for (auto &[name, pattern] :
       {std::pair<std::string, std::string>("--trainable", options.legalize.trainable),
        {"--freeze", options.legalize.freeze},
        {"--no-decay", options.noDecay}})
    checkRegex(name, pattern);
  if (!lrScale.empty())
    options.lrScale = parseLrScale(lrScale);
  readOptimizer();
}

void TrainingOptions::readOptimizer() {
  GraphOptions &graph = options.graph;
  if (!betas.empty())
    graph.betas = parseNumbers("--betas", betas, 2);
  for (double beta : graph.betas)
    if (!(beta >= 0 && beta < 1))
      throw CLI::ValidationError("--betas", "expected numbers in [0, 1)");
  if ((graph.momentum != 0 || graph.nesterov) && graph.optimizer != "sgd")
    throw CLI::ValidationError(
        "--momentum", "is for --optimizer sgd; " +
                          (graph.optimizer.empty() ? "adamw" : graph.optimizer) + " takes --betas");
  if (!graph.optimizerState.empty() && graph.optimizer == "sgd" && graph.momentum == 0)
    throw CLI::ValidationError("--optimizer-state", "sgd without --momentum has none");
  if (graph.nesterov && graph.momentum == 0)
    throw CLI::ValidationError("--nesterov", "needs --momentum above 0");
}
