// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that are the same for every kind of command.

#include "format/commands/operand.h"
#include "format/program.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

int64_t StepView::bytesOf(size_t operand) const {
  assert(operand < places.size() && "one place for each operand");
  const Place &place = places[operand];
  return place.isPresent() ? bufferBytes[place.buffer] - place.offset : 0;
}

const Buffer &StepView::buffer(size_t operand) const {
  return function.buffers[places[operand].buffer];
}

Status CommandCheck::numSizes(size_t wanted) const {
  return sizes.size() == wanted ? Status()
                                : bad(".sizes has ", sizes.size(), " entries, not ", wanted);
}

Status CommandCheck::expect(std::span<const char *const> names,
                            std::initializer_list<Wanted> wanted, size_t newer) const {
  // In the order of the enum Access.
  static constexpr const char *uses[] = {"not used", "read", "written", "read and written"};
  // Of the kinds of commands only launches name kernels, and these do not come here.
  if (!kernels.empty())
    return bad(".kernels: it runs none");
  if (operands.size() > wanted.size() || operands.size() + newer < wanted.size())
    return bad(".operands has ", operands.size(), " entries, not ", wanted.size());
  size_t i = 0;
  for (const Wanted &one : wanted) {
    if (i == operands.size())
      break;
    const char *name = names[i];
    const Access access = operands[i++].access;
    if (access == one.access || (one.isOptional && access == Access::None))
      continue;
    if (access == Access::None)
      return bad(".", name, " is missing");
    return bad(".", name, " is ", uses[size_t(access)], ", not ", uses[size_t(one.access)]);
  }
  return {};
}

const std::string &PlaceCheck::functionName() const { return function.name; }

/// [low, high) in elements of `size` bytes from the place. 128 bits: no product of 64-bit values
/// that `reach` has clamped overflows.
Status PlaceCheck::covers(size_t operand, __int128 low, __int128 high, size_t size) const {
  const Place &place = step.places[operand];
  const int64_t bytes = step.bufferBytes[place.buffer];
  if (place.offset + low * __int128(size) < 0 || place.offset + high * __int128(size) > bytes)
    return bad(" leaves buffer ", place.buffer, " of ", bytes, " bytes");
  return {};
}

Status PlaceCheck::notNegative(int64_t extent) const {
  return extent < 0 ? bad(" has an extent of ", extent) : Status();
}

/// An extent of 0 reaches one stride to the other side: callers ask only for calls that are not
/// empty.
void PlaceCheck::reach(int64_t extent, int64_t stride, __int128 &low, __int128 &high) {
  // Clamped far beyond any buffer, so that sums of these cannot overflow.
  constexpr __int128 far = __int128(1) << 80;
  const __int128 end = std::clamp(__int128(extent - 1) * stride, -far, far);
  (end < 0 ? low : high) += end;
}

} // namespace trainrt
