// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a schedule is made for, whose memory is to be known.
#ifndef TRAINC_SCHEDULE_MEMORY_TRIALOPTIONS_H
#define TRAINC_SCHEDULE_MEMORY_TRIALOPTIONS_H

#include "trainc/Pipelines/Pipelines.h"

namespace trainc {

struct TrialOptions {
  const Target *target = &getHostTarget();
  Precision precision = Precision::Graph;
  ScheduleOptions schedule;
  OffloadOptions offload;
  /// Micro-batches a step of a rank, of which there are `world`; `shards` of these share a replica
  /// of what is in shards, 0: all.
  int64_t accumulate = 1, world = 1, shards = 0;
  /// Share of the elements that counts count.
  double density = 1;
  bool embedWeights = false;
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_MEMORY_TRIALOPTIONS_H
