// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plans that a session tunes for.

#include "session/session.h"

#include <algorithm>

namespace trainrt {

Status Session::tune(const std::vector<Batch> &batches, double seconds, TuningResult &result) {
  if (batches.empty())
    return fail(Code::InvalidArgument, "tuning needs at least one batch");
  settle();
  const bool fused = batches.size() == 1 && source->step();
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches; compile it again");
  const Function &first = inference ? source->program().functions.front()
                          : fused   ? *source->step()
                                    : *source->micro();
  TRAINRT_TRY(prepareAll(first, batches, {}));
  std::vector<const ExecutionPlan *> found;
  auto add = [&](const Function &function, const std::vector<int64_t> &symbols) {
    const ExecutionPlan *plan = nullptr;
    TRAINRT_TRY(prepare(function, symbols, plan));
    if (std::find(found.begin(), found.end(), plan) != found.end())
      return Status();
    // Another one would take the place of the first.
    if (found.size() + 1 == plans.mostPlans())
      return fail(Code::Unsupported, "micro-batches of more than ", plans.mostPlans() - 2,
                  " different shapes cannot be tuned at once; give fewer");
    found.push_back(plan);
    return Status();
  };
  for (size_t i = 0; i < bound.size(); ++i)
    TRAINRT_TRY(add(*selected[i], bound[i].symbols));
  if (!fused)
    TRAINRT_TRY(add(*source->update(), noSymbols));
  outputs.clear();
  return device->tune(found, seconds, result);
}

} // namespace trainrt
