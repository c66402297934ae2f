// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command that copies bytes, also between a GPU and its host.
#ifndef TRAINRT_FORMAT_COMMANDS_COPY_H
#define TRAINRT_FORMAT_COMMANDS_COPY_H

#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct Copy;
}

/// See program.fbs.
struct Copy {
  static constexpr const char *kindName = "copy";
  enum OperandNumber { From, To };
  static constexpr std::array operandNames = {"from", "to"};
  static constexpr std::array sizeNames = {"bytes"};

  Status read(const fb::Copy &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &program, const StepView &step) const {
    return "a " + name(program, step);
  }
  std::string name(const Program &program, const StepView &step) const;
  int64_t bytes(const StepView &step) const;
  CommandClass commandClass(const StepView &) const { return CommandClass::Copy; }
  /// Makes no new values.
  void results(const Program &, const StepView &, std::vector<Region> &) const {}
};

struct CopyView : StepView {
  CopyView(const StepView &step, const Copy &) : StepView(step) {}

  int64_t bytes() const { return sizes[0]; }
  bool isEmpty() const { return bytes() == 0; }
  bool isToHost() const;
  bool isFromHost() const;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_COPY_H
