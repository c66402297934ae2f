// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forms of values are checked while they are parsed, what they are worth by the passes.

#include "lib/Driver/Options/MemoryOptions.h"

#include "lib/Driver/Options/OptionValues.h"
#include "trainc/Schedule/Memory/MemoryBudget.h"
#include "trainc/Schedule/Recompute/Config.h"

using namespace trainc;

/// Whether activations could be somewhere else.
static bool hasMemory(const TargetTraits &target) { return target.memory.isSeparate; }

MemoryOptions::MemoryOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Memory");
  add("--recompute", options.recompute, "WHAT",
      "what the backward pass computes again instead of keeping it: level:1 (all within "
      "layers), level:2, PATTERN:TYPE:COUNT,..., a JSON file of these, or list")
      ->check([](const std::string &text) {
        RecomputeConfig config;
        // A file is read by the pass.
        if (text.empty())
          return std::string("expected level:N, PATTERN:TYPE:COUNT,..., a file or list");
        return text == "list" || !isRecomputeConfig(text) ? "" : parseRecomputeConfig(text, config);
      });
  add("--memory-budget", options.memoryBudget, "SIZE",
      "choose what is rematerialized so that a step fits: SIZE (40GB) of all memory, a fraction "
      "(0.5) of activations and temporaries, or fit[:SIZE] to find the batch")
      // Two ways to the same end.
      ->excludes("--recompute")
      ->check([](const std::string &text) {
        MemoryBudget budget;
        return parseMemoryBudget(text, budget);
      });
  CLI::Option *offload =
      app.add_flag("--offload{all}", offloadLimit,
                   "move activations to pinned memory of the host, at most SIZE "
                   "(8GB), while nothing needs them and where copying hides behind other "
                   "work (" +
                       namesOfTargets(hasMemory) + ")")
          ->type_name("[=SIZE]");
  add("--offload-rate", options.offload.rate, "F",
      "GB/s that the link to the host carries each way (default 50: PCIe 5 x16)")
      ->needs(offload)
      ->check(number(/*zero=*/false));
  app.add_flag("--report{text}", options.report,
               "print how much memory a step will need, by category and over time; "
               "and write it to FILE: .json for programs, .html as a page, else text")
      ->type_name("[=FILE]");
  add("--link-rate", linkRate, "RATE",
      "--report with --dim world=N: what a rank sends to others in a second, while it gets as "
      "much: "
      "10Gbit, 300MB, 235GB, or a number of GB (default: the target's, which the report says)")
      ->needs("--report")
      ->check([](const std::string &text) {
        return parseLinkRate(text) ? ""
                                   : "expected a rate above 0 such as 10Gbit, 300MB or 235GB (of a "
                                     "second), got '" +
                                         text + "'";
      });
  add("--link-latency", linkLatency, "F",
      "--report with --dim world=N: microseconds until an exchange between ranks begins (default: "
      "the target's)")
      ->needs("--report")
      ->check(number(/*zero=*/true));
  add("--density", options.density, "F",
      "share of tokens that are not padding, and of rows that have a label, for which --report, "
      "--memory-budget and --offload have their numbers (default 1: all)")
      ->check(number(/*zero=*/false))
      // Both ends: above 0, at most 1.
      ->check(CLI::Range(0., 1.));
}

void MemoryOptions::check() const {
  if (has("--report") && !options.stopAfter.empty() && options.stopAfter != "codegen")
    throw CLI::ValidationError("--report", "there is no schedule yet after " + options.stopAfter);
}

void MemoryOptions::read() {
  if (has("--link-rate"))
    options.linkBandwidth = parseLinkRate(linkRate);
  if (has("--link-latency"))
    options.linkLatency = linkLatency * 1e-6;
  options.offload.enabled = has("--offload");
  // Other options of it need it.
  if (!options.offload.enabled)
    return;
  assert(options.target && "the target is read first");
  const TargetTraits &traits = options.target->traits;
  checkTarget("--offload", traits, hasMemory,
              "on " + traits.phrase.str() +
                  " activations are in the host's memory already; --recompute and "
                  "--memory-budget need less of it");
  // Bytes, in powers of ten or two.
  if (offloadLimit != "all") {
    std::optional<int64_t> bytes = parseByteSize(offloadLimit);
    if (!bytes)
      throw CLI::ValidationError("--offload", "expected a size such as 8GB or 512MiB, got '" +
                                                  offloadLimit + "'");
    options.offload.limit = *bytes;
  }
}
