// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the elements of a resized axis are read, and with which weights (ONNX, operator Resize).
// The formulas are written once, for numbers that are known while compiling and for those that a
// run computes from its sizes.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_INTERPOLATION_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_INTERPOLATION_H

#include "dialects/Train/TrainBuilder.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cmath>

namespace trainc::legalize {

/// A number for each element of an axis: a tensor f64 [size], as a run computes it.
struct AxisNumber {
  train::TrainBuilder *tb;
  mlir::Value value;

  AxisNumber with(mlir::Value other) const { return {tb, other}; }
  AxisNumber of(double other) const { return with(tb->scalarLike(value, other)); }
};

inline AxisNumber operator+(AxisNumber a, AxisNumber b) {
  return a.with(a.tb->add(a.value, b.value));
}
inline AxisNumber operator-(AxisNumber a, AxisNumber b) {
  return a.with(a.tb->sub(a.value, b.value));
}
inline AxisNumber operator*(AxisNumber a, AxisNumber b) {
  return a.with(a.tb->mul(a.value, b.value));
}
inline AxisNumber operator/(AxisNumber a, AxisNumber b) {
  return a.with(a.tb->div(a.value, b.value));
}
inline AxisNumber operator+(AxisNumber a, double b) { return a + a.of(b); }
inline AxisNumber operator-(AxisNumber a, double b) { return a - a.of(b); }
inline AxisNumber operator*(AxisNumber a, double b) { return a * a.of(b); }
inline AxisNumber operator-(double a, AxisNumber b) { return b.of(a) - b; }
inline AxisNumber operator*(double a, AxisNumber b) { return b.of(a) * b; }

inline double roundDown(double x) { return std::floor(x); }
inline AxisNumber roundDown(AxisNumber x) { return x.with(x.tb->floor(x.value)); }
inline double smaller(double a, double b) { return std::min(a, b); }
inline AxisNumber smaller(AxisNumber a, AxisNumber b) {
  return a.with(a.tb->min(a.value, b.value));
}
inline AxisNumber smaller(AxisNumber a, double b) { return smaller(a, a.of(b)); }
inline double larger(double a, double b) { return std::max(a, b); }
inline AxisNumber larger(AxisNumber a, double b) {
  return a.with(a.tb->max(a.value, a.of(b).value));
}

/// The attributes of a Resize that say what an element of the result is made of.
struct Interpolation {
  llvm::StringRef mode, transform, nearest;
  double cubicA;
  /// Taps outside of the image have no weight, and the others more.
  bool excludeOutside;

  /// An element that is read, a whole number from 0 to size - 1, and its weight.
  template <typename N> struct Tap {
    N position, weight;
  };

  /// Where the element `o` of the result lies in the input. Sizes are at least 1.
  template <typename N> N source(N o, N from, N to, N scale) const {
    if (transform == "asymmetric")
      return o / scale;
    // The first and the last elements stay at the ends; a single one is the first.
    if (transform == "align_corners")
      return o * (from - 1) / larger(scale * from - 1, 1);
    N at = (o + 0.5) / scale - 0.5;
    // PyTorch has a single element at the start, not in the middle.
    if (transform == "pytorch_half_pixel")
      return at * smaller(to - 1, 1);
    // By what rounding has cut off the result, half on each side.
    if (transform == "half_pixel_symmetric")
      return from * 0.5 * (1 - to / (scale * from)) + at;
    return at;
  }

  /// The elements around a position of an axis, as many for every position.
  template <typename N> llvm::SmallVector<Tap<N>> taps(N position, N size) const {
    // At the border its elements are read again.
    auto clamp = [&](N at) { return smaller(larger(at, 0), size - 1); };
    if (mode == "nearest") {
      N at = roundNearest(position);
      return {{clamp(at), at * 0 + 1}};
    }
    if (mode == "linear") {
      position = clamp(position);
      N low = roundDown(position), t = position - low;
      return {{clamp(low), 1 - t}, {clamp(low + 1), t}};
    }
    // Keys' cubic convolution.
    double a = cubicA;
    N low = roundDown(position), t = position - low;
    auto near = [&](N d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    auto far = [&](N d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    N weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    llvm::SmallVector<Tap<N>> taps;
    for (int i = 0; i < 4; ++i) {
      N at = low + (i - 1.0), inside = clamp(at);
      if (excludeOutside) {
        // Whole numbers: 1 where both are the same, else 0.
        N distance = at - inside;
        weights[i] = weights[i] * (1 - smaller(distance * distance, 1));
      }
      taps.push_back({inside, weights[i]});
    }
    if (excludeOutside) {
      N sum = weights[0] + weights[1] + weights[2] + weights[3];
      for (Tap<N> &tap : taps)
        tap.weight = tap.weight / sum;
    }
    return taps;
  }

private:
  template <typename N> N roundNearest(N position) const {
    if (nearest == "floor")
      return roundDown(position);
    if (nearest == "ceil")
      return -1.0 * roundDown(-1.0 * position);
    if (nearest == "round_prefer_ceil")
      return roundDown(position + 0.5);
    // round_prefer_floor: half goes down.
    return -1.0 * roundDown(0.5 - position);
  }
};

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_INTERPOLATION_H
