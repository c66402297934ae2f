// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two commands around others that run for each step of a sequence.
#ifndef TRAINRT_FORMAT_COMMANDS_LOOP_H
#define TRAINRT_FORMAT_COMMANDS_LOOP_H

#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct Loop;
}
struct Command;

/// See program.fbs.
struct Loop {
  static constexpr const char *kindName = "loop";
  /// Their numbers depend on the loop.
  static constexpr std::array<const char *, 0> operandNames = {};
  static constexpr std::array sizeNames = {"steps"};

  uint32_t scanned = 0, stacked = 0;
  bool isEnd = false, reverse = false;

  Status read(const fb::Loop &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &program, const StepView &step) const {
    return "the " + name(program, step);
  }
  std::string name(const Program &program, const StepView &step) const;
  /// Moves addresses only.
  int64_t bytes(const StepView &) const { return 0; }
  void results(const Program &, const StepView &, std::vector<Region> &) const {}
};

struct LoopView : StepView {
  LoopView(const StepView &step, const Loop &op) : StepView(step), op(op) {}
  const Loop &op;

  int64_t steps() const { return sizes[0]; }
  bool isEmpty() const { return steps() == 0; }

  /// Scanned ones, then stacked ones.
  size_t numSlices() const { return op.scanned + op.stacked; }
  /// The operands that are a tensor and its slice.
  size_t whole(size_t i) const { return i < op.scanned ? i : op.scanned + i; }
  size_t slice(size_t i) const { return whole(i) + (i < op.scanned ? op.scanned : op.stacked); }
};

/// Tells commands of the loops around them. False where a loop does not end as it began and within
/// the loop around it: `wrong` is a command of it.
bool matchLoops(std::vector<Command> &commands, size_t &wrong);

/// The command that ends the loop which begins at `begin`; loops match.
size_t loopEnd(const std::vector<Command> &commands, size_t begin);

/// Whether an operand of a command in a loop is the same in all steps of the innermost one: none of
/// its commands writes to the memory, and it is no slice. False outside of loops. The compiler asks
/// the same of ops, before there is a package (dialects/Plan/Gemm.cpp).
bool isSameInAllSteps(const StepView &step, size_t operand);

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_LOOP_H
