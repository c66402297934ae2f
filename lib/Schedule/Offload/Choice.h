// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which buffers of a schedule are moved to the host.
#ifndef TRAINC_SCHEDULE_OFFLOAD_CHOICE_H
#define TRAINC_SCHEDULE_OFFLOAD_CHOICE_H

#include "lib/Schedule/Offload/TransferSchedule.h"
#include "trainc/Support/Obstacle.h"

namespace trainc {

struct OffloadLimits {
  int64_t hostBytes = -1; ///< -1: none
  int64_t minimum = 0;    ///< bytes of the smallest buffer
};

struct OffloadChoice {
  std::vector<PausedBuffer> paused; ///< what `transfers` points into
  std::vector<Transfer> transfers;
  /// Bytes in use at most, before and with them.
  int64_t plainPeak = 0, peak = 0;
  /// Buffers that lie around at the peak and stay, with the reason.
  std::vector<std::pair<uint32_t, Obstacle>> kept;
};

/// `bytes`: of the buffers.
OffloadChoice chooseTransfers(const FunctionLifetimes &lifetimes, llvm::ArrayRef<int64_t> bytes,
                              const TransferSchedule &schedule, const OffloadLimits &limits);

/// "1.25 MiB" and "0.21 ms", for remarks.
std::string describeMoved(int64_t bytes);
std::string describeTime(double seconds);

} // namespace trainc

#endif // TRAINC_SCHEDULE_OFFLOAD_CHOICE_H
