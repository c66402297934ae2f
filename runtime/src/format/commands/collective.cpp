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
  types = static_cast<DType>(from.dtype());
  if (const auto sent = from.sent()) {
    if (kind == Kind::AllGather || types.made != DType::F32 ||
        (*sent != fb::DType::bf16 && *sent != fb::DType::f16))
      return check.bad(".sent ", int(*sent), " is none that ranks add up to .dtype ",
                       int(from.dtype()));
    types.sent = static_cast<DType>(*sent);
  }
  verdict = from.verdict();
  if (verdict && (!isInPlace() || types.made != DType::F32 || check.operands.size() != 1))
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
    TRAINRT_TRY(check.covers(i, 0, view.elements(i), sizeOf(typeOf(i, view.numTensors()))));
  }
  for (size_t i = 0; kind == Kind::AllReduce && !isInPlace() && i < view.numPairs(); ++i)
    if (view.elements(i) != view.elements(view.numPairs() + i))
      return check.bad(" adds up ", view.elements(i), " elements to ",
                       view.elements(view.numPairs() + i), " sums");
  return {};
}

std::string Collective::name(const Program &, const StepView &step) const {
  static constexpr const char *kinds[] = {"all_reduce ", "reduce_scatter ", "all_gather "};
  const size_t tensors = step.places.size() / (isInPlace() ? 1 : 2);
  return std::string(kinds[size_t(kind)]) + nameOf(types.sent) +
         (types.widens() ? std::string(" to ") + nameOf(types.made) : "") + " of " +
         std::to_string(tensors) + (tensors == 1 ? " tensor" : " tensors");
}

int64_t Collective::bytes(const StepView &step) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.sizes.size(); ++i)
    bytes += step.sizes[i] * int64_t(sizeOf(typeOf(i, step.sizes.size())));
  return (isInPlace() ? 2 : 1) * bytes;
}

void Collective::results(const Program &, const StepView &step,
                         std::vector<Region> &results) const {
  const CollectiveView view(step, *this);
  for (size_t i = isInPlace() ? 0 : view.numPairs(); i < view.numTensors(); ++i)
    results.push_back(
        {step.places[i].buffer, types.made, step.places[i].offset, {view.elements(i)}, {1}});
}

} // namespace trainrt
