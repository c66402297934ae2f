// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scanning values for infinities and NaN, by the bits of their exponent.

#include "session/inspect/numerics.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

enum class Kind { Finite, Infinite, NaN };

/// All ones in the exponent: infinite where the mantissa is 0, else NaN.
template <typename Bits, Bits exponent, Bits mantissa> Kind classify(const unsigned char *at) {
  Bits bits;
  // Elements need not be aligned.
  std::memcpy(&bits, at, sizeof bits);
  if ((bits & exponent) != exponent)
    return Kind::Finite;
  return bits & mantissa ? Kind::NaN : Kind::Infinite;
}

using Classify = Kind (*)(const unsigned char *);

/// f32 for what has no other: only floats are asked about.
Classify classifier(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return classify<uint64_t, 0x7ff0000000000000, 0x000fffffffffffff>;
  case DType::F16:
    return classify<uint16_t, 0x7c00, 0x03ff>;
  case DType::BF16:
    return classify<uint16_t, 0x7f80, 0x007f>;
  default:
    return classify<uint32_t, 0x7f800000, 0x007fffff>;
  }
}

/// The first element of each kind, by its number in row-major order; -1 without one.
struct Found {
  int64_t infinite = -1, notANumber = -1;
};

Found scan(const Region &region, const unsigned char *data) {
  assert(isFloat(region.dtype) && "others have no such values");
  Found found;
  const Classify kindOf = classifier(region.dtype);
  const int64_t size = int64_t(sizeOf(region.dtype));
  const size_t rank = region.extents.size();
  int64_t count = 1;
  for (int64_t extent : region.extents)
    count *= extent;
  std::vector<int64_t> position(rank);
  // Row-major through the strides; ends with the first NaN.
  int64_t offset = 0;
  for (int64_t number = 0; number < count && found.notANumber < 0; ++number) {
    const Kind kind = kindOf(data + offset * size);
    if (kind == Kind::NaN)
      found.notANumber = number;
    else if (kind == Kind::Infinite && found.infinite < 0)
      found.infinite = number;
    // The next position, as an odometer counts.
    for (size_t axis = rank; axis-- > 0;) {
      offset += region.strides[axis];
      if (++position[axis] < region.extents[axis])
        break;
      offset -= position[axis] * region.strides[axis];
      position[axis] = 0;
    }
  }
  return found;
}

/// "[1, 3]" for a region with axes, "element 17 of 512" for a plain row of values.
std::string placeText(const Region &region, int64_t number) {
  assert(number >= 0 && "it was found");
  if (region.extents.size() == 1)
    return "element " + std::to_string(number) + " of " + std::to_string(region.extents[0]);
  std::vector<int64_t> position(region.extents.size());
  for (size_t axis = position.size(); axis-- > 0;) {
    position[axis] = number % region.extents[axis];
    number /= region.extents[axis];
  }
  return shapeText(position);
}

} // namespace

template <typename Origin>
Status NumericsCheck::check(const ExecutionPlan &plan, const Region &region, const Read &read,
                            const Origin &origin) {
  // A NaN ends the search; an infinite value may still lead to one.
  if (!notANumber.empty() || std::count(region.extents.begin(), region.extents.end(), 0))
    return {};
  int64_t last = 0;
  for (size_t axis = 0; axis < region.extents.size(); ++axis) {
    assert(region.strides[axis] >= 0 && "a region begins at its offset");
    last += (region.extents[axis] - 1) * region.strides[axis];
  }
  // Only the span of the region is read.
  const void *data = nullptr;
  TRAINRT_TRY(read(region.buffer, region.offset, (last + 1) * int64_t(sizeOf(region.dtype)), data));
  const Found found = scan(region, static_cast<const unsigned char *>(data));
  auto describe = [&](const char *what, int64_t number) {
    return std::string(what) + " is at " + placeText(region, number) + " of " +
           shown(bufferName(program, plan.function->buffers[region.buffer])) + " (" +
           nameOf(region.dtype) + "), " + shown(origin());
  };
  // The first of each kind in the order of commands.
  if (found.infinite >= 0 && infinite.empty())
    infinite = describe("the first infinite value", found.infinite);
  if (found.notANumber >= 0)
    notANumber = describe("the first NaN", found.notANumber);
  return {};
}

std::string NumericsCheck::found() const {
  return infinite + (infinite.empty() || notANumber.empty() ? "" : "\n") + notANumber;
}

/// What a step is given: an infinite parameter is not a command's fault.
Status NumericsCheck::begin(const ExecutionPlan &plan, const Read &read) {
  const Function &function = *plan.function;
  for (size_t i = 0; i < function.buffers.size(); ++i) {
    const Buffer &buffer = function.buffers[i];
    Region region;
    // Types come from the program; buffers without one hold no floats.
    if ((buffer.space != Space::Parameter && buffer.space != Space::State &&
         buffer.space != Space::Input) ||
        !bufferType(program, buffer, region.dtype) || !isFloat(region.dtype))
      continue;
    region.buffer = uint32_t(i);
    // As one row: its shape does not matter.
    region.extents = {plan.bufferBytes[i] / int64_t(sizeOf(region.dtype))};
    region.strides = {1};
    TRAINRT_TRY(
        check(plan, region, read, [&] { return "before function '" + function.name + "' began"; }));
  }
  return {};
}

Status NumericsCheck::ran(const ExecutionPlan &plan, size_t index, double, double,
                          const Read &read) {
  // Nothing earlier can be found any more.
  if (!notANumber.empty())
    return {};
  commandResults(program, plan, index, results);
  const Command &command = *plan.steps[index].command;
  // If none was found before, operands were finite.
  const char *operands = infinite.empty() ? ", from finite operands" : "";
  for (const Region &region : results)
    TRAINRT_TRY(check(plan, region, read, [&] {
      return "written by command " + std::to_string(&command - plan.function->commands.data()) +
             " of function '" + plan.function->name + "', " + commandName(program, plan, index) +
             nodesText(program, command) + operands;
    }));
  return {};
}

} // namespace trainrt
