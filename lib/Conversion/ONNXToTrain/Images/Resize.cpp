// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resize and Upsample, one axis after the other: whole factors repeat elements, others are weighted
// sums of one, two or four elements. Their positions are tables where sizes are known while
// compiling, and else computed by the run.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Images/Interpolation.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {
namespace {

/// Factors beyond these resize no image, and would not stay whole numbers of 64 bits.
constexpr double kLeastScale = 1e-6, kMostScale = 1e6;

/// Tables hold a position for each element of an axis.
constexpr int64_t kMostPositions = 1 << 20;

/// How one axis is resized.
/// Sizes may be of the batch; without a `scale` it is to / from.
struct AxisResize {
  int64_t axis;
  std::optional<double> scale;
  DimAttr from, to;
};

class Resizer {
  /// One axis at a time: a resize of several axes is the product of those of each.
public:
  explicit Resizer(NodeContext &c)
      : c(c), mode(c.attr("mode", "nearest")),
        transform(c.attr("coordinate_transformation_mode", "half_pixel")),
        nearest(c.attr("nearest_mode", "round_prefer_floor")) {
    // Before opset 11 there was one transformation.
    if (c.op.getOpType() == "Upsample" || c.op.getVersion() < 11) {
      transform = "asymmetric";
      nearest = "floor";
    }
  }

  LogicalResult run() {
    if (!c.needFloat(0))
      return failure();
    // What is not known here would give other pixels, so it is refused.
    if (c.attr("antialias", int64_t(0)) != 0)
      return c.fail("antialias is not supported; export with antialias=False");
    if (!llvm::is_contained({"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners",
                             "half_pixel_symmetric"},
                            transform))
      return c.fail("coordinate_transformation_mode '" + transform +
                    "' is not supported; half_pixel, pytorch_half_pixel, half_pixel_symmetric, "
                    "asymmetric and align_corners are");
    if (c.attr("keep_aspect_ratio_policy", "stretch") != "stretch")
      return c.fail(
          "keep_aspect_ratio_policy is not supported; give it the sizes that it comes to");
    std::optional<SmallVector<AxisResize>> axes = readAxes();
    if (!axes)
      return failure();
    Value x = c.tensor(0);
    for (const AxisResize &axis : *axes) {
      // By its scale too: positions depend on it even where sizes are equal.
      if (axis.from == axis.to && axis.scale == 1)
        continue;
      x = resize(x, axis);
      if (!x)
        return failure();
    }
    return c.set(x);
  }

private:
  std::optional<SmallVector<AxisResize>> readAxes() {
    // Resize of opset 10 and Upsample have (x, scales), later ones (x, roi, scales, sizes).
    bool old = c.op.getOpType() == "Upsample" || c.op.getVersion() < 11;
    int64_t scalesAt = old ? 1 : 2, rank = c.rank(0);
    SmallVector<int64_t> axes;
    // Absent means all.
    if (auto given = c.ints("axes")) {
      auto found = c.axes(*given, rank);
      if (!found)
        return std::nullopt;
      axes = *found;
    } else {
      for (int64_t axis = 0; axis < rank; ++axis)
        axes.push_back(axis);
    }
    auto fail = [&](const Twine &why) {
      (void)c.fail(why);
      return std::nullopt;
    };
    // Exporters give an empty list for an input that is not used.
    auto isGiven = [&](int64_t input) {
      return c.has(input) && !(c.rank(input) == 1 && c.dims(input)[0].isConstant(0));
    };
    SmallVector<AxisResize> result;
    if (isGiven(scalesAt) && !old && isGiven(3))
      return fail("it has both scales and sizes: leave one of them out");
    if (isGiven(scalesAt)) {
      const Content *scales = c.content(scalesAt);
      if (!scales || !scales->isReal() || scales->values.size() != axes.size())
        return fail("its scales are not constants, one an axis");
      for (auto [axis, value] : llvm::zip(axes, scales->values)) {
        DimAttr from = c.dims(0)[axis];
        // Also false for NaN.
        if (!(value.real >= kLeastScale && value.real <= kMostScale))
          return fail("its scale " + Twine(std::to_string(value.real)) +
                      " is not from 1e-6 to 1e6; give it sizes or another scale");
        std::optional<DimAttr> to = scaled(from, value.real);
        if (!to)
          return std::nullopt;
        result.push_back({axis, value.real, from, *to});
      }
      return result;
    }
    if (old || !isGiven(3))
      return fail("it has neither scales nor sizes");
    std::optional<Dims> sizes = c.sizes(3, "sizes");
    if (!sizes || !c.needSizes(*sizes))
      return std::nullopt;
    if (sizes->size() != axes.size())
      return fail("it needs one size an axis");
    for (auto [axis, to] : llvm::zip(axes, *sizes)) {
      DimAttr from = c.dims(0)[axis];
      // Of equal sizes.
      std::optional<double> scale = 1;
      if (from != to) {
        DimAttr factor = train::divideExactly(to, from);
        auto whole = factor ? factor.getConstant() : std::nullopt;
        auto a = from.getConstant(), b = to.getConstant();
        if (whole)
          scale = double(*whole);
        else if (a && b && *a > 0)
          scale = double(*b) / double(*a);
        else
          scale = std::nullopt;
      }
      result.push_back({axis, scale, from, to});
    }
    return result;
  }

  std::optional<DimAttr> scaled(DimAttr from, double scale) {
    if (auto size = from.getConstant()) {
      // No larger than fits, whatever the scale.
      DimAttr to = c.dim(int64_t(std::min(std::floor(double(*size) * scale), 0x1p62)));
      return c.needSizes(to) ? std::optional(to) : std::nullopt;
    }
    if (scale == std::floor(scale) && scale >= 1)
      return from * c.dim(int64_t(scale));
    // A whole divisor.
    double inverse = std::round(1 / scale);
    if (std::abs(inverse * scale - 1) < 1e-7)
      return train::floorDiv(from, c.dim(int64_t(inverse)));
    // Halves, quarters and so on are numbers that the scale is exactly.
    for (int64_t parts = 2; parts <= 64; parts *= 2)
      if (scale * parts == std::floor(scale * parts))
        return train::floorDiv(from * c.dim(int64_t(scale * parts)), c.dim(parts));
    (void)c.fail(
        "its scale " + Twine(std::to_string(scale)) + " of the size '" + from.str() +
        "', which is not known while compiling, is neither whole nor a number of halves to 64ths" +
        fixHint({from}));
    return std::nullopt;
  }

  Value resize(Value x, const AxisResize &r) {
    Dims dims = train::getDims(x);
    TrainBuilder &tb = c.tb;
    bool whole = r.scale && *r.scale == std::floor(*r.scale) && *r.scale >= 1 &&
                 // Exact for all sizes.
                 r.to == r.from * c.dim(int64_t(*r.scale));
    // The nearest of o / f, rounded down, and of (o + 0.5) / f - 0.5, rounded to nearest, is o / f.
    bool repeats =
        (transform == "asymmetric" && nearest == "floor") ||
        (transform != "asymmetric" && transform != "align_corners" && nearest.starts_with("round"));
    if (mode == "nearest" && whole && repeats) {
      Dims repeated = dims;
      repeated.insert(repeated.begin() + r.axis + 1, c.dim(int64_t(*r.scale)));
      // The new axis behind the one that is resized, where each element is repeated.
      SmallVector<int64_t> kept;
      for (int64_t axis = 0; axis < int64_t(repeated.size()); ++axis)
        if (axis != r.axis + 1)
          kept.push_back(axis);
      dims[r.axis] = r.to;
      return tb.reshape(tb.broadcast(x, repeated, kept), dims);
    }
    auto from = r.from.getConstant(), to = r.to.getConstant();
    if (!from || !to)
      return resizeAtRun(x, r);
    if (*from < 1 || *to < 1 || *to > kMostPositions) {
      (void)c.fail("its size '" + r.from.str() + "' cannot become '" + r.to.str() +
                   "'; sizes from 1 to " + Twine(kMostPositions) + " can");
      return {};
    }
    // Every element is a weighted sum of the same number of elements.
    SmallVector<SmallVector<int64_t>> positions;
    SmallVector<SmallVector<double>> weights;
    Interpolation how = interpolation();
    for (int64_t o = 0; o < *to; ++o) {
      double at = how.source(double(o), double(*from), double(*to), *r.scale);
      auto taps = how.taps(at, double(*from));
      // Of all elements alike, so that one gather for each tap does.
      positions.resize(taps.size());
      weights.resize(taps.size());
      for (auto [i, tap] : llvm::enumerate(taps)) {
        positions[i].push_back(int64_t(tap.position));
        weights[i].push_back(tap.weight);
      }
    }
    SmallVector<std::pair<Value, Value>> taps;
    for (auto [at, weight] : llvm::zip(positions, weights))
      taps.push_back(
          {indices(at), positions.size() > 1 ? table(weight, train::getElementType(x)) : Value()});
    return sumOfTaps(x, r, taps);
  }

  /// The same with positions and weights that the run computes from its sizes, in f64 as here.
  Value resizeAtRun(Value x, const AxisResize &r) {
    TrainBuilder &tb = c.tb;
    // An image without rows has no pixel to read: a check on the sizes of a batch.
    auto demand = [&](DimAttr size, int64_t least) {
      if (!c.state.bounds.atMost(c.dim(least), size))
        (void)c.state.bounds.demandAtMost(c.dim(least) - size, 0);
    };
    // So many that one is left.
    demand(r.from, r.scale ? std::max<int64_t>(1, std::ceil(1 / *r.scale - 1e-6)) : 1);
    demand(r.to, 1);
    Type real = tb.b().getF64Type();
    AxisNumber o{&tb, tb.iota({r.to}, real, 0)};
    auto sized = [&](DimAttr size) { return o.with(tb.splat(tb.dim(size, real), o.value)); };
    AxisNumber from = sized(r.from), to = sized(r.to);
    AxisNumber scale = r.scale ? o.of(*r.scale) : to / from;
    Interpolation how = interpolation();
    auto found = how.taps(how.source(o, from, to, scale), from);
    SmallVector<std::pair<Value, Value>> taps;
    for (auto [position, weight] : found)
      taps.push_back(
          {tb.cast(position.value, tb.b().getI64Type()),
           found.size() > 1 ? tb.cast(weight.value, train::getElementType(x)) : Value()});
    return sumOfTaps(x, r, taps);
  }

  /// The sum of the elements at `taps`, (positions, weights), along the axis; a null weight is 1.
  Value sumOfTaps(Value x, const AxisResize &r, ArrayRef<std::pair<Value, Value>> taps) {
    TrainBuilder &tb = c.tb;
    Dims dims = train::getDims(x);
    dims[r.axis] = r.to;
    Value sum;
    for (auto [at, weight] : taps) {
      // The taps in their order: sums are made the same way every time.
      Value y = tb.gather(x, at, r.axis);
      if (weight)
        y = tb.mul(y, tb.broadcast(weight, dims, {r.axis}));
      sum = sum ? tb.add(sum, y) : y;
    }
    return sum;
  }

  Interpolation interpolation() {
    // Keys' parameter, and the taps that count.
    return {mode, transform, nearest, c.attr("cubic_coeff_a", -0.75),
            c.attr("exclude_outside", int64_t(0)) != 0};
  }

  /// Weights, in the type that they are multiplied in.
  Value table(ArrayRef<double> values, Type element) {
    SmallVector<Attribute> attributes;
    for (double value : values)
      attributes.push_back(c.tb.b().getFloatAttr(element, value));
    auto type = RankedTensorType::get({int64_t(values.size())}, element);
    return c.tb.constant(DenseElementsAttr::get(type, attributes));
  }

  Value indices(ArrayRef<int64_t> values) {
    auto type = RankedTensorType::get({int64_t(values.size())}, c.tb.b().getI64Type());
    return c.tb.constant(DenseElementsAttr::get(type, values));
  }

  NodeContext &c;
  StringRef mode, transform, nearest;
};
} // namespace

static LogicalResult resize(NodeContext &c) { return Resizer(c).run(); }

void registerResize(HandlerTable &table) {
  table.add("Resize", resize, 1, 10);
  table.entries["Resize"].settings = {1, 2, 3};
  table.add("Upsample", resize, 2, 9);
  table.entries["Upsample"].settings = {1};
}

} // namespace trainc::legalize
