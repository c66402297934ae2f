// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a step of several ranks takes by the model of the target, and how much of it is
// exchange.
#ifndef TRAINC_REPORT_STEPTIME_H
#define TRAINC_REPORT_STEPTIME_H

#include "trainc/Report/MemoryReport.h"

namespace trainc {

/// One exchange of a step, in all its runs.
struct ExchangeTime {
  /// Where it stands, and what it is: "all_gather".
  std::string function, kind;
  /// Parameters, or nodes where what is exchanged has no name.
  std::vector<std::string> tensors;
  double seconds, sent;
  double waited; ///< seconds that commands wait for it: not hidden behind computation
};

struct StepTime {
  /// Seconds of what a rank computes, and of what ranks exchange.
  double computing = 0, exchanging = 0;
  /// Seconds of the exchange that computation hides.
  double hidden = 0;
  /// Bytes that a rank sends to others.
  double sent = 0;
  /// In the order of the step.
  std::vector<ExchangeTime> exchanges;
  /// Seconds of the same micro-batches by one rank that is alone.
  double alone = 0;

  double seconds() const { return computing + exchanging - hidden; }
  /// What W ranks do in a time, as a share of W times what one does.
  double efficiency() const { return seconds() > 0 ? alone / seconds() : 1; }
  /// Those that commands wait for, the longest wait first.
  std::vector<ExchangeTime> waitedFor() const;
};

/// Nothing where a size is missing, or the package is for one rank.
std::optional<StepTime> estimateStepTime(const MemoryReport &report);

/// What W ranks do in a time, as a multiple of what one does, each with as much as that one.
struct WeakScaling {
  int64_t world;
  double ratio;
};
/// Of powers of two, and the report's own number. Empty where there is no time.
std::vector<WeakScaling> predictScaling(const MemoryReport &report);
/// "2 ranks: 1.93x, 4 ranks: 3.71x"
std::string describeScaling(llvm::ArrayRef<WeakScaling> scaling);

/// The sentence about what the numbers come from.
std::string describeModel(const MemoryReport &report);
/// "all_gather in micro of w0, w1 and 3 more, 2.0 MiB"
std::string describeExchange(const ExchangeTime &exchange);

} // namespace trainc

#endif // TRAINC_REPORT_STEPTIME_H
