// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The hyper-parameters of a run as the program takes them: its learning rate, and what is of this
// step alone.
#ifndef TRAINRT_SESSION_HYPER_VALUES_H
#define TRAINRT_SESSION_HYPER_VALUES_H

#include "device/device.h"
#include "session/options.h"

namespace trainrt {

class HyperValues {
public:
  HyperValues() = default;
  explicit HyperValues(const Program &program);

  /// Those of a step: what the caller gives, else what the manifest says. InvalidArgument names one
  /// that the package lacks or that has no such value.
  Status setStep(const Manifest &manifest, const StepOptions &options, int64_t step, int64_t seed,
                 double &lr);
  void setMicroBatch(int64_t number, double gradScale);
  const Hypers &all() const { return values; }

private:
  void set(int32_t at, double value);
  void set(int32_t at, int64_t value);

  Hypers values;
  /// Where they are; -1 for those that the program lacks.
  struct {
    int32_t lr, weightDecay, clipNorm, gradScale, step, seed, microBatch, rank;
  } index{};
};

} // namespace trainrt

#endif // TRAINRT_SESSION_HYPER_VALUES_H
