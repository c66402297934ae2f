// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sliding windows from the attributes of convolutions and pools.

#include "lib/Conversion/ONNXToTrain/Images/Windows.h"

using namespace mlir;

namespace trainc::legalize {

/// The windows of ceil_mode, which may reach beyond the end: `room` is what a window can move by.
static void countRoundedUp(NodeContext &c, Sliding &s, DimAttr room) {
  DimAttr stride = c.dim(s.stride), one = c.dim(1), none = c.dim(0);
  // One window at least, refused when sizes come if it may not be so.
  DimAttr rounded = room + c.dim(s.stride - 1);
  (void)c.state.bounds.demandAtMost(none - rounded, 0);
  // A window has to begin inside of the input or of what is before it. Which bound is the lower one
  // is the same for all sizes: pads are numbers.
  DimAttr inside = s.size + s.low - one;
  std::optional<int64_t> further = (rounded - inside).getConstant();
  assert(further && "attributes give numbers");
  DimAttr last = train::floorDiv(*further <= 0 ? rounded : inside, stride);
  s.count = last + one;
  // The last window reaches beyond everything, by this much.
  s.beyond = last * stride - room;
  if (*further > 0)
    s.beyond = c.state.bounds.max(s.beyond, none);
  // Of a single one the taps there are left out: a kernel may be far larger than its input.
  if (s.count.isConstant(1) && room.getConstant() && !s.beyond.isConstant(0) && s.dilation == 1) {
    s.taps = *room.getConstant() + s.reach();
    s.stride = 1;
    s.beyond = none;
  }
  s.high = s.high + s.beyond;
}

LogicalResult needPerAxis(NodeContext &c, StringRef name, int64_t given, int64_t wanted,
                          int64_t axes) {
  if (given == wanted)
    return success();
  return c.fail("its " + name + " has " + Twine(given) + " elements: its input " +
                train::dimsToString(c.dims(0)) + " has " + Twine(axes) +
                " axes behind the channels, for which it needs " + Twine(wanted));
}

/// `kernel` is the weight's, empty for pools, whose attribute says it.
std::optional<SmallVector<Sliding>> readSlidings(NodeContext &c, ArrayRef<int64_t> kernel,
                                                 bool transposed) {
  auto fail = [&](const Twine &why) -> std::optional<SmallVector<Sliding>> {
    (void)c.fail(why);
    return std::nullopt;
  };
  int64_t axes = c.rank(0) - 2;
  SmallVector<int64_t> taps(kernel);
  if (auto given = c.ints("kernel_shape")) {
    if (!kernel.empty() && *given != taps)
      return fail("its kernel_shape is not that of its weight, " + train::dimsToString(c.dims(1)) +
                  ": leave it out");
    taps = *given;
  }
  // All lists are checked before they are indexed.
  if (axes < 1)
    return fail("its input is " + train::dimsToString(c.dims(0)) +
                ": it needs one [batch, channels, axes...]");
  if (failed(needPerAxis(c, "kernel_shape", taps.size(), axes, axes)))
    return std::nullopt;
  auto perAxis = [&](StringRef name, int64_t count, int64_t otherwise) {
    return c.ints(name).value_or(SmallVector<int64_t>(count, otherwise));
  };
  SmallVector<int64_t> strides = perAxis("strides", axes, 1),
                       dilations = perAxis("dilations", axes, 1),
                       pads = perAxis("pads", 2 * axes, 0);
  if (failed(needPerAxis(c, "strides", strides.size(), axes, axes)) ||
      failed(needPerAxis(c, "dilations", dilations.size(), axes, axes)) ||
      failed(needPerAxis(c, "pads", pads.size(), 2 * axes, axes)))
    return std::nullopt;
  StringRef automatic = c.attr("auto_pad", "NOTSET");
  bool ceil = c.attr("ceil_mode", int64_t(0));
  SmallVector<Sliding> slidings;
  for (int64_t i = 0; i < axes; ++i) {
    Sliding s;
    s.taps = taps[i];
    s.stride = strides[i];
    s.dilation = dilations[i];
    s.size = c.dims(0)[2 + i];
    if (s.taps < 1)
      return fail("its weight has no taps along axis " + Twine(2 + i) +
                  ": give it a kernel of at least one");
    s.low = c.dim(automatic == "NOTSET" ? pads[i] : 0);
    s.high = c.dim(automatic == "NOTSET" ? pads[i + axes] : 0);
    s.beyond = c.dim(0);
    // A transposed convolution computes its sizes itself.
    if (transposed) {
      slidings.push_back(s);
      continue;
    }
    // What is left and right of the input together makes the count a ceiling.
    DimAttr stride = c.dim(s.stride), one = c.dim(1);
    bool fits = true;
    if (automatic.starts_with("SAME")) {
      s.count = train::floorDiv(s.size + c.dim(s.stride - 1), stride);
      DimAttr all =
          c.state.bounds.max((s.count - one) * stride + c.dim(s.reach()) - s.size, c.dim(0));
      // The odd one goes to the side that the name says.
      DimAttr half = train::floorDiv(all, c.dim(2));
      s.low = automatic == "SAME_UPPER" ? half : all - half;
      s.high = all - s.low;
    } else {
      // What a window can move by.
      DimAttr room = s.size + s.low + s.high - c.dim(s.reach());
      const Interval moves = c.state.bounds.interval(ceil ? room + c.dim(s.stride - 1) : room);
      fits = !moves.high || *moves.high >= 0;
      if (ceil) {
        countRoundedUp(c, s, room);
      } else {
        // Refused when sizes come, if it may not be so.
        (void)c.state.bounds.demandAtMost(c.dim(0) - room, 0);
        s.count = train::floorDiv(room, stride) + one;
      }
    }
    // A pool's window of padding alone has no maximum and no mean.
    if (int64_t most = std::max(pads[i], pads[i + axes]);
        kernel.empty() && automatic == "NOTSET" && most >= s.reach())
      return fail("its pads of axis " + Twine(2 + i) + " are " + Twine(most) +
                  ", so that a window of " + Twine(s.reach()) +
                  " positions may have none of its input: give it pads below its kernel's size, "
                  "or a Pad before it");
    // Known to be too small already, whatever the size will be.
    if (auto count = s.count.getConstant(); !fits || (count && *count < 1))
      return fail("its window of " + Twine(s.reach()) + " positions is larger than the axis of '" +
                  s.size.str() +
                  "' and its pads; give it a smaller kernel or dilation, or more pads");
    slidings.push_back(s);
  }
  return slidings;
}

} // namespace trainc::legalize
