// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command of convolutions and of their gradients.
#ifndef TRAINRT_FORMAT_COMMANDS_CONVOLUTION_H
#define TRAINRT_FORMAT_COMMANDS_CONVOLUTION_H

#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct Convolution;
}

/// See program.fbs.
struct Convolution {
  static constexpr const char *kindName = "convolution";
  enum class Kind : uint8_t { Forward, Data, Filter };
  enum OperandNumber { Input, FilterOperand, Output };
  static constexpr std::array operandNames = {"input", "filter", "output"};
  static constexpr std::array sizeNames = {"batch", "channels", "filters", "groups",   "positions",
                                           "taps",  "windows",  "stride",  "dilation", "pad"};

  Kind kind = Kind::Forward;
  DType dtype = DType::F32;
  bool tf32 = false;

  /// The operand that is written.
  OperandNumber result() const {
    return kind == Kind::Forward ? Output : kind == Kind::Data ? Input : FilterOperand;
  }

  Status read(const fb::Convolution &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &, const StepView &) const;
  /// "convolution bf16 32x64x56x56 by 64x3x3" and what it makes: batch, channels, positions by
  /// filters, taps.
  std::string name(const Program &program, const StepView &step) const;
  int64_t bytes(const StepView &step) const;
  /// With the taps that meet zeros beside the input.
  int64_t flops(const StepView &step) const;
  CommandClass commandClass(const StepView &) const { return CommandClass::Convolution; }
  void results(const Program &program, const StepView &step, std::vector<Region> &regions) const;
};

struct ConvolutionView : StepView {
  ConvolutionView(const StepView &step, const Convolution &op) : StepView(step), op(op) {}
  const Convolution &op;

  int64_t batch() const { return sizes[0]; }
  int64_t channels() const { return sizes[1]; }
  int64_t filters() const { return sizes[2]; }
  int64_t groups() const { return sizes[3]; }

  struct Axis {
    int64_t positions, taps, windows, stride, dilation, pad;
  };
  size_t axes() const { return (sizes.size() - numFixed) / axisSizes; }
  Axis axis(size_t i) const {
    const auto s = sizes.subspan(numFixed + i * axisSizes, axisSizes);
    return {s[0], s[1], s[2], s[3], s[4], s[5]};
  }
  /// Extents of an operand, row major. Sizes that checkPlaces has accepted.
  std::vector<int64_t> extents(size_t operand) const;
  int64_t elements(size_t operand) const;
  /// Whether there is no element to compute.
  bool isEmpty() const { return elements(op.result()) == 0; }
  /// Whether nothing is read: the result is zeros.
  bool isZero() const;

  static constexpr size_t numFixed = 4, axisSizes = 6, mostAxes = 3;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_CONVOLUTION_H
