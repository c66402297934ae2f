// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other options ask the target whether it has what they are for: it is read first.

#include "lib/Driver/Options/TargetOptions.h"

#include "lib/Driver/Options/OptionValues.h"

using namespace trainc;

/// What the messages name targets for.
static bool lowersAll(const TargetTraits &target) { return target.precisions.size() > 1; }
static bool hasVariants(const TargetTraits &target) { return target.kernelVariants; }

TargetOptions::TargetOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Target");
  add("--target", target, "TARGET", describeTargets());
  add("--precision", precision, "TYPE",
      "fp32|tf32|bf16|fp16|pure-bf16 (default: the graph's own types); all but fp32 and bf16: " +
          namesOfTargets(lowersAll))
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "pure-bf16"}));
  add("--cuda-path", options.toolkit, "DIR", "the CUDA toolkit (default: looked for)");
  add("--cache", options.cache, "DIR",
      "keep compiled kernels in this folder, 2 GiB at most, and take them from there "
      "(default: TRAINC_CACHE, else none)")
      ->envname("TRAINC_CACHE");
  app.add_flag("--tune-variants", options.variants,
               namesOfTargets(hasVariants) +
                   ": kernels in a few ways each, for `trainc-run --tune` to choose from; takes "
                   "several times as long");
}

void TargetOptions::read() {
  TargetChoice choice;
  // Unknown targets are told with those that there are.
  if (std::string problem = parseTarget(target, choice); !problem.empty())
    throw CLI::ValidationError("--target", problem);
  // From here on others may ask it.
  setTarget(options, choice);
  const TargetTraits &traits = choice.target->traits;
  if (options.variants)
    checkTarget("--tune-variants", traits, hasVariants,
                traits.phrase.str() + "'s kernels have no variants");
  setPrecision(options, parsePrecision(precision, traits));
}
