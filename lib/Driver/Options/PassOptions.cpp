// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// At -O0 only what was asked for runs.

#include "lib/Driver/Options/PassOptions.h"
#include "lib/Driver/Options/OptionValues.h"

using namespace trainc;

PassOptions::PassOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Passes");
  add("-O", level, "N",
      "-O0: the exact baseline, no pass that changes what is computed but "
      "those asked for")
      ->check(CLI::IsMember({"0", "1"}));
  addSwitch("hoist-slices", hoistSlices, "compute only what a later selection keeps (default)");
  addSwitch("move-transposes", moveTransposes,
            "compute what is between convolutions with the channels last, as these are "
            "(default where they are calls of a library)");
  addSwitch("exploit-label-sparsity", labelSparsity,
            "compute only the rows of the loss that have a label (default)");
  addSwitch("eliminate-padding", eliminatePadding,
            "compute tokens only, in batches where padding has no influence (default)");
  addSwitch("chunk-loss", chunkLoss,
            "compute the loss of a large vocabulary, with its gradient, for some rows at a time, "
            "where the projection to it is not trained (default)");
  addSwitch("merge-projections", mergeProjections,
            "compute queries, keys and values of one input by one matmul where rows are few "
            "(default)");
  addSwitch(
      "keep-rounded-weights", keepRoundedWeights,
      "with 16-bit precision, keep weights in 16 bits beside the parameters, rounded by their "
      "update (default on a GPU, unless --recompute, --memory-budget or --offload save memory)");
  addSwitch("schedule-updates", scheduleUpdates,
            "update a parameter as soon as its gradient is there, and free that (default)");
  addSwitch(
      "library-convolutions", libraryConvolutions,
      "convolutions are calls of a library (cuDNN, the runtime's own on a CPU) where it is better "
      "than matmuls (default)");
  add("--token-bucket", options.graph.tokenBucket, "N",
      "numbers of tokens and labelled rows are rounded up to multiples of this (default 8)")
      ->check(CLI::PositiveNumber);
}

void PassOptions::read() {
  // A switch that was given counts, whatever the level is.
  const bool optimise = level != "0";
  options.graph.hoistSlices = hoistSlices.value(optimise);
  options.graph.eliminatePadding = eliminatePadding.value(optimise);
  options.graph.labelSparsity = labelSparsity.value(optimise);
  // Scaled losses of f16 need all of their gradients.
  options.graph.chunkLoss = chunkLoss.value(optimise) && options.graph.precision != Precision::FP16;
  options.graph.mergeProjections = mergeProjections.value(optimise);
  // Who saves memory can have what is rounded made again. Where products alone are of 16 bits, on a
  // CPU, updates take longer by more than is saved.
  options.graph.keepRoundedWeights = keepRoundedWeights.value(
      optimise && options.recompute.empty() && options.memoryBudget.empty() &&
      !options.offload.enabled && !options.graph.lowersProductsOnly);
  options.schedule.scheduleUpdates = scheduleUpdates.value(true);
  options.graph.callsConvolutions = libraryConvolutions.value(true);
  options.graph.moveTransposes = moveTransposes.value(optimise && options.graph.callsConvolutions);
  options.schedule.fuseEpilogues = optimise;
}
