// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparing evaluations.
#include "cli/watch.h"

#include "cli/failure.h"
#include "cli/format.h"

#include <algorithm>
#include <cmath>

namespace trainrt::run {

Watch::Watch(const Options &options)
    : metric(options.metric), patience(options.patience), keepBest(options.keepBest) {
  now.metric = metric;
}

/// Takes up what the earlier run had found, if it compared the same. Values of two metrics cannot
/// be compared.
void Watch::resume(const WatchState &state, int64_t step, Reporter &reporter) {
  if (!patience && !keepBest)
    return;
  if (state.metric != metric) {
    reporter.warning("--metric was " + state.metric + " and is " + metric +
                     ": what is best is found anew");
    return;
  }
  now = state;
  // Of a run that was cut off later: they come again.
  std::erase_if(now.kept, [&](const WatchState::Kept &kept) { return kept.step > step; });
}

/// nullopt where nothing is watched: the checkpoint then has none.
std::optional<WatchState> Watch::state() const {
  return patience || keepBest ? std::optional(now) : std::nullopt;
}

/// nullopt where the evaluation does not tell the metric.
std::optional<double> Watch::valueOf(const EvalRecord &record) const {
  if (metric == "accuracy")
    return record.accuracy;
  if (metric == "perplexity" && !record.isCrossEntropy)
    return std::nullopt;
  return record.loss; // which its exponential follows
}

/// Returns where nothing compares evaluations, whatever they tell.
void Watch::require(const EvalRecord &record, const std::string &why) const {
  if ((patience || keepBest) && !valueOf(record))
    throw Failure(exitInput,
                  "--metric " + metric + ": the evaluation does not tell it: " +
                      (metric == "accuracy" ? why
                                            : "the loss is not known to be a cross-entropy of "
                                              "labels; --metric loss works"));
}

/// Each step counts once, also where a run that goes on evaluates again. A value that is not finite
/// is no better than any.
void Watch::count(const EvalRecord &record) {
  if (record.step <= now.counted)
    return;
  now.counted = record.step;
  const std::optional<double> value = valueOf(record);
  if (value && std::isfinite(*value) && (!now.best || isBetter(*value, *now.best))) {
    now.best = value;
    now.bestStep = record.step;
    now.worse = 0;
  } else {
    ++now.worse;
  }
}

/// Perplexity is compared by the loss, so that is what is shown.
std::string Watch::whyExhausted() const {
  return "stopped after step " + grouped(now.counted) + ": " + grouped(now.worse) +
         (now.worse == 1 ? " evaluation" : " evaluations") + " without a better " +
         (metric == "perplexity" ? "loss" : metric) +
         (now.best ? " than " + fixed(*now.best, 6) + " after step " + grouped(now.bestStep) : "") +
         " (--patience)";
}

/// Never before the first step: there is nothing of the run to keep.
bool Watch::belongsToBest(const EvalRecord &record) const {
  const std::optional<double> value = keepBest ? valueOf(record) : std::nullopt;
  if (!value || !std::isfinite(*value) || record.step == 0)
    return false;
  if (keeps(record.step))
    return false;
  return int64_t(now.kept.size()) < *keepBest || isBetter(*value, now.kept.back().value);
}

/// `belongsToBest` has said so, so there is a value. The best comes first; of equal ones the
/// earlier stays before the later.
void Watch::keep(const EvalRecord &record) {
  const double value = *valueOf(record);
  const auto at = std::find_if(now.kept.begin(), now.kept.end(), [&](const WatchState::Kept &kept) {
    return isBetter(value, kept.value);
  });
  now.kept.insert(at, {record.step, value});
  if (int64_t(now.kept.size()) > *keepBest)
    now.kept.pop_back();
}

bool Watch::keeps(int64_t step) const {
  return std::any_of(now.kept.begin(), now.kept.end(),
                     [&](const WatchState::Kept &kept) { return kept.step == step; });
}

} // namespace trainrt::run
