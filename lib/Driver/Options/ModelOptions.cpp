// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names are the model's: whether it has them is found out by legalization.

#include "lib/Driver/Options/ModelOptions.h"

#include "dialects/Train/Collectives/Shards.h"
#include "lib/Driver/Options/OptionValues.h"

using namespace trainc;

ModelOptions::ModelOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Sizes and forms of the model");
  add("--dim", dims, "NAME=N", "a size, or NAME=MIN..MAX; of several for a NAME the last counts")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--dropout", dropout, "WHEN", "on|off (default: as the graph says)")
      ->check(CLI::IsMember({"on", "off"}));
  add("--batchnorm", batchNorm, "HOW",
      "train|frozen: statistics of the batch, or the running ones, fixed")
      ->check(CLI::IsMember({"train", "frozen"}));
  add("--pad-token", padTokens, "TOKEN",
      "ID, INPUT=ID or INPUT=MASK: the token id that pads, or the input that is 0 there "
      "(default: an input attention_mask)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void ModelOptions::read() {
  for (const std::string &dim : dims) {
    DimBound bound = parseDim(dim);
    // A package for several ranks takes any number of them: it is the report's.
    if (bound.name == train::kWorldSymbol && has("--distribute"))
      options.world = *bound.max;
    else if (bound.name == train::kShardsName && has("--distribute"))
      options.shards = *bound.max;
    else
      options.legalize.dims.push_back(std::move(bound));
  }
  if (options.shards && options.world % options.shards)
    throw CLI::ValidationError("--dim",
                               "shards=" + std::to_string(options.shards) +
                                   " is no divisor of world=" + std::to_string(options.world));
  // The largest sizes are also what schedules are made for.
  for (const DimBound &dim : options.legalize.dims)
    if (dim.max)
      options.schedule.largestSizes.emplace_back(dim.name, *dim.max);
  for (const std::string &token : padTokens)
    options.padTokens.push_back(parsePadToken(token));
  // Absent: as the graph says.
  if (!dropout.empty())
    options.legalize.dropout = dropout == "on" ? DropoutMode::On : DropoutMode::Off;
  if (!batchNorm.empty())
    options.legalize.batchNorm =
        batchNorm == "train" ? BatchNormMode::Train : BatchNormMode::Frozen;
}
