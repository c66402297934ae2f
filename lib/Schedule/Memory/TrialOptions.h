// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a schedule is made for, whose memory is to be known.
#ifndef TRAINC_LIB_SCHEDULE_MEMORY_TRIALOPTIONS_H
#define TRAINC_LIB_SCHEDULE_MEMORY_TRIALOPTIONS_H

#include "lib/Report/Sizes.h"
#include "lib/Schedule/Offload/Offload.h"
#include "trainc/Pipelines.h"

namespace trainc {

struct TrialOptions {
  const Target *target = &getHostTarget();
  Precision precision = Precision::Graph;
  ScheduleOptions schedule;
  OffloadOptions offload;
  /// Micro-batches a step.
  int64_t accumulate = 1;
  /// Share of the elements that counts count.
  double density = 1;
  bool embedWeights = false;
};

/// The pass `offload` for these sizes.
inline OffloadPassOptions offloadPassOptions(mlir::ModuleOp module, const Target &target,
                                             const OffloadOptions &options, const Sizes &sizes) {
  OffloadPassOptions pass;
  pass.target = target.name().str();
  pass.limit = options.limit;
  pass.rate = options.rate;
  for (auto symbol : module.getOps<train::SymbolOp>())
    if (std::optional<int64_t> value = sizes(symbol.getSymName()))
      pass.sizes.push_back((symbol.getSymName() + "=" + llvm::Twine(*value)).str());
  return pass;
}

} // namespace trainc

#endif // TRAINC_LIB_SCHEDULE_MEMORY_TRIALOPTIONS_H
