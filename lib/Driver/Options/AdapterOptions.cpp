// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// With adapters nothing else is trained.

#include "lib/Driver/Options/AdapterOptions.h"

#include "lib/Driver/Options/AdapterValues.h"

using namespace trainc;

AdapterOptions::AdapterOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Low-rank adapters and quantized weights");
  CLI::Option *loraOption =
      add("--lora", lora, "SETTING,...",
          "train low-rank branches beside the weights that match, and nothing else: r=N, alpha=F, "
          "dropout=F, targets=REGEX|all-linear, rslora, dora, save=REGEX, bias=none|all|lora_only, "
          "r[REGEX]=N, alpha[REGEX]=F; or those that the model has: existing, with rslora, "
          "save=REGEX, bias=KIND");
  CLI::Option *fuseLoraOption =
      add("--fuse-lora", fuseLora, "KIND,...",
          "kinds of projections whose low-rank branches share matmuls with each "
          "other and with the base (default mlp,qkv,o)")
          // Only with branches there is anything to fuse.
          ->needs(loraOption);
  app.add_flag("--no-fuse-lora", noFuseLora, "every low-rank branch has matmuls of its own")
      ->needs(loraOption)
      ->excludes(fuseLoraOption);
  add("--quantize", quantize, "FORMAT",
      "nf4|fp4|int8[:double][:block=N][:absmax=f32|bf16|f16][:skip=REGEX]: store weights that "
      "are not trained in 4 or 8 bits");
}

void AdapterOptions::check() const {
  for (const char *name : {"--trainable", "--freeze"})
    if (has("--lora") && has(name))
      throw CLI::ValidationError(name, "with --lora the branches are trained, and nothing else; "
                                       "its setting save=REGEX names parameters to train in full");
}

void AdapterOptions::read() {
  auto read = [](const char *name, const std::string &problem) {
    if (!problem.empty())
      throw CLI::ValidationError(name, problem);
  };
  if (has("--lora"))
    read("--lora", parseLoraOptions(lora, options.graph.lora.emplace()));
  // An empty list, and the default otherwise.
  if (noFuseLora)
    options.graph.lora->fuse.clear();
  if (has("--fuse-lora"))
    read("--fuse-lora", parseFusedKinds(fuseLora, options.graph.lora->fuse));
  if (has("--quantize"))
    read("--quantize", parseQuantizeOptions(quantize, options.graph.quantize.emplace()));
}
