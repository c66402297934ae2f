// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resize and Upsample, one axis after the other: whole factors repeat elements, others are weighted
// sums of one, two or four elements at positions that are known while compiling.

#include "lib/Conversion/ONNXToTrain/NodeContext.h"
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
/// `to` may be a size of the batch; `scale` is always a number.
struct AxisResize {
  int64_t axis;
  double scale;
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
    if (mode != "nearest" && mode != "linear" && mode != "cubic")
      return c.fail("mode '" + mode + "' is not known");
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
      double scale = 1;
      if (from != to) {
        // Whole factors may be of unknown sizes.
        DimAttr factor = train::divideExactly(to, from);
        auto whole = factor ? factor.getConstant() : std::nullopt;
        auto a = from.getConstant(), b = to.getConstant();
        if (whole)
          scale = double(*whole);
        else if (a && b && *a > 0)
          scale = double(*b) / double(*a);
        else
          return fail("sizes '" + from.str() + "' to '" + to.str() +
                      "' have to be known while compiling" + fixHint({from, to}));
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
    (void)c.fail("its scale " + Twine(std::to_string(scale)) + " of the size '" + from.str() +
                 "', which is not known while compiling, is not whole" + fixHint({from}));
    return std::nullopt;
  }

  Value resize(Value x, const AxisResize &r) {
    Dims dims = train::getDims(x);
    TrainBuilder &tb = c.tb;
    bool whole =
        // Exact for all sizes.
        r.scale == std::floor(r.scale) && r.scale >= 1 && r.to == r.from * c.dim(int64_t(r.scale));
    // The nearest of o / f, rounded down, and of (o + 0.5) / f - 0.5, rounded to nearest, is o / f.
    bool repeats =
        (transform == "asymmetric" && nearest == "floor") ||
        (transform != "asymmetric" && transform != "align_corners" && nearest.starts_with("round"));
    if (mode == "nearest" && whole && repeats) {
      Dims repeated = dims;
      repeated.insert(repeated.begin() + r.axis + 1, c.dim(int64_t(r.scale)));
      // The new axis behind the one that is resized, where each element is repeated.
      SmallVector<int64_t> kept;
      for (int64_t axis = 0; axis < int64_t(repeated.size()); ++axis)
        if (axis != r.axis + 1)
          kept.push_back(axis);
      dims[r.axis] = r.to;
      return tb.reshape(tb.broadcast(x, repeated, kept), dims);
    }
    auto from = r.from.getConstant(), to = r.to.getConstant();
    // Tables are made while compiling.
    if (!from || !to) {
      (void)c.fail("size '" + r.from.str() + "' has to be known while compiling for this " + mode +
                   " resize" + fixHint({r.from, r.to}));
      return {};
    }
    if (*from < 1 || *to < 1 || *to > kMostPositions) {
      (void)c.fail("its size '" + r.from.str() + "' cannot become '" + r.to.str() +
                   "'; sizes from 1 to " + Twine(kMostPositions) + " can");
      return {};
    }
    // Every element is a weighted sum of the same number of elements.
    SmallVector<SmallVector<int64_t>> positions;
    SmallVector<SmallVector<double>> weights;
    for (int64_t o = 0; o < *to; ++o) {
      std::vector<Tap> taps = tapsAt(source(o, *from, *to, r.scale), *from);
      // Of all elements alike, so that one gather for each tap does.
      positions.resize(taps.size());
      weights.resize(taps.size());
      for (auto [i, tap] : llvm::enumerate(taps)) {
        positions[i].push_back(tap.position);
        weights[i].push_back(tap.weight);
      }
    }
    Value sum;
    dims[r.axis] = r.to;
    for (auto [at, weight] : llvm::zip(positions, weights)) {
      // The taps in their order: sums are made the same way every time.
      Value y = tb.gather(x, indices(at), r.axis);
      if (positions.size() > 1)
        y = tb.mul(y, tb.broadcast(table(weight, train::getElementType(x)), dims, {r.axis}));
      sum = sum ? tb.add(sum, y) : y;
    }
    return sum;
  }

  struct Tap {
    int64_t position;
    double weight;
  };

  /// The elements around a position of an axis, with their weights.
  std::vector<Tap> tapsAt(double position, int64_t size) {
    // At the border its elements are read again.
    auto clamp = [&](double at) { return std::clamp<int64_t>(int64_t(at), 0, size - 1); };
    if (mode == "nearest")
      return {{clamp(roundNearest(position)), 1}};
    if (mode == "linear") {
      position = std::clamp(position, 0.0, double(size - 1));
      double low = std::floor(position), t = position - low;
      return {{clamp(low), 1 - t}, {clamp(low + 1), t}};
    }
    // Keys' cubic convolution.
    assert(size > 0 && "resize has asked");
    double a = c.attr("cubic_coeff_a", -0.75), low = std::floor(position), t = position - low;
    auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    double weights[] = {far(1 + t), near(t), near(1 - t), far(2 - t)};
    // The rest of the weights is scaled up then.
    bool exclude = c.attr("exclude_outside", int64_t(0)) != 0;
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      double at = low - 1 + i;
      if (exclude && (at < 0 || at >= double(size)))
        weights[i] = 0;
      sum += weights[i];
    }
    std::vector<Tap> taps;
    for (int i = 0; i < 4; ++i)
      taps.push_back({clamp(low - 1 + i), exclude ? weights[i] / sum : weights[i]});
    return taps;
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

  /// Where the element `o` of the result lies in the input.
  double source(int64_t o, int64_t from, int64_t to, double scale) {
    double at = double(o);
    if (transform == "asymmetric")
      return at / scale;
    // The first and the last elements stay at the ends.
    if (transform == "align_corners")
      return to == 1 ? 0 : at * double(from - 1) / (scale * double(from) - 1);
    // PyTorch has a single element at the start, not in the middle.
    if (transform == "pytorch_half_pixel" && to == 1)
      return 0;
    double offset = 0;
    // By what rounding has cut off the result, half on each side.
    if (transform == "half_pixel_symmetric") {
      double adjustment = double(to) / (scale * double(from));
      offset = double(from) / 2 * (1 - adjustment);
    }
    return offset + (at + 0.5) / scale - 0.5;
  }

  double roundNearest(double position) {
    if (nearest == "floor")
      return std::floor(position);
    if (nearest == "ceil")
      return std::ceil(position);
    if (nearest == "round_prefer_ceil")
      return std::floor(position + 0.5);
    // round_prefer_floor: half goes down.
    return std::ceil(position - 0.5);
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
