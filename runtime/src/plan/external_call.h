// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plug-in's function in C is called with, on either device.
#ifndef TRAINRT_PLAN_EXTERNAL_CALL_H
#define TRAINRT_PLAN_EXTERNAL_CALL_H

#include "plan/execution_plan.h"
#include "plan/externals.h"
#include "trainrt/plugin.h"

#include <functional>

namespace trainrt {

/// The tensors and attributes of a step; refers to it.
class ExternalArguments {
public:
  explicit ExternalArguments(const ExternalView &step);

  /// Calls `function` with all tensors where `address` says. `rest` has what else a device gives.
  /// BadData where it returns an error; who calls it says which one. `what`, the function and its
  /// node, is for a crash in it.
  Status call(ExternalCall function, const std::function<void *(const Place &)> &address,
              trainrt_external_call rest, const char *what);

private:
  const ExternalView step;
  std::vector<trainrt_external_tensor> inputs, outputs;
  std::vector<trainrt_external_attribute> attributes;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_EXTERNAL_CALL_H
