// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of windows follow from those of the axes; each of the three tensors is row major.

#include "format/commands/convolution.h"
#include "format/program.h"
#include "program_generated.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainrt {

Status Convolution::read(const fb::Convolution &from, const CommandCheck &check) {
  if (from.kind() > fb::ConvolutionKind::MAX)
    return check.bad(".kind ", int(from.kind()), " is unknown");
  kind = static_cast<Kind>(from.kind());
  if (from.dtype() != fb::DType::f32 && from.dtype() != fb::DType::f16 &&
      from.dtype() != fb::DType::bf16)
    return check.bad(".dtype ", int(from.dtype()), " is none that a convolution has");
  dtype = static_cast<DType>(from.dtype());
  if (dtype != DType::F32 && !traitsOf(check.program.target).narrowConvolutions)
    return check.bad(".dtype ", nameOf(dtype),
                     ": convolutions of 16-bit types are a command of CUDA packages only");
  tf32 = from.tf32();
  auto access = [&](OperandNumber operand) {
    return CommandCheck::Wanted{operand == result() ? Access::Write : Access::Read};
  };
  TRAINRT_TRY(check.expect(operandNames, {access(Input), access(FilterOperand), access(Output)}));
  using View = ConvolutionView;
  const size_t sizes = check.sizes.size();
  if (sizes <= View::numFixed || (sizes - View::numFixed) % View::axisSizes ||
      (sizes - View::numFixed) / View::axisSizes > View::mostAxes)
    return check.bad(".sizes: ", sizes, " are not those of a convolution with one to three axes");
  return {};
}

std::vector<int64_t> ConvolutionView::extents(size_t operand) const {
  using Op = Convolution;
  std::vector<int64_t> result = {operand == Op::FilterOperand ? filters() : batch()};
  for (size_t i = 0; i < axes(); ++i) {
    const Axis a = axis(i);
    result.push_back(operand == Op::Input           ? a.positions
                     : operand == Op::FilterOperand ? a.taps
                                                    : a.windows);
  }
  result.push_back(operand == Op::Input           ? channels()
                   : operand == Op::FilterOperand ? channels() / groups()
                                                  : filters());
  return result;
}

int64_t ConvolutionView::elements(size_t operand) const {
  const std::vector<int64_t> all = extents(operand);
  // Beside an extent of 0 the others may be of any size.
  if (std::ranges::find(all, 0) != all.end())
    return 0;
  return std::accumulate(all.begin(), all.end(), int64_t(1), std::multiplies<>());
}

bool ConvolutionView::isZero() const {
  for (size_t operand : {Convolution::Input, Convolution::FilterOperand, Convolution::Output})
    if (operand != op.result() && elements(operand) == 0)
      return true;
  return false;
}

Status Convolution::checkPlaces(const PlaceCheck &check) const {
  const ConvolutionView view(check.step, *this);
  TRAINRT_TRY(check.notNegative(view.batch()));
  if (view.groups() < 1 || view.channels() < 1 || view.filters() < 1 ||
      view.channels() % view.groups() || view.filters() % view.groups())
    return check.bad(" has ", view.groups(), " groups of ", view.channels(), " channels and ",
                     view.filters(), " filters");
  for (size_t i = 0; i < view.axes(); ++i) {
    const ConvolutionView::Axis a = view.axis(i);
    TRAINRT_TRY(check.notNegative(a.positions));
    if (a.taps < 1 || a.stride < 1 || a.dilation < 1 || a.pad < 0)
      return check.bad(" has ", a.taps, " taps with a stride of ", a.stride, ", a dilation of ",
                       a.dilation, " and a pad of ", a.pad);
    const __int128 rest =
        __int128(a.positions) + 2 * __int128(a.pad) - __int128(a.taps - 1) * a.dilation - 1;
    if (a.windows != (rest < 0 ? 0 : rest / a.stride + 1))
      return check.bad(" has ", a.windows, " windows of ", a.taps, " taps over ", a.positions,
                       " positions");
  }
  for (size_t operand : {Input, FilterOperand, Output}) {
    // Clamped far beyond any buffer; an extent of 0 makes it 0 all the same.
    __int128 elements = 1;
    for (int64_t extent : view.extents(operand))
      elements = std::min(elements * extent, __int128(1) << 62);
    TRAINRT_TRY(check.covers(operand, 0, elements, sizeOf(dtype)));
  }
  return {};
}

std::string Convolution::describe(const Program &, const StepView &) const {
  switch (kind) {
  case Kind::Forward:
    return "a convolution";
  case Kind::Data:
    return "a convolution's gradient for its input";
  case Kind::Filter:
    return "a convolution's gradient for its filter";
  }
  return "";
}

std::string Convolution::name(const Program &, const StepView &step) const {
  const ConvolutionView view(step, *this);
  std::string text = std::string("convolution ") + nameOf(dtype) + " " +
                     std::to_string(view.batch()) + "x" + std::to_string(view.channels());
  for (size_t i = 0; i < view.axes(); ++i)
    text += "x" + std::to_string(view.axis(i).positions);
  text += " by " + std::to_string(view.filters());
  for (size_t i = 0; i < view.axes(); ++i)
    text += "x" + std::to_string(view.axis(i).taps);
  return text + (kind == Kind::Forward ? "" : kind == Kind::Data ? ", input" : ", filter");
}

int64_t Convolution::bytes(const StepView &step) const {
  const ConvolutionView view(step, *this);
  return (view.elements(Input) + view.elements(FilterOperand) + view.elements(Output)) *
         int64_t(sizeOf(dtype));
}

/// A multiplication and an addition for each element of the output, tap and channel of its group.
int64_t Convolution::flops(const StepView &step) const {
  const ConvolutionView view(step, *this);
  int64_t taps = view.channels() / view.groups();
  for (size_t i = 0; i < view.axes(); ++i)
    taps *= view.axis(i).taps;
  return 2 * view.elements(Output) * taps;
}

void Convolution::results(const Program &, const StepView &step,
                          std::vector<Region> &regions) const {
  const ConvolutionView view(step, *this);
  const Place &place = step.places[result()];
  regions.push_back({place.buffer, dtype, place.offset, {view.elements(result())}, {1}});
}

} // namespace trainrt
