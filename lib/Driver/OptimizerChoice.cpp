// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fills the optimizer's options.

#include "lib/Driver/OptimizerChoice.h"

#include "dialects/Train/Optimizer.h"
#include <cmath>

using namespace mlir;
using namespace trainc;

void trainc::chooseOptimizer(CompileOptions &options, const ArtifactOptimizer &artifacts) {
  GraphOptions &graph = options.graph;
  // An optimizer's model counts only if the command line names none.
  if (graph.optimizer.empty() && !artifacts.name.empty()) {
    graph.optimizer = artifacts.name;
    graph.biasCorrection = artifacts.biasCorrection;
    if (graph.betas.empty())
      graph.betas = {artifacts.beta1, artifacts.beta2};
    // Negative and NaN mean "not given".
    if (graph.epsilon < 0)
      graph.epsilon = artifacts.epsilon;
    if (std::isnan(options.weightDecay))
      options.weightDecay = artifacts.weightDecay;
    if (std::isnan(options.lr))
      options.lr = artifacts.learningRate;
    if (options.clipNorm == 0)
      options.clipNorm = artifacts.clipNorm;
  }
  if (graph.optimizer.empty())
    graph.optimizer = "adamw";
  assert(train::findOptimizer(graph.optimizer) && "checked when options were read");
  const train::OptimizerSpec &spec = *train::findOptimizer(graph.optimizer);
  if (graph.betas.empty())
    graph.betas = {0.9, 0.999};
  if (graph.epsilon < 0)
    graph.epsilon = spec.defaultEpsilon;
  if (std::isnan(options.weightDecay))
    options.weightDecay = spec.defaultWeightDecay;
  if (std::isnan(options.lr))
    options.lr = spec.defaultLr;
  // From here on everything has a value.
  graph.clip = options.clipNorm > 0;
}

LogicalResult trainc::checkOptimizer(onnx::GraphOp graph, const CompileOptions &options) {
  auto updates = [&](unsigned i) { return graph.getResultAttr(i, onnx::kUpdatesAttr) != nullptr; };
  // Without updates in the graph there is nothing to object to.
  if (llvm::none_of(llvm::seq(graph.getNumResults()), updates) ||
      (std::isnan(options.lr) && std::isnan(options.weightDecay) && options.clipNorm == 0 &&
       !options.graph.gradNorm && options.graph.betas.empty() && options.graph.epsilon < 0 &&
       options.accumulate == 1 && options.groups.empty() && options.layerDecay == 1 &&
       options.legalize.trainable.empty() && options.graph.optimizerState.empty()))
    return success();
  return emitError(graph.getLoc(),
                   "the model's own training algorithm (training_info) decides on the learning "
                   "rate, decay, clipping, state, and what is trained; name an --optimizer to "
                   "train the model without it");
}

llvm::json::Object trainc::describeOptimizer(const CompileOptions &options, int64_t steps) {
  const GraphOptions &graph = options.graph;
  assert(options.graph.betas.size() == 2 && "chooseOptimizer has filled them");
  // Both betas, also for optimizers that read only one of them.
  llvm::json::Object optimizer{
      {"name", graph.optimizer},
      {"lr", options.lr},
      {"betas", llvm::json::Array{graph.betas[0], graph.betas[1]}},
      {"eps", graph.epsilon},
      {"weight_decay", options.weightDecay},
      {"clip_norm", graph.clip ? llvm::json::Value(options.clipNorm) : llvm::json::Value(nullptr)},
      {"momentum", graph.momentum},
      {"nesterov", graph.nesterov},
      {"steps", steps},
      {"accumulate", options.accumulate}};
  llvm::json::Array groups;
  for (const ParameterGroup &group : options.groups) {
    llvm::json::Object entry{{"option", group.option},
                             {"match", llvm::json::fixUTF8(group.pattern)}};
    // Only what a group says.
    for (auto [key, value] : {std::pair("lr_factor", group.lrFactor),
                              {"lr", group.lr},
                              {"weight_decay_factor", group.decayFactor},
                              {"weight_decay", group.decay}})
      if (value)
        entry[key] = *value;
    if (group.freeze)
      entry["freeze"] = true;
    groups.push_back(std::move(entry));
  }
  if (!groups.empty())
    optimizer["groups"] = std::move(groups);
  if (options.layerDecay != 1)
    optimizer["layer_decay"] = options.layerDecay;
  if (graph.distribution != Distribution::None)
    optimizer["distribute"] = nameOf(graph.distribution);
  return optimizer;
}
