// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants, shapes and their changes: Reshape, Expand, Slice, Concat, Transpose, Range and
// friends. On known small tensors they are evaluated; on data they become access ops.

#include "lib/Conversion/ONNXToTrain/ExportHazards.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// All of them numbers, or nullopt.
static std::optional<SmallVector<int64_t>> constantDims(ArrayRef<DimAttr> dims) {
  SmallVector<int64_t> result;
  for (DimAttr size : dims) {
    if (!size.getConstant())
      return std::nullopt;
    result.push_back(*size.getConstant());
  }
  return result;
}

/// Exporters fold leading axes around a transpose of the last two: [a, b, m, n] -> [a*b, m, n] ->
/// [a*b, n, m] -> [a, b, n, m]. That is one transpose, which a matmul reads for free.
static Value unfoldTranspose(TrainBuilder &tb, Value x, ArrayRef<DimAttr> dims) {
  auto transpose = x.getDefiningOp<train::TransposeOp>();
  auto fold =
      transpose ? transpose.getOperand().getDefiningOp<train::ReshapeOp>() : train::ReshapeOp();
  // [a*b, n, m] only: other permutations have other meanings.
  if (!fold || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1})
    return {};
  Dims from = train::getDims(fold.getOperand());
  size_t rank = from.size();
  // The last two axes are those that went through the transpose unchanged.
  if (rank != dims.size() || rank < 3 || train::getDim(x, 1) != from[rank - 1] ||
      train::getDim(x, 2) != from[rank - 2])
    return {};
  Dims to = from;
  // And the result is the first shape with these two swapped.
  std::swap(to[rank - 1], to[rank - 2]);
  if (to != Dims(dims))
    return {};
  SmallVector<int64_t> permutation;
  for (size_t i = 0; i < rank; ++i)
    permutation.push_back(i);
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  return tb.transpose(fold.getOperand(), permutation);
}

/// Input 0 with other dims, known or not.
static LogicalResult reshapeTo(NodeContext &c, ArrayRef<DimAttr> dims) {
  LegalValue &x = c.in(0);
  // Many reshapes change nothing.
  if (x.dims == Dims(dims))
    return c.alias(x);
  const Content *known = c.content(0);
  std::optional<SmallVector<int64_t>> shape = constantDims(dims);
  // Small ones move with their elements, large constants as attributes: neither makes an op.
  if (known && shape)
    return c.set(Content{known->element, *shape, known->values});
  if (x.constant && shape) {
    LegalValue &result = c.state.valueOf(c.op.getOutputs()[0]);
    result.dims = Dims(dims);
    result.element = x.element;
    result.constant = x.constant.reshape(RankedTensorType::get(*shape, x.element));
    return success();
  }
  Value tensor = c.tensor(0);
  if (Value transposed = unfoldTranspose(c.tb, tensor, dims))
    return c.set(transposed);
  return c.set(c.tb.reshape(tensor, dims));
}

//===- Constants ----------------------------------------------------------===//

static LogicalResult constant(NodeContext &c) {
  // Its attribute's name says the type, of which there is one.
  if (c.op.getNodeAttributes().size() != 1)
    return c.fail("it needs exactly one value");
  NamedAttribute entry = *c.op.getNodeAttributes().begin();
  Attribute value = entry.getValue();
  Builder &b = c.tb.b();
  DenseElementsAttr dense;
  if (auto tensor = dyn_cast<DenseElementsAttr>(value))
    dense = tensor;
  else if (auto number = dyn_cast<IntegerAttr>(value))
    dense = DenseElementsAttr::get(RankedTensorType::get({}, b.getI64Type()), number.getInt());
  else if (auto number = dyn_cast<FloatAttr>(value))
    dense = DenseElementsAttr::get(RankedTensorType::get({}, b.getF32Type()), number.getValue());
  else if (auto array = dyn_cast<DenseI64ArrayAttr>(value))
    dense = DenseElementsAttr::get(RankedTensorType::get({array.size()}, b.getI64Type()),
                                   array.asArrayRef());
  else if (auto array = dyn_cast<DenseF32ArrayAttr>(value))
    dense = DenseElementsAttr::get(RankedTensorType::get({array.size()}, b.getF32Type()),
                                   array.asArrayRef());
  // Of a type that is only stored, such as a string, nothing is made.
  LegalValue &result = c.state.valueOf(c.op.getOutputs()[0]);
  if (dense) {
    // As they are in the file; arithmetic is in the carrier.
    result.unsignedBits = unsignedBitsOf(dense.getElementType());
    dense = toCarrier(dense);
  }
  if (!dense || !isComputed(dense.getElementType()))
    return c.fail("'" + entry.getName().getValue() + "' of this element type is not supported");
  result.element = dense.getElementType();
  for (int64_t size : dense.getType().getShape())
    result.dims.push_back(c.dim(size));
  result.constant = dense;
  return success();
}

static LogicalResult identity(NodeContext &c) {
  // PyTorch's detach(), by the exporter's note on the node.
  // Sizes and sequences have no gradients.
  if (c.rawAttr("detach") && !c.in(0).isSequence && isa<FloatType>(c.element(0)) && !c.content(0)) {
    Value x = c.tensor(0);
    return c.set(train::DetachOp::create(c.tb.b(), c.tb.loc(), x.getType(), x));
  }
  return c.alias(c.in(0));
}

/// `value` repeated to `dims`: content where small, else a full tensor.
static LogicalResult fill(NodeContext &c, ArrayRef<DimAttr> dims, Type element, Scalar value) {
  std::optional<SmallVector<int64_t>> shape = constantDims(dims);
  // Saturated: any count above the limit will do.
  int64_t count = 1;
  for (int64_t size : shape.value_or(SmallVector<int64_t>()))
    count = llvm::SaturatingMultiply<uint64_t>(count, size) > uint64_t(kMaxContent)
                ? kMaxContent + 1
                : count * size;
  if (shape && count <= kMaxContent)
    return c.set(Content{element, *shape, SmallVector<Scalar>(count, value)});
  Value scalar = materialize(c.tb, makeScalar(element, value));
  // A scalar, repeated: no table.
  return c.set(c.broadcastTo(scalar, dims));
}

static LogicalResult constantOfShape(NodeContext &c) {
  std::optional<Dims> dims = c.sizes(0, "shape");
  if (!dims || !c.needSizes(*dims))
    return failure();
  // Absent: 0 of f32.
  Type element = c.tb.b().getF32Type();
  Scalar value;
  unsigned unsignedBits = 0;
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(c.rawAttr("value"))) {
    unsignedBits = unsignedBitsOf(dense.getElementType());
    std::optional<Content> content = contentOf(toCarrier(dense));
    if (!content || content->values.size() != 1 || !isComputed(content->element))
      return c.fail("its value of this element type is not supported");
    element = content->element;
    value = content->values[0];
  }
  if (failed(fill(c, *dims, element, value)))
    return failure();
  // Wrapped already: the value was of the unsigned type.
  c.state.valueOf(c.op.getOutputs()[0]).unsignedBits = unsignedBits;
  return success();
}

static LogicalResult range(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  Type element = c.element(0);
  // Numbers only: a real length that depends on sizes has no polynomial.
  if (isa<FloatType>(element)) {
    auto start = c.realConstant(0, "start"), limit = c.realConstant(1, "limit"),
         delta = c.realConstant(2, "delta");
    if (!start || !limit || !delta)
      return failure();
    double count = std::ceil((*limit - *start) / *delta);
    // Also for NaN, from a delta of 0.
    if (!(count < 1e9))
      return c.fail("its length is not finite");
    Dims dims = {c.dim(std::max<int64_t>(0, int64_t(count)))};
    Value x = tb.iota(dims, element, 0);
    return c.set(tb.add(tb.mul(x, tb.scalarLike(x, *delta)), tb.scalarLike(x, *start)));
  }
  if (!c.needInteger(0) || !c.needInteger(1) || !c.needInteger(2))
    return failure();
  // Start and limit may be sizes; the step is a number.
  auto start = c.sizes(0, "start"), limit = c.sizes(1, "limit");
  auto delta = c.constants(2, "delta");
  if (!start || !limit || !delta)
    return failure();
  if (start->size() != 1 || limit->size() != 1 || delta->size() != 1 || (*delta)[0] == 0 ||
      (*delta)[0] == INT64_MIN)
    return c.fail("its start, limit and delta have to be scalars, delta not 0");
  int64_t step = (*delta)[0];
  // Downwards it is the same the other way round.
  DimAttr first = (*start)[0], span = step > 0 ? (*limit)[0] - first : first - (*limit)[0];
  int64_t stride = std::abs(step);
  DimAttr count = stride == 1 ? span : train::floorDiv(span + c.dim(stride - 1), c.dim(stride));
  // An empty range where the limit is behind the start.
  count = c.state.bounds.max(count, c.dim(0));
  if (!c.needSizes({count}))
    return failure();
  auto known = count.getConstant();
  // Short ones are lists of sizes.
  if (known && *known <= kMaxContent) {
    Content content{element, {*known}, {}};
    for (int64_t i = 0; i < *known; ++i)
      content.values.push_back({first + c.dim(i * step), 0});
    return c.set(std::move(content));
  }
  // Longer ones are positions, which other passes see through.
  Value x = tb.iota({count}, element, 0);
  if (step != 1)
    x = tb.mul(x, tb.scalarLike(x, double(step)));
  if (!first.isConstant(0))
    x = tb.add(x, tb.splat(tb.cast(tb.dim(first, tb.b().getI64Type()), element), x));
  return c.set(x);
}

//===- Shape --------------------------------------------------------------===//

static LogicalResult shape(NodeContext &c) {
  const Dims &dims = c.dims(0);
  int64_t rank = dims.size();
  // Since opset 15, a part of the shape.
  int64_t start = c.attr("start", int64_t(0)), end = c.attr("end", rank);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamp(start);
  // Empty where the end is before the start.
  end = std::max(start, clamp(end));
  return c.set(makeSizes(c.context(), ArrayRef<DimAttr>(dims).slice(start, end - start)));
}

static LogicalResult size(NodeContext &c) {
  return c.set(makeScalar(c.tb.b().getI64Type(), {train::product(c.context(), c.dims(0)), 0}));
}

static LogicalResult reshape(NodeContext &c) {
  std::optional<Dims> wanted = c.sizes(1, "shape");
  if (!wanted)
    return failure();
  const Dims &from = c.dims(0);
  bool allowZero = c.attr("allowzero", int64_t(0));
  std::optional<size_t> inferred;
  Dims dims;
  // -1 is what is left, 0 the input's own size, if that is not switched off.
  for (auto [i, size] : llvm::enumerate(*wanted)) {
    if (size.isConstant(-1)) {
      if (inferred)
        return c.fail("its shape has -1 twice");
      inferred = i;
      // One, until it is known.
      dims.push_back(c.dim(1));
    } else if (size.isConstant(0) && !allowZero) {
      if (i >= from.size())
        return c.fail("its shape keeps an axis that the input does not have");
      dims.push_back(from[i]);
    } else {
      dims.push_back(size);
    }
  }
  // Before anything is multiplied.
  if (!c.needSizes(dims))
    return failure();
  DimAttr total = train::product(c.context(), from), rest = train::product(c.context(), dims);
  if (inferred) {
    // For every size, not only for those of the example.
    DimAttr quotient = train::divideExactly(total, rest);
    if (!quotient)
      return c.fail("'" + total.str() + "' elements cannot be cut into '" + rest.str() +
                    "' for every size" + fixHint({total, rest}));
    // The same number of elements, as polynomials.
    dims[*inferred] = quotient;
  } else if (total != rest) {
    demandEqual(c, total, rest);
    return c.fail("its input has '" + total.str() + "' elements, its shape '" + rest.str() +
                  "'; the export fixed this shape: export with the size dynamic" +
                  fixHint({total, rest}));
  }
  return reshapeTo(c, dims);
}

static LogicalResult flatten(NodeContext &c) {
  int64_t rank = c.rank(0), at = c.attr("axis", int64_t(1));
  if (at < -rank || at > rank)
    return c.fail("its axis is out of range");
  // An axis of `rank` has nothing behind it.
  at = at < 0 ? at + rank : at;
  ArrayRef<DimAttr> dims = c.dims(0);
  Dims flat = {train::product(c.context(), dims.take_front(at)),
               train::product(c.context(), dims.drop_front(at))};
  return reshapeTo(c, flat);
}

static LogicalResult unsqueeze(NodeContext &c) {
  auto values = c.list(1, "axes");
  if (!values)
    return failure();
  // Axes count in the result.
  int64_t rank = c.rank(0) + values->size();
  std::optional<Axes> axes = c.axes(*values, rank);
  if (!axes)
    return failure();
  Dims dims;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    dims.push_back(llvm::is_contained(*axes, i) ? c.dim(1) : c.dims(0)[next++]);
  return reshapeTo(c, dims);
}

static LogicalResult squeeze(NodeContext &c) {
  Axes axes;
  // Absent: all axes of size 1 that are known.
  if (c.has(1) || c.ints("axes")) {
    auto values = c.list(1, "axes");
    auto found = values ? c.axes(*values, c.rank(0)) : std::nullopt;
    if (!found)
      return failure();
    axes = *found;
  } else {
    for (auto [i, size] : llvm::enumerate(c.dims(0)))
      if (size.isConstant(1))
        axes.push_back(i);
  }
  // A size that may be other than 1 cannot go.
  Dims dims;
  for (auto [i, size] : llvm::enumerate(c.dims(0))) {
    if (!llvm::is_contained(axes, int64_t(i)))
      dims.push_back(size);
    else if (!size.isConstant(1))
      return c.fail("it drops an axis of size '" + size.str() + "', which is not 1");
  }
  return reshapeTo(c, dims);
}

static LogicalResult expand(NodeContext &c) {
  std::optional<Dims> wanted = c.sizes(1, "shape");
  if (!wanted || !c.needSizes(*wanted))
    return failure();
  std::optional<Dims> dims = c.broadcastDims({c.dims(0), *wanted});
  if (!dims)
    return failure();
  // Exporters expand to what is there.
  if (*dims == c.dims(0))
    return c.alias(c.in(0));
  const Content *known = c.content(0);
  // Equal elements need no broadcast.
  if (known && !known->values.empty() && llvm::all_of(known->values, [&](const Scalar &value) {
        return value.dim == known->values[0].dim &&
               std::equal_to<double>()(value.real, known->values[0].real);
      }))
    return fill(c, *dims, known->element, known->values[0]);
  return c.set(c.broadcastTo(c.tensor(0), *dims));
}

static LogicalResult tile(NodeContext &c) {
  std::optional<Dims> repeats = c.sizes(1, "repeats");
  if (!repeats || !c.needSizes(*repeats))
    return failure();
  Dims from = c.dims(0);
  if (repeats->size() != from.size())
    return c.fail("it needs one repeat an axis");
  // Each axis becomes two: repeats, which grow, and elements.
  Dims split, grown, merged;
  for (auto [size, repeat] : llvm::zip(from, *repeats)) {
    split.append({c.dim(1), size});
    grown.append({repeat, size});
    merged.push_back(size * repeat);
  }
  // All repeats are 1.
  if (merged == from)
    return c.alias(c.in(0));
  Value x = c.tb.reshape(c.tensor(0), split);
  return c.set(c.tb.reshape(c.broadcastTo(x, grown), merged));
}

/// Known elements of `shape`; the one at an index is that of `x` at `from(index)`.
static Content gatherContent(const Content &x, ArrayRef<int64_t> shape,
                             llvm::function_ref<SmallVector<int64_t>(ArrayRef<int64_t>)> from) {
  Content result{x.element, SmallVector<int64_t>(shape), {}};
  int64_t count = llvm::product_of(shape);
  // Row-major, as `shape` is counted.
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = 0;
    for (auto [at, size] : llvm::zip(from(index), x.shape))
      position = position * size + at;
    result.values.push_back(x.values[position]);
    // The next index, the last axis fastest.
    for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
  return result;
}

static SmallVector<int64_t> permuted(ArrayRef<int64_t> shape, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result;
  for (int64_t axis : permutation)
    result.push_back(shape[axis]);
  return result;
}

static LogicalResult transpose(NodeContext &c) {
  int64_t rank = c.rank(0);
  SmallVector<int64_t> permutation;
  if (auto given = c.ints("perm")) {
    std::optional<Axes> axes = c.axes(*given, rank);
    if (!axes)
      return failure();
    if (int64_t(axes->size()) != rank)
      return c.fail("its perm does not name every axis");
    permutation = *axes;
  } else {
    // The default reverses all axes.
    for (int64_t i = rank - 1; i >= 0; --i)
      permutation.push_back(i);
  }
  if (llvm::is_sorted(permutation))
    return c.alias(c.in(0));
  // Lists of lists of sizes are rare, but small.
  if (const Content *known = c.content(0))
    return c.set(
        gatherContent(*known, permuted(known->shape, permutation), [&](ArrayRef<int64_t> index) {
          SmallVector<int64_t> source(index.size());
          for (auto [i, axis] : llvm::enumerate(permutation))
            source[axis] = index[i];
          return source;
        }));
  return c.set(c.tb.transpose(c.tensor(0), permutation));
}

//===- Slices and joins ---------------------------------------------------===//

namespace {
/// A bound of a Slice, as ONNX clamps it into [0, size] (or [-1, size - 1] backwards).
struct SliceBound {
  DimAttr at;
  /// What the length is made of. Forwards that is the bound with one clamp left out: a beginning
  /// behind the end and an end before the beginning leave nothing anyway, and sizes that are the
  /// same are written the same: x[:, 3:] and x[:, :-3] both have max(0, seq - 3) places.
  DimAttr counted;
};
} // namespace

static std::optional<SliceBound> clampBound(NodeContext &c, DimAttr bound, DimAttr size, bool isEnd,
                                            bool backwards) {
  Bounds &bounds = c.state.bounds;
  // Backwards an end may be before the first element.
  DimAttr low = c.dim(backwards && isEnd ? -1 : 0);
  DimAttr high = backwards ? size - c.dim(1) : size;
  auto clamp = [&](DimAttr bound) {
    DimAttr at = bounds.max(low, bounds.min(bound, high));
    return SliceBound{at, backwards ? at
                          : isEnd   ? bounds.min(bound, high)
                                    : bounds.max(low, bound)};
  };
  // Numbers beyond any size mean the end.
  if (std::optional<int64_t> number = bound.getConstant()) {
    constexpr int64_t far = int64_t(1) << 31; // exporters write "to the end" as a huge number
    if (*number >= far)
      return SliceBound{high, high};
    if (*number <= -far)
      return SliceBound{low, low};
    // From the end.
    if (*number < 0)
      bound = size + bound;
    return clamp(bound);
  }
  // A size that may be either cannot be told apart from a position from the end.
  Interval range = bounds.interval(bound);
  if (range.high && *range.high < 0)
    bound = size + bound;
  else if (!range.low || *range.low < 0) {
    (void)c.fail("the sign of its bound '" + bound.str() + "' is not known" +
                 boundHint({bound}, 0));
    return std::nullopt;
  }
  // table[:, :seq] of a static table: the table bounds the symbol, as broadcasting would.
  if (size.getConstant() && !bounds.atMost(bound, size))
    bounds.demandAtMost(bound, *size.getConstant());
  return clamp(bound);
}

static LogicalResult slice(NodeContext &c) {
  int64_t rank = c.rank(0);
  // Attributes before opset 10.
  auto starts = c.sizeList(1, "starts"), ends = c.sizeList(2, "ends");
  if (!starts || !ends)
    return failure();
  Axes axes;
  if (c.has(3) || c.ints("axes")) {
    auto values = c.list(3, "axes");
    auto found = values ? c.axes(*values, rank) : std::nullopt;
    if (!found)
      return failure();
    axes = *found;
  } else {
    // Axes from the first on.
    for (size_t i = 0; i < starts->size(); ++i)
      axes.push_back(i);
  }
  SmallVector<int64_t> givenSteps(axes.size(), 1);
  if (c.has(4)) {
    auto values = c.constants(4, "steps");
    if (!values)
      return failure();
    givenSteps = *values;
  }
  if (starts->size() != axes.size() || ends->size() != axes.size() ||
      givenSteps.size() != axes.size() || int64_t(axes.size()) > rank)
    return c.fail("its starts, ends, axes and steps differ in length");
  Dims from = c.dims(0), sizes = from, begins(rank, c.dim(0));
  // Axes that are not named stay whole.
  SmallVector<int64_t> steps(rank, 1);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t step = givenSteps[i];
    if (step == 0 || step == INT64_MIN)
      return c.fail("a step of " + Twine(step) + " is not supported");
    auto begin = clampBound(c, (*starts)[i], from[axis], false, step < 0);
    auto end = clampBound(c, (*ends)[i], from[axis], true, step < 0);
    if (!begin || !end)
      return failure();
    // By sizes as they are written; see SliceBound.
    DimAttr span = step > 0 ? end->counted - begin->counted : begin->counted - end->counted;
    int64_t stride = std::abs(step);
    if (stride != 1)
      span = train::floorDiv(span + c.dim(stride - 1), c.dim(stride));
    begins[axis] = begin->at;
    // Nothing is left where the end comes first.
    sizes[axis] = c.state.bounds.max(span, c.dim(0));
    steps[axis] = step;
  }
  // Slices that take everything.
  if (sizes == from && llvm::all_of(steps, [](int64_t step) { return step == 1; }))
    return c.alias(c.in(0));
  if (const Content *known = c.content(0)) {
    auto first = constantDims(begins), counts = constantDims(sizes);
    if (first && counts)
      return c.set(gatherContent(*known, *counts, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> source(index);
        for (auto [i, begin, step] : llvm::zip(source, *first, steps))
          i = begin + i * step;
        return source;
      }));
  }
  return c.set(c.tb.slice(c.tensor(0), begins, sizes, steps));
}

/// The node's inputs, all known, one after the other along `axis`; nullopt where they are too
/// large.
static std::optional<Content> concatContent(NodeContext &c, int64_t axis) {
  assert(c.numInputs() > 0 && "a variadic operator has one operand at least");
  Content result{c.element(0), c.content(0)->shape, {}};
  result.shape[axis] = 0;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    result.shape[axis] += c.content(i)->shape[axis];
  // Rows in front of the axis: each has a piece of every input.
  int64_t outer = llvm::product_of(ArrayRef<int64_t>(result.shape).take_front(axis));
  int64_t elements = 0;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    elements += c.content(i)->values.size();
  if (elements > kMaxContent)
    return std::nullopt;
  for (int64_t row = 0; row < outer; ++row)
    for (int64_t i = 0; i < c.numInputs(); ++i) {
      ArrayRef<Scalar> values = c.content(i)->values;
      int64_t length = int64_t(values.size()) / outer;
      llvm::append_range(result.values, values.slice(row * length, length));
    }
  return result;
}

static LogicalResult concat(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  bool known = true;
  for (int64_t i = 0; i < c.numInputs(); ++i) {
    if (c.rank(i) != c.rank(0) || c.element(i) != c.element(0))
      return c.fail("its inputs have different ranks or element types");
    // Equal for all sizes.
    for (int64_t a = 0; a < c.rank(0); ++a)
      if (a != *axis && c.dims(i)[a] != c.dims(0)[a])
        return failUnequal(c, c.dims(0)[a], c.dims(i)[a],
                           "sizes '" + c.dims(0)[a].str() + "' and '" + c.dims(i)[a].str() +
                               "' of its inputs have to be equal");
    // If all are known the result is.
    known &= c.content(i) != nullptr;
  }
  if (known)
    if (std::optional<Content> result = concatContent(c, *axis))
      return c.set(std::move(*result));
  SmallVector<Value> parts;
  // Empty parts add nothing.
  for (int64_t i = 0; i < c.numInputs(); ++i)
    if (!c.dims(i)[*axis].isConstant(0))
      parts.push_back(c.tensor(i));
  // All are empty: any of them is the result.
  if (parts.empty())
    return c.alias(c.in(0));
  return c.set(c.tb.concat(parts, *axis));
}

void registerShape(HandlerTable &table) {
  table.add("Constant", constant, 0, 1);
  table.add("Identity", identity, 1, 1);
  table.add("ConstantOfShape", constantOfShape, 1, 9);
  table.add("Range", range, 3, 11);
  table.add("Shape", shape, 1, 1);
  table.add("Size", size, 1, 1);
  table.entries["Shape"].typedAs = table.entries["Size"].typedAs = -1;
  table.add("Reshape", reshape, 2, 5);
  table.add("Flatten", flatten, 1, 1);
  table.add("Unsqueeze", unsqueeze, 1, 1);
  table.add("Squeeze", squeeze, 1, 1);
  table.add("Expand", expand, 2, 8);
  table.add("Tile", tile, 2, 6);
  table.add("Transpose", transpose, 1, 1);
  table.add("Slice", slice, 1, 1);
  table.addVariadic("Concat", concat, 4);
  using Table = HandlerTable;
  table.describe({"Identity", "Reshape", "Flatten", "Unsqueeze", "Squeeze", "Expand", "Tile",
                  "Transpose", "Slice", "Concat"},
                 Table::kAll);
  table.describe({"Constant", "Shape", "Size"}, Table::kAll, false);
  table.entries["Range"].settings = {0, 1, 2};
  table.describe({"Range"}, Table::kNumbers, false);
  table.describe({"ConstantOfShape"}, Table::kIntegers, false);
}

} // namespace trainc::legalize
