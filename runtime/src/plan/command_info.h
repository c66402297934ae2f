// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands of a plan in the words of people: what they are called, how much they must move, and
// which values they write.
#ifndef TRAINRT_PLAN_COMMAND_INFO_H
#define TRAINRT_PLAN_COMMAND_INFO_H

#include "plan/execution_plan.h"

#include <string>
#include <vector>

namespace trainrt {

/// The kernel's name, or "gemm bf16 8x512x1024x512" (batch, m, n, k), "attention", "copy", "fill".
std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index);

/// "exchange of the gradient of parameter 'a', ... and 3 others: ", for the beginning of
/// errors.
std::string exchangeText(const Program &program, const Function &function, const Command &command);

/// Bytes that a step of the plan must move at least: those of what it reads and writes, each once.
int64_t commandBytes(const ExecutionPlan &plan, size_t index);

/// Floating-point operations of matmuls, attention and convolutions; of anything else 0.
int64_t commandFlops(const ExecutionPlan &plan, size_t index);

/// What its time is summed up by.
CommandClass commandClass(const ExecutionPlan &plan, size_t index);

/// What it computes, in numbers: of matmuls and attention; and in which type ("" of the others).
CommandShape commandShape(const ExecutionPlan &plan, size_t index, const char *&type);

/// Of the bytes, those that such a rank sends to others; 0 for what a rank does alone.
int64_t commandSent(const ExecutionPlan &plan, size_t index, const RunPlace &place);

/// The floating-point values that a step of the plan writes completely or for the last time: a
/// kernel of several launches counts with the last one.
void commandResults(const Program &program, const ExecutionPlan &plan, size_t index,
                    std::vector<Region> &results);

} // namespace trainrt

#endif // TRAINRT_PLAN_COMMAND_INFO_H
