// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All that a package can say of a plug-in's function is checked: that its tensors lie in their
// buffers, and that a kernel has arguments for its numbers.

#include "format/commands/external.h"
#include "format/program.h"
#include "program_generated.h"

#include <algorithm>
#include <numeric>

namespace trainrt {

static Status readArguments(const fb::External &from, const CommandCheck &check, External &to,
                            size_t &sizes) {
  for (uint32_t i = 0; from.arguments() && i < from.arguments()->size(); ++i) {
    const fb::ExternalArgument *argument = from.arguments()->Get(i);
    if (argument->kind() > fb::ArgumentKind::MAX)
      return check.bad(".arguments[", i, "].kind ", int(argument->kind()), " is unknown");
    const auto kind = static_cast<External::ArgumentKind>(argument->kind());
    if (kind == External::ArgumentKind::Tensor && argument->index() >= to.dtypes.size())
      return check.bad(".arguments[", i, "] is tensor ", argument->index(), " of ",
                       to.dtypes.size());
    sizes += kind == External::ArgumentKind::Size;
    to.arguments.push_back({kind, argument->index(), argument->value()});
  }
  return {};
}

Status External::read(const fb::External &from, const CommandCheck &check) {
  const Program &program = check.program;
  function = from.function();
  if (function >= program.externals.size())
    return check.bad(".function is ", function, ", but there are only ", program.externals.size());
  if (!check.kernels.empty())
    return check.bad(".kernels: it runs none");
  if (from.dtypes())
    for (uint8_t dtype : *from.dtypes()) {
      if (dtype > uint8_t(fb::DType::MAX))
        return check.bad(".dtypes: ", int(dtype), " is unknown");
      dtypes.push_back(static_cast<DType>(dtype));
    }
  if (from.ranks())
    ranks.assign(from.ranks()->begin(), from.ranks()->end());
  const size_t tensors = check.operands.size();
  if (dtypes.size() != tensors || ranks.size() != tensors)
    return check.bad(" has ", tensors, " operands, ", dtypes.size(), " types and ", ranks.size(),
                     " ranks");
  for (size_t i = 0; i < tensors; ++i)
    if (check.operands[i].access != Access::Read && check.operands[i].access != Access::Write)
      return check.bad(".operands[", i, "]: it is neither read nor written");
  if (from.attributes())
    for (const fb::ExternalAttribute *attribute : *from.attributes()) {
      Setting &setting = settings.emplace_back();
      setting.name = attribute->name()->str();
      if (attribute->ints())
        setting.integers.assign(attribute->ints()->begin(), attribute->ints()->end());
      if (attribute->floats())
        setting.reals.assign(attribute->floats()->begin(), attribute->floats()->end());
      setting.isText = attribute->text();
      if (attribute->text())
        setting.text = attribute->text()->str();
    }
  launched = from.launched();
  if (launched && !traitsOf(program.target).isSeparate)
    return check.bad(".launched: only a GPU runs a plug-in's kernels");
  size_t wanted = std::accumulate(ranks.begin(), ranks.end(), size_t(0));
  if (launched) {
    wanted += ExternalView::launchSizes;
    TRAINRT_TRY(readArguments(from, check, *this, wanted));
  }
  return check.numSizes(wanted);
}

size_t ExternalView::extentSizes() const {
  return std::accumulate(op.ranks.begin(), op.ranks.end(), size_t(0));
}

std::span<const int64_t> ExternalView::extents(size_t tensor) const {
  const auto begin = op.ranks.begin();
  return sizes.subspan(std::accumulate(begin, begin + ptrdiff_t(tensor), size_t(0)),
                       op.ranks[tensor]);
}

int64_t ExternalView::elements(size_t tensor) const {
  int64_t count = 1;
  for (int64_t extent : extents(tensor))
    count *= extent;
  return count;
}

Status External::checkPlaces(const PlaceCheck &check) const {
  const ExternalView view(check.step, *this);
  for (size_t i = 0; i < view.tensors(); ++i) {
    // Clamped far beyond any buffer; an extent of 0 makes it 0 all the same.
    __int128 elements = 1;
    for (int64_t extent : view.extents(i)) {
      TRAINRT_TRY(check.notNegative(extent));
      elements = std::min(elements * extent, __int128(1) << 62);
    }
    TRAINRT_TRY(check.covers(i, 0, elements, sizeOf(dtypes[i])));
  }
  if (launched)
    for (int64_t size : view.launch())
      if (size < 0 || size > INT32_MAX)
        return check.bad(" launches a grid, blocks or shared memory of ", size);
  return {};
}

std::string External::name(const Program &program, const StepView &) const {
  const ExternalFunction &called = program.externals[function];
  return "external " + called.plugin + "::" + called.name;
}

std::string External::describe(const Program &program, const StepView &) const {
  const ExternalFunction &called = program.externals[function];
  return "function '" + called.name + "' of the plug-in '" + called.plugin + "'";
}

int64_t External::bytes(const StepView &step) const {
  const ExternalView view(step, *this);
  int64_t sum = 0;
  for (size_t i = 0; i < view.tensors(); ++i)
    sum += view.elements(i) * int64_t(sizeOf(dtypes[i]));
  return sum;
}

void External::results(const Program &, const StepView &step, std::vector<Region> &regions) const {
  const ExternalView view(step, *this);
  for (size_t i = 0; i < view.tensors(); ++i)
    if (step.operands[i].isWritten() && isFloat(dtypes[i]))
      regions.push_back(
          {step.places[i].buffer, dtypes[i], step.places[i].offset, {view.elements(i)}, {1}});
}

} // namespace trainrt
