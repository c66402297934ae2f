// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command that runs a kernel of the package.
#ifndef TRAINRT_FORMAT_COMMANDS_LAUNCH_H
#define TRAINRT_FORMAT_COMMANDS_LAUNCH_H

#include "format/commands/operand.h"

#include <algorithm>
#include <array>

namespace trainrt {

namespace fb {
struct Launch;
}

/// See program.fbs.
struct Launch {
  static constexpr const char *kindName = "launch";
  /// A kernel names none.
  static constexpr std::array<const char *, 0> operandNames = {};
  static constexpr std::array sizeNames = {"work", "grain", "scratch", "dims"};

  /// Of program.fbs.
  enum class Form : uint8_t { Unknown, Pointwise, Row, Column, Scatter, Scan, Product };

  uint32_t kernel = 0;
  Form form = Form::Unknown;
  /// Of a group, whose arguments and dims lie behind each other; 0: no group.
  uint32_t members = 0;
  /// Kernels that may be launched instead, with the same arguments and dims.
  std::vector<uint32_t> variants;

  size_t numMembers() const { return members ? members : 1; }

  Status read(const fb::Launch &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &program, const StepView &step) const;
  std::string name(const Program &program, const StepView &step) const;
  /// Of a package that does not tell: all that lies in its operands.
  int64_t bytes(const StepView &step) const;
  int64_t flops(const StepView &step) const { return step.costs.empty() ? 0 : step.costs[1]; }
  CommandClass commandClass(const StepView &step) const;
  void results(const Program &program, const StepView &step, std::vector<Region> &regions) const;
};

struct LaunchView : StepView {
  LaunchView(const StepView &step, const Launch &op) : StepView(step), op(op) {}
  const Launch &op;

  int64_t work() const { return sizes[0]; }
  int64_t grain() const { return std::max<int64_t>(sizes[1], 1); }
  int64_t scratch() const { return sizes[2]; }
  bool isEmpty() const { return work() == 0; }

  size_t numArgs() const { return operands.size() / op.numMembers(); } ///< a member
  size_t numDims() const { return (variantSizes() - 3 - op.members) / op.numMembers(); }
  /// Of all members.
  std::span<const int64_t> dims() const { return sizes.subspan(3, numDims() * op.numMembers()); }
  std::span<const int64_t> memberWork() const {
    return sizes.subspan(variantSizes() - op.members, op.members);
  }
  int64_t variantWork(size_t variant) const { return sizes[variantSizes() + 2 * variant]; }
  int64_t variantGrain(size_t variant) const {
    return std::max<int64_t>(sizes[variantSizes() + 2 * variant + 1], 1);
  }

private:
  size_t variantSizes() const { return sizes.size() - 2 * op.variants.size(); }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_LAUNCH_H
