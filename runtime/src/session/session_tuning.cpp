// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plans that a session tunes for.

#include "session/session.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

Status Session::tune(const std::vector<Batch> &batches, double seconds, TuningResult &result) {
  if (batches.empty())
    return fail(Code::InvalidArgument, "tuning needs at least one batch");
  settle();
  // As a step chooses its functions.
  const bool fused = batches.size() == 1 && source->step();
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches; compile it again");
  // Any function will do for an evaluation package: preparing says what is wrong.
  const Function &first = inference ? source->program().functions.front()
                          : fused   ? *source->step()
                                    : *source->micro();
  TRAINRT_TRY(prepareAll(first, batches, {}));
  // Each plan once, however many micro-batches have it.
  std::vector<const ExecutionPlan *> found;
  auto add = [&](const Function &function, const std::vector<int64_t> &symbols) {
    const ExecutionPlan *plan = nullptr;
    TRAINRT_TRY(prepare(function, symbols, plan));
    if (std::find(found.begin(), found.end(), plan) != found.end())
      return Status();
    assert(plans.mostPlans() > 2 && "room for a plan, the update and one more");
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
  // What the runs leave is of no step.
  outputs.clear();
  return device->tune(found, seconds, result);
}

} // namespace trainrt
