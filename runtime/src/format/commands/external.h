// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command that calls a function of a plug-in.
#ifndef TRAINRT_FORMAT_COMMANDS_EXTERNAL_H
#define TRAINRT_FORMAT_COMMANDS_EXTERNAL_H

#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct External;
}

/// See program.fbs.
struct External {
  static constexpr const char *kindName = "external";
  /// Tensors have names in the plug-in only.
  static constexpr std::array<const char *, 0> operandNames = {};
  static constexpr std::array sizeNames = {"extents"};

  enum class ArgumentKind : uint8_t { Tensor, Size, F32, F64 };
  struct Argument {
    ArgumentKind kind;
    uint32_t index;
    double value;
  };
  struct Setting {
    std::string name;
    std::vector<int64_t> integers;
    std::vector<double> reals;
    bool isText = false;
    std::string text;
  };

  /// Of the program's.
  uint32_t function = 0;
  std::vector<DType> dtypes;
  std::vector<uint8_t> ranks;
  std::vector<Setting> settings;
  /// A kernel for a GPU, with these arguments; else a function in C.
  bool launched = false;
  std::vector<Argument> arguments;

  Status read(const fb::External &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &program, const StepView &step) const;
  /// "external scale::scale_rows"
  std::string name(const Program &program, const StepView &step) const;
  int64_t bytes(const StepView &step) const;
  void results(const Program &program, const StepView &step, std::vector<Region> &regions) const;
};

struct ExternalView : StepView {
  ExternalView(const StepView &step, const External &op) : StepView(step), op(op) {}
  const External &op;

  size_t tensors() const { return op.dtypes.size(); }
  std::span<const int64_t> extents(size_t tensor) const;
  int64_t elements(size_t tensor) const;
  /// Behind the extents: the grid, the block, the bytes of shared memory; then arguments.
  std::span<const int64_t> launch() const { return sizes.subspan(extentSizes(), launchSizes); }
  std::span<const int64_t> sizeArguments() const {
    return sizes.subspan(extentSizes() + launchSizes);
  }

  static constexpr size_t launchSizes = 7;

private:
  size_t extentSizes() const;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_EXTERNAL_H
