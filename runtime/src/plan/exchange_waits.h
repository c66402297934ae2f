// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which exchanges of ranks, that run beside the commands behind them, a command waits for.
#ifndef TRAINRT_PLAN_EXCHANGE_WAITS_H
#define TRAINRT_PLAN_EXCHANGE_WAITS_H

#include "plan/execution_plan.h"

#include <vector>

namespace trainrt {

/// For each step how many of the plan's collectives, which run in their order, must be done before
/// it begins: those that write what it touches, or read what it writes. A collective waits for no
/// other one. Empty where the plan has none.
std::vector<uint32_t> findExchangeWaits(const ExecutionPlan &plan);

} // namespace trainrt

#endif // TRAINRT_PLAN_EXCHANGE_WAITS_H
