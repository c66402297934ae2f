// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A command of a program. Each kind has a header here, its reading, checks and words beside it, and
// on each device one function that runs it (device/cpu/commands, device/cuda/commands); the list of
// kinds is `CommandOp`, and the union of program.fbs.
#ifndef TRAINRT_FORMAT_COMMANDS_COMMAND_H
#define TRAINRT_FORMAT_COMMANDS_COMMAND_H

#include "format/commands/attention.h"
#include "format/commands/collective.h"
#include "format/commands/convolution.h"
#include "format/commands/copy.h"
#include "format/commands/external.h"
#include "format/commands/gemm.h"
#include "format/commands/launch.h"
#include "format/commands/loop.h"

#include <variant>

namespace trainrt {

/// In the order of the union `Op` of program.fbs (checked where it is read).
using CommandOp =
    std::variant<Launch, Gemm, Attention, Copy, Collective, Loop, Convolution, External>;

/// The typed view of a step of each kind.
inline LaunchView viewOf(const StepView &step, const Launch &op) { return {step, op}; }
inline GemmView viewOf(const StepView &step, const Gemm &op) { return {step, op}; }
inline AttentionView viewOf(const StepView &step, const Attention &op) { return {step, op}; }
inline CopyView viewOf(const StepView &step, const Copy &op) { return {step, op}; }
inline CollectiveView viewOf(const StepView &step, const Collective &op) { return {step, op}; }
inline LoopView viewOf(const StepView &step, const Loop &op) { return {step, op}; }
inline ConvolutionView viewOf(const StepView &step, const Convolution &op) { return {step, op}; }
inline ExternalView viewOf(const StepView &step, const External &op) { return {step, op}; }

struct Command {
  CommandOp op;
  std::vector<Operand> operands;
  std::vector<ExprId> sizes;
  /// Bytes that it must move at least and its floating-point operations; none where the kind tells.
  std::vector<ExprId> costs;
  std::vector<uint32_t> nodes;
  /// The command that begins the innermost loop around it; -1: it is in none.
  int32_t loop = -1;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_COMMAND_H
