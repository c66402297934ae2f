// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images read at positions that are computed (spatial transformers, deformable sampling): every
// result is a weighted sum of the pixels around a position, whose rows of channels are gathered.
// So the image's gradient is a sum of rows, and the positions' comes through the weights.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {
namespace {

/// The type that positions and weights are computed in.
FloatType computeType(NodeContext &c, ArrayRef<int64_t> inputs) {
  bool wide = llvm::any_of(inputs, [&](int64_t input) { return c.element(input).isF64(); });
  return wide ? c.tb.b().getF64Type() : c.tb.b().getF32Type();
}

/// A size as a number, of the type of `like`.
Value number(TrainBuilder &tb, DimAttr size, Value like) {
  if (auto constant = size.getConstant())
    return tb.scalarLike(like, double(*constant));
  return tb.splat(tb.dim(size, train::getElementType(like)), like);
}

class GridSampler {
public:
  explicit GridSampler(NodeContext &c)
      : c(c), tb(c.tb), padding(c.attr("padding_mode", "zeros")),
        align(c.attr("align_corners", int64_t(0)) != 0) {
    // The names before opset 20, and since then.
    StringRef given = c.attr("mode", c.version() < 20 ? "bilinear" : "linear");
    mode = llvm::StringSwitch<Mode>(given)
               .Case("nearest", Mode::Nearest)
               .Cases({"linear", "bilinear"}, Mode::Linear)
               .Default(Mode::Cubic);
  }

  LogicalResult run() {
    if (!c.needFloat(0) || !c.needFloat(1))
      return failure();
    int64_t axes = c.rank(0) - 2;
    if (axes < 1)
      return c.fail("its input is not [batch, channels, axes...]");
    // What is not known now is checked with the sizes of each run.
    const Dims &image = c.dims(0), &grid = c.dims(1);
    if (int64_t(grid.size()) != axes + 2 || grid.front() != image.front() ||
        !grid.back().isConstant(axes))
      return c.fail("its grid is not [batch, positions..., " + Twine(axes) +
                    "], as many axes as its input and a coordinate for each");
    for (DimAttr size : ArrayRef(image).drop_front(2))
      if (size.isConstant(0))
        return c.fail("its input has no pixels");
    batch = image[0];
    positions = train::product(c.context(), ArrayRef(grid).slice(1, axes));
    // Positions in 16 bits would miss pixels.
    real = computeType(c, {0, 1});
    return sample(axes);
  }

private:
  enum class Mode { Nearest, Linear, Cubic };

  /// The pixels around the positions along one axis: [taps, batch, positions].
  struct Taps {
    Value index;  // i64, in range
    Value weight; // null: 1
    Value inside; // null: all are
  };

  LogicalResult sample(int64_t axes) {
    const Dims &image = c.dims(0);
    // Neighbours along each axis: 1, 2 or 4.
    int64_t count = mode == Mode::Nearest ? 1 : mode == Mode::Linear ? 2 : 4;
    Value grid = tb.cast(c.tensor(1), real);
    grid = tb.reshape(grid, {batch, positions, c.dim(axes)});
    // One axis of taps for each axis of the image.
    // Taps of all axes are combined: count ^ axes pixels for each position.
    Dims dims(axes, c.dim(count)), pixels(image.begin() + 2, image.end());
    dims.append({batch, positions});
    Value row, weight, inside;
    // Elements are rows of channels, the innermost axis of the image fastest.
    DimAttr stride = c.dim(1);
    for (int64_t axis = axes - 1; axis >= 0; --axis) {
      // The innermost axis comes first.
      Value at = tb.sliceAxis(grid, 2, c.dim(axes - 1 - axis), c.dim(1));
      Taps taps = tapsOf(tb.reshape(at, {batch, positions}), pixels[axis], count);
      auto spread = [&](Value x) { return tb.broadcast(x, dims, {axis, axes, axes + 1}); };
      Value index = spread(taps.index);
      index = tb.mul(index, number(tb, stride, index));
      row = row ? tb.add(row, index) : index;
      if (taps.weight)
        weight = weight ? tb.mul(weight, spread(taps.weight)) : spread(taps.weight);
      if (taps.inside)
        inside = inside ? tb.logicalAnd(inside, spread(taps.inside)) : spread(taps.inside);
      // From inside to outside: the stride of the next axis.
      stride = stride * pixels[axis];
    }
    // Images of a batch lie one after the other.
    Value sampleNumber = tb.iota(dims, tb.b().getI64Type(), axes);
    row = tb.add(row, tb.mul(sampleNumber, number(tb, stride, sampleNumber)));

    // Rows of channels.
    SmallVector<int64_t> order = {0};
    for (int64_t axis = 0; axis < axes; ++axis)
      order.push_back(axis + 2);
    order.push_back(1);
    Value x = tb.transpose(tb.cast(c.tensor(0), real), order);
    x = tb.reshape(x, {batch * stride, image[1]});
    int64_t all = 1;
    // Small: 4 ^ 3 at most.
    for (int64_t axis = 0; axis < axes; ++axis)
      all *= count;
    Dims flat = {c.dim(all), batch, positions}, rows = flat;
    rows.push_back(image[1]);
    auto ofRows = [&](Value v) { return tb.broadcast(tb.reshape(v, flat), rows, {0, 1, 2}); };
    Value y = tb.gather(x, tb.reshape(row, flat), 0);
    if (weight)
      y = tb.mul(y, ofRows(weight));
    // A select instead of a product: what is not read may be infinite.
    if (inside)
      y = tb.select(ofRows(inside), y, tb.scalarLike(y, 0));
    y = tb.transpose(tb.sum(y, {0}), {0, 2, 1});
    Dims result = {batch, image[1]};
    // The positions' axes as they came.
    result.append(c.dims(1).begin() + 1, c.dims(1).end() - 1);
    return c.set(tb.cast(tb.reshape(y, result), c.element(0)));
  }

  /// x, or a bound where it is not between them, without a gradient there; NaN becomes the lower.
  Value clamp(Value x, Value low, Value high) {
    // Comparisons with NaN are false, so the bound is chosen.
    x = tb.select(tb.compare("gt", x, low), x, low);
    return tb.select(tb.compare("lt", x, high), x, high);
  }

  /// x mirrored at the ends until it lies between them; a NaN where they are one.
  Value reflect(Value x, DimAttr size) {
    auto is = [&](double value) { return tb.scalarLike(x, value); };
    Value low = is(align ? 0 : -0.5), span = number(tb, size, x);
    if (align)
      span = tb.sub(span, is(1));
    // There and back.
    Value period = tb.mul(span, is(2)), offset = tb.sub(x, low);
    Value turn = train::ModOp::create(tb.b(), tb.loc(), x.getType(), offset, period);
    turn = tb.select(tb.compare("gt", turn, span), tb.sub(period, turn), turn);
    Value isBetween =
        tb.logicalAnd(tb.compare("ge", offset, is(0)), tb.compare("le", offset, span));
    // Positions that are inside stay exactly as they are.
    return tb.select(isBetween, x, tb.add(turn, low));
  }

  /// Where a coordinate in [-1, 1] lies among the pixels, as far as its padding lets it.
  Value place(Value at, DimAttr size) {
    auto is = [&](double value) { return tb.scalarLike(at, value); };
    Value extent = number(tb, size, at), last = tb.sub(extent, is(1)), p = tb.add(at, is(1));
    // Corners are pixels' centers, or their edges.
    p = align ? tb.mul(tb.mul(p, is(0.5)), last)
              : tb.mul(tb.sub(tb.mul(p, extent), is(1)), is(0.5));
    if (mode == Mode::Nearest)
      p = train::RoundOp::create(tb.b(), tb.loc(), p.getType(), p);
    // Beyond these nothing is read, or the pixel at the border only. (The cubic weights of a
    // position outside are its own there, as PyTorch and ONNX Runtime have it.)
    if (padding == "zeros" || (padding == "border" && mode == Mode::Cubic))
      return clamp(p, is(-3), tb.add(extent, is(2)));
    if (padding == "border")
      return clamp(p, is(0), last);
    Value low = is(align ? 0 : -0.5), high = align ? last : tb.add(last, is(0.5));
    return clamp(reflect(p, size), low, high);
  }

  Taps tapsOf(Value at, DimAttr size, int64_t count) {
    Value p = place(at, size), first = p;
    Dims dims = {c.dim(count), batch, positions};
    auto spread = [&](Value x) { return tb.broadcast(x, dims, {1, 2}); };
    Taps taps;
    if (mode != Mode::Nearest) {
      // The pixel before the position; the distance from it is the weight.
      first = tb.floor(p);
      taps.weight = weights(spread(tb.sub(p, first)), dims);
    }
    Value index = tb.add(spread(first), tb.iota(dims, real, 0));
    Value zero = tb.scalarLike(index, 0);
    // One further to the left.
    if (mode == Mode::Cubic)
      index = tb.sub(index, tb.scalarLike(index, 1));
    Value last = tb.sub(number(tb, size, index), tb.scalarLike(index, 1));
    if (padding == "zeros")
      taps.inside = tb.logicalAnd(tb.compare("ge", index, zero), tb.compare("le", index, last));
    else if (padding == "reflection")
      index = reflect(index, size);
    // Safe to read whatever the position is; `inside` takes care of the rest.
    taps.index = tb.cast(clamp(index, zero, last), tb.b().getI64Type());
    return taps;
  }

  /// Weights of the taps, polynomials in the distance from the pixel before: 1 - t and t, or Keys'
  /// cubic convolution with a = -3/4.
  Value weights(Value t, ArrayRef<DimAttr> dims) {
    constexpr double a = -0.75;
    SmallVector<SmallVector<double>> powers;
    if (mode == Mode::Linear)
      powers = {{1, 0}, {-1, 1}};
    else
      powers = {
          {0, 1, 0, 0}, {a, 0, -a, 0}, {-2 * a, -a - 3, 2 * a + 3, a}, {a, a + 2, -a - 2, -a}};
    Value sum;
    // Horner's rule, one table of coefficients for each power.
    for (ArrayRef<double> ofTaps : llvm::reverse(powers)) {
      SmallVector<Attribute> values;
      for (double value : ofTaps)
        values.push_back(tb.b().getFloatAttr(real, value));
      auto type = RankedTensorType::get({int64_t(values.size())}, real);
      Value term = tb.broadcast(tb.constant(DenseElementsAttr::get(type, values)), dims, {0});
      sum = sum ? tb.add(tb.mul(sum, t), term) : term;
    }
    return sum;
  }

  NodeContext &c;
  TrainBuilder &tb;
  StringRef padding;
  Mode mode;
  bool align;
  FloatType real;
  DimAttr batch, positions;
};

LogicalResult gridSample(NodeContext &c) { return GridSampler(c).run(); }

/// AffineGrid: theta times the positions of all pixels, the innermost axis first, and 1.
LogicalResult affineGrid(NodeContext &c) {
  std::optional<Dims> size = c.sizes(1, "size");
  if (!c.needFloat(0) || !size || !c.needSizes(*size))
    return failure();
  int64_t axes = int64_t(size->size()) - 2;
  if (axes != 2 && axes != 3)
    return c.fail("its size is not [batch, channels, height, width] or one of three axes");
  // One matrix a sample.
  if (c.dims(0) != Dims{(*size)[0], c.dim(axes), c.dim(axes + 1)})
    return c.fail("its theta is not [" + (*size)[0].str() + ", " + Twine(axes) + ", " +
                  Twine(axes + 1) + "], as its size has it");
  TrainBuilder &tb = c.tb;
  bool align = c.attr("align_corners", int64_t(0)) != 0;
  FloatType real = computeType(c, {0});
  Dims dims = {(*size)[0]};
  dims.append(size->begin() + 2, size->end());
  dims.push_back(c.dim(axes));
  Value theta = tb.cast(c.tensor(0), real), sum;
  // The columns of theta, each times one coordinate of all pixels; the last is the offset.
  for (int64_t column = 0; column <= axes; ++column) {
    Value factor = tb.sliceAxis(theta, 2, c.dim(column), c.dim(1));
    factor = tb.broadcast(tb.reshape(factor, {dims.front(), c.dim(axes)}), dims, {0, axes + 1});
    if (column == axes) {
      sum = tb.add(sum, factor);
      break;
    }
    int64_t axis = axes - column; // of dims
    Value at = tb.iota(dims, real, axis), extent = number(tb, dims[axis], at);
    auto is = [&](double value) { return tb.scalarLike(at, value); };
    if (align) {
      // In the middle of a single pixel, as PyTorch has it.
      Value steps = tb.sub(extent, is(1));
      at = tb.sub(tb.div(tb.mul(at, is(2)), tb.max(steps, is(1))), tb.min(steps, is(1)));
    } else {
      // The centers of pixels, with edges at -1 and 1.
      at = tb.sub(tb.div(tb.add(tb.mul(at, is(2)), is(1)), extent), is(1));
    }
    Value term = tb.mul(factor, at);
    sum = sum ? tb.add(sum, term) : term;
  }
  return c.set(tb.cast(sum, c.element(0)));
}

} // namespace

void registerGridSample(HandlerTable &table) {
  table.addExact("GridSample", gridSample, 2, 16);
  table.addExact("AffineGrid", affineGrid, 2, 20);
}

} // namespace trainc::legalize
