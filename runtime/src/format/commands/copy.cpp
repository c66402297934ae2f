// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy to or from the host goes over the link and reads or writes the device's memory once.

#include "format/commands/copy.h"
#include "format/program.h"

namespace trainrt {

Status Copy::read(const fb::Copy &, const CommandCheck &check) {
  TRAINRT_TRY(check.expect(operandNames, {{Access::Read}, {Access::Write}}));
  return check.numSizes(1);
}

/// Sizes come from evaluated expressions: a difference of symbols may be negative.
Status Copy::checkPlaces(const PlaceCheck &check) const {
  const int64_t bytes = CopyView(check.step, *this).bytes();
  if (bytes < 0)
    return check.bad(" copies ", bytes, " bytes");
  TRAINRT_TRY(check.covers(From, 0, bytes, 1));
  return check.covers(To, 0, bytes, 1);
}

bool CopyView::isToHost() const { return buffer(Copy::To).space == Space::Host; }
bool CopyView::isFromHost() const { return buffer(Copy::From).space == Space::Host; }

std::string Copy::name(const Program &, const StepView &step) const {
  const CopyView view(step, *this);
  return view.isToHost() ? "copy to host" : view.isFromHost() ? "copy from host" : "copy";
}

int64_t Copy::bytes(const StepView &step) const {
  const CopyView view(step, *this);
  // Within the device's memory it is read and written; over the link, one of both is the host's.
  return view.bytes() * (view.isToHost() || view.isFromHost() ? 1 : 2);
}

} // namespace trainrt
