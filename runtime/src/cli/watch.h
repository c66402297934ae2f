// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What evaluations decide: which checkpoints are the best ones, and whether a run has come to where
// nothing gets better.
#ifndef TRAINRT_CLI_WATCH_H
#define TRAINRT_CLI_WATCH_H

#include "cli/options.h"
#include "cli/reporter.h"

#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

/// What of it a checkpoint keeps, so that a run goes on as it would have.
struct WatchState {
  struct Kept {
    int64_t step;
    double value;
  };
  std::string metric;
  std::optional<double> best; ///< of the evaluations that count for --patience
  int64_t bestStep = 0, worse = 0;
  int64_t counted = -1;   ///< the step of the last one; -1: none
  std::vector<Kept> kept; ///< checkpoints, the best one first
};

class Watch {
public:
  explicit Watch(const Options &options);

  /// Goes on with what a checkpoint kept. `step`: those done by then.
  void resume(const WatchState &state, int64_t step, Reporter &reporter);
  /// Nullopt where there is nothing to keep.
  std::optional<WatchState> state() const;

  /// Throws Failure where the evaluation does not tell the metric; `why` it lacks accuracy.
  void require(const EvalRecord &record, const std::string &why) const;
  /// An evaluation that the run's length asks for, or --eval-every. Once for each step.
  void count(const EvalRecord &record);
  /// Evaluations have been getting no better for long enough.
  bool isExhausted() const { return patience && now.worse >= *patience; }
  std::string whyExhausted() const;

  /// Whether the checkpoint of this evaluation is one of the best so far.
  bool belongsToBest(const EvalRecord &record) const;
  /// It is saved from now on, and no longer the worst of too many.
  void keep(const EvalRecord &record);
  bool keeps(int64_t step) const;

private:
  std::optional<double> valueOf(const EvalRecord &record) const;
  bool isBetter(double value, double than) const {
    return metric == "accuracy" ? value > than : value < than;
  }

  const std::string metric;
  const std::optional<int64_t> patience, keepBest;
  WatchState now;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_WATCH_H
