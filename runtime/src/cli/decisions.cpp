// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A saved decision is an argument that is added to the command line.
#include "cli/decisions.h"

#include "cli/failure.h"
#include "cli/format.h"

#include <cmath>

namespace trainrt::run {

/// Tokens need to be counted, which the package says by the name of what the loss is divided by.
const char *defaultWeighting(const trainrt_package_info &package) {
  return package.loss_weight ? "tokens" : "mean";
}

/// All that decides on the steps of a run and that the command line can say, with defaults filled
/// in: a later version, or a package compiled anew, may have others. Flags have an empty value.
Decisions decisionsOf(const Options &options, const Package &package, const Dataset &data,
                      const LrSchedule &schedule) {
  Decisions result;
  auto flag = [&](const char *name, bool set) {
    if (set)
      result[name] = "";
  };
  auto number = [&](const char *name, const std::optional<int64_t> &value) {
    if (value)
      result[name] = std::to_string(*value);
  };
  auto list = [&](const char *name, const std::vector<std::string> &names) {
    if (!names.empty())
      result[name] = join(names, ",");
  };
  auto hyper = [&](const char *name, const std::optional<double> &value, double ofPackage) {
    if (!std::isnan(ofPackage))
      result[name] = shortest(value.value_or(ofPackage));
  };
  // A static batch is the package's, and with --tokens-per-batch alone sizes follow from that.
  if (!data.staticBatch() && (options.batchSize || !options.tokensPerBatch))
    number("--batch-size", data.batchSize());
  number("--accumulate", options.accumulate);
  if (options.accumulate > 1)
    result["--accumulate-by"] =
        options.accumulateBy.empty() ? defaultWeighting(package.info) : options.accumulateBy;
  if (options.steps)
    number("--steps", options.steps);
  else
    number("--epochs", options.epochs.value_or(1));
  flag("--shuffle", options.shuffle);
  number("--group-by-length", options.groupByLength);
  number("--tokens-per-batch", options.tokensPerBatch);
  number("--trim", options.trim);
  if ((options.groupByLength || options.tokensPerBatch) && options.together() > 1)
    number("--balance", options.together());
  if (!options.complexity.empty())
    result["--complexity"] = options.complexity;
  // A share of the data; ranks of one run have world 1 here (applyPlace).
  if (options.world > 1) {
    number("--world", options.world);
    number("--rank", options.rank);
  }
  if (options.dropTail)
    result["--tail"] = *options.dropTail ? "drop" : "repeat";
  if (options.data.ends_with(".bin")) {
    number("--window", options.window);
    list("--bin-inputs", options.binInputs);
    flag("--bin-shift", options.binShift);
  }
  list("--cut", options.cut);
  list("--whole", options.whole);
  hyper("--lr", options.lr, package.info.lr);
  hyper("--weight-decay", options.weightDecay, package.info.weight_decay);
  hyper("--clip-norm", options.clipNorm, package.info.clip_norm);
  if (schedule.kind != LrSchedule::Kind::constant || schedule.warmup)
    result["--lr-schedule"] = schedule.option();
  if (!options.variants || options.given.count("--variant"))
    result["--variant"] = options.variants ? "auto" : "base";
  flag("--allow-nonfinite", options.allowNonfinite);
  number("--keep-best", options.keepBest);
  number("--patience", options.patience);
  if (options.keepBest || options.patience) {
    result["--metric"] = options.metric;
    number("--eval-every", options.evalEvery);
  }
  return result;
}

/// What compares evaluations goes on where there are evaluations, and checkpoints to keep.
/// A run may go on without held-out data; then nothing of this decides any more.
static void dropUnneeded(Decisions &saved, const Options &options) {
  if (options.eval.empty() || options.save.empty())
    saved.erase("--keep-best");
  if (options.eval.empty())
    saved.erase("--patience");
  if (saved.count("--keep-best") || saved.count("--patience") || options.keepBest ||
      options.patience)
    return;
  saved.erase("--metric");
  saved.erase("--eval-every");
}

/// What is given now comes before what is saved, and what is saved before the package. All of it is
/// parsed once more, so conflicts between old and new options are found as usual.
Options continued(const Options &options, const Package &package, Decisions saved) {
  dropUnneeded(saved, options);
  const Decisions ofPackage{{"--lr", shortest(package.info.lr)},
                            {"--weight-decay", shortest(package.info.weight_decay)},
                            {"--clip-norm", shortest(package.info.clip_norm)}};
  // Name and value become one argument, so that a value with a minus is no option.
  std::vector<std::string> arguments = options.arguments;
  // Before 1.4 there was nothing else.
  const auto micro = saved.find("--accumulate");
  if (micro != saved.end() && micro->second != "1" && !saved.count("--accumulate-by") &&
      !options.given.count("--accumulate-by"))
    arguments.push_back("--accumulate-by=mean");
  // --steps and --epochs exclude each other: one that is given now replaces
  // the other.
  const bool givesLength = options.given.count("--steps") || options.given.count("--epochs") ||
                           !options.dumpGradients.empty();
  for (const auto &[name, value] : saved)
    if (const auto same = ofPackage.find(name);
        !options.given.count(name) && (same == ofPackage.end() || same->second != value) &&
        !(givesLength && (name == "--steps" || name == "--epochs")))
      arguments.push_back(value.empty() ? name : name + "=" + value);
  ParsedOptions parsed = parseOptions(arguments);
  if (!parsed.options)
    throw Failure(exitInput, options.resume +
                                 ": the options that the run began with and those given now do "
                                 "not go together: " +
                                 parsed.text);
  // What was saved has not been given now: only a person's own words count as that.
  parsed.options->arguments = options.arguments;
  parsed.options->given = options.given;
  return std::move(*parsed.options);
}

/// In the order of names. A run may be made longer or shorter: that is no difference.
std::vector<std::string> differences(const Decisions &before, const Decisions &now) {
  std::vector<std::string> result;
  Decisions all = before;
  all.insert(now.begin(), now.end());
  for (const auto &[name, ignored] : all) {
    const auto old = before.find(name), fresh = now.find(name);
    auto text = [](auto at, const Decisions &of) {
      return at == of.end() ? "not given" : at->second.empty() ? "on" : at->second;
    };
    const std::string was = text(old, before), is = text(fresh, now);
    if (was != is && name != "--steps" && name != "--epochs")
      result.push_back(name + " was " + was + " and is " + is);
  }
  return result;
}

} // namespace trainrt::run
