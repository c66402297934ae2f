// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fills the optimizer's options.

#include "lib/Driver/OptimizerChoice.h"

#include "dialects/Train/Optimizer.h"
#include <cmath>

using namespace trainc;

void trainc::chooseOptimizer(CompileOptions &options, const ArtifactOptimizer &artifacts) {
  GraphOptions &graph = options.graph;
  if (graph.optimizer.empty() && !artifacts.name.empty()) {
    graph.optimizer = artifacts.name;
    graph.biasCorrection = artifacts.biasCorrection;
    if (graph.betas.empty())
      graph.betas = {artifacts.beta1, artifacts.beta2};
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
  const train::OptimizerSpec &spec = *train::findOptimizer(graph.optimizer);
  if (graph.betas.empty())
    graph.betas = {0.9, 0.999};
  if (graph.epsilon < 0)
    graph.epsilon = spec.defaultEpsilon;
  if (std::isnan(options.weightDecay))
    options.weightDecay = spec.defaultWeightDecay;
  if (std::isnan(options.lr))
    options.lr = spec.defaultLr;
  graph.clip = options.clipNorm > 0;
}
