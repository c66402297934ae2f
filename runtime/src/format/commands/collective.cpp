// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors that become those of all ranks together, in place.

#include "format/commands/collective.h"
#include "format/program.h"
#include "program_generated.h"

namespace trainrt {

Status Collective::read(const fb::Collective &from, const CommandCheck &check) {
  if (from.kind() > fb::CollectiveKind::MAX)
    return check.bad(".kind ", int(from.kind()), " is unknown");
  kind = static_cast<Kind>(from.kind());
  if (from.dtype() > fb::DType::MAX ||
      (kind != Kind::AllGather && from.dtype() != fb::DType::f32 && from.dtype() != fb::DType::f64))
    return check.bad(".dtype ", int(from.dtype()), " is none that ranks add up");
  dtype = static_cast<DType>(from.dtype());
  verdict = from.verdict();
  if (verdict && (kind != Kind::AllReduce || dtype != DType::F32 || check.operands.size() != 1))
    return check.bad(".verdict is of an all_reduce of one f32");
  if (!check.kernels.empty())
    return check.bad(".kernels: it runs none");
  if (check.operands.empty())
    return check.bad(".operands is empty");
  if (!isInPlace() && check.operands.size() % 2)
    return check.bad(".operands: ", check.operands.size(), " are no pairs");
  for (size_t i = 0; i < check.operands.size(); ++i) {
    const bool isRead = i < check.operands.size() / 2;
    if (check.operands[i].access != (isInPlace() ? Access::Update
                                     : isRead    ? Access::Read
                                                 : Access::Write))
      return check.bad(".operands[", i, "] is not ",
                       isInPlace() ? "read and written"
                       : isRead    ? "read"
                                   : "written");
  }
  return check.numSizes(check.operands.size());
}

Status Collective::checkPlaces(const PlaceCheck &check) const {
  const CollectiveView view(check.step, *this);
  if (verdict && view.elements(0) != 1)
    return check.bad(" is a verdict of ", view.elements(0), " elements, not of one");
  for (size_t i = 0; i < view.numTensors(); ++i) {
    TRAINRT_TRY(check.notNegative(view.elements(i)));
    TRAINRT_TRY(check.covers(i, 0, view.elements(i), sizeOf(dtype)));
  }
  return {};
}

std::string Collective::name(const Program &, const StepView &step) const {
  static constexpr const char *kinds[] = {"all_reduce ", "reduce_scatter ", "all_gather "};
  const size_t tensors = step.places.size() / (isInPlace() ? 1 : 2);
  return std::string(kinds[size_t(kind)]) + nameOf(dtype) + " of " + std::to_string(tensors) +
         (tensors == 1 ? " tensor" : " tensors");
}

int64_t Collective::bytes(const StepView &step) const {
  int64_t elements = 0;
  for (int64_t size : step.sizes)
    elements += size;
  return (isInPlace() ? 2 : 1) * elements * int64_t(sizeOf(dtype));
}

void Collective::results(const Program &, const StepView &step,
                         std::vector<Region> &results) const {
  const CollectiveView view(step, *this);
  for (size_t i = isInPlace() ? 0 : view.numPairs(); i < view.numTensors(); ++i)
    results.push_back(
        {step.places[i].buffer, dtype, step.places[i].offset, {view.elements(i)}, {1}});
}

} // namespace trainrt
