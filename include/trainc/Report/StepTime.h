// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a step of several ranks takes by the model of the target, and how much of it is
// exchange.
#ifndef TRAINC_REPORT_STEPTIME_H
#define TRAINC_REPORT_STEPTIME_H

#include "trainc/Report/MemoryReport.h"

namespace trainc {

struct StepTime {
  /// Seconds of what a rank computes, and of what ranks exchange.
  double computing = 0, exchanging = 0;
  /// Seconds of the exchange that computation hides.
  double hidden = 0;
  /// Bytes that a rank sends to others, in so many exchanges.
  double sent = 0;
  int64_t exchanges = 0;

  double seconds() const { return computing + exchanging - hidden; }
  /// What W ranks do in a time, as a share of W times what one does.
  double efficiency() const { return seconds() > 0 ? computing / seconds() : 1; }
};

/// Nothing where a size is missing, or the package is for one rank.
std::optional<StepTime> estimateStepTime(const MemoryReport &report);
/// The sentence about what the numbers come from.
std::string describeModel(const MemoryReport &report);

} // namespace trainc

#endif // TRAINC_REPORT_STEPTIME_H
