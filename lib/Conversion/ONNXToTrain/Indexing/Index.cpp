// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers: with constant indices they are slices or evaluated, else data-dependent reads. One-hot,
// running sums, and values of keys.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Positions.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

static LogicalResult gather(NodeContext &c) {
  if (!c.needInteger(1))
    return failure();
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  // Both known: then it is evaluated.
  const Content *data = c.content(0), *index = c.content(1);
  auto indices = index ? index->constants() : std::nullopt;
  auto size = c.dims(0)[*axis].getConstant();
  if (indices && size)
    // A reader of the graph gets it now, not a kernel at run time.
    for (int64_t i : *indices)
      if (i < -*size || i >= *size)
        return c.fail("its index " + Twine(i) + " is outside of an axis of size " + Twine(*size));
  if (data && indices && data->rank() == 1) {
    Content result{data->element, index->shape, {}};
    for (int64_t i : *indices)
      result.values.push_back(data->values[i < 0 ? i + *size : i]);
    return c.set(std::move(result));
  }
  TrainBuilder &tb = c.tb;
  if (indices && indices->size() == 1) {
    // One constant index: a slice, which other passes see through.
    // Negative positions count from the end, whatever the size is.
    int64_t i = (*indices)[0];
    DimAttr start = i < 0 ? c.dims(0)[*axis] + c.dim(i) : c.dim(i);
    // As the slice is in range only then.
    (void)c.state.bounds.demandAtMost(c.dim(i < 0 ? -(i + 1) : i) - c.dims(0)[*axis], -1);
    Value x = tb.sliceAxis(c.tensor(0), *axis, start, c.dim(1));
    Dims dims = c.dims(0);
    // The indices' axes, all 1, in place of the axis.
    dims.erase(dims.begin() + *axis);
    dims.insert(dims.begin() + *axis, index->rank(), c.dim(1));
    return c.set(tb.reshape(x, dims));
  }
  // A table of positions bounds the size that they run over.
  if (size && c.in(1).tensor)
    if (std::optional<int64_t> position = positionAxis(c.in(1).tensor))
      if (DimAttr run = c.dims(1)[*position]; !c.state.bounds.atMost(run, c.dim(*size)))
        c.state.bounds.demandAtMost(run, *size);
  Value y = tb.gather(c.tensor(0), c.tensor(1), *axis);
  // An embedding's row for padding is not trained: PyTorch's argument, by the exporter's note on
  // the node.
  auto padding = dyn_cast_or_null<IntegerAttr>(c.rawAttr("padding_idx"));
  // Of a parameter: others have no rows to train.
  if (padding && isa<FloatType>(c.element(0)) && isa<BlockArgument>(c.tensor(0)) &&
      !c.state.options->inference) {
    Value isPadding =
        tb.compare("eq", c.tensor(1), tb.scalarLike(c.tensor(1), double(padding.getInt())));
    Axes axes;
    // The indices' axes in the result.
    for (int64_t i = 0; i < c.rank(1); ++i)
      axes.push_back(*axis + i);
    // The same values; only the gradient ends.
    y = tb.select(tb.broadcast(isPadding, train::getDims(y), axes),
                  train::DetachOp::create(tb.b(), tb.loc(), y.getType(), y), y);
  }
  return c.set(y);
}

static LogicalResult gatherElements(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
  if (!axis)
    return failure();
  if (!c.needInteger(1))
    return failure();
  // ONNX allows smaller indices, not another rank.
  if (c.rank(1) != c.rank(0))
    return c.fail("its data and indices have different ranks");
  Value data = c.tensor(0);
  if (auto full = data.getDefiningOp<train::FullOp>()) // whatever the index, the same number
    return c.set(train::FullOp::create(
        c.tb.b(), c.tb.loc(), train::getTensorType(c.dims(1), c.element(0)), full.getValue()));
  return c.set(c.tb.gatherElements(data, c.tensor(1), *axis));
}

static LogicalResult gatherNd(NodeContext &c) {
  if (!c.needInteger(1))
    return failure();
  int64_t batch = c.attr("batch_dims", int64_t(0));
  const Dims &data = c.dims(0), &indices = c.dims(1);
  auto depth = indices.empty() ? std::nullopt : indices.back().getConstant();
  if (!depth || batch < 0 || batch >= c.rank(1) || *depth < 1 || batch + *depth > c.rank(0))
    return c.fail("the last axis of its indices has to be static and fit the data" +
                  (indices.empty() ? "" : fixHint({indices.back()})));
  // Of the indices but the last axis, then what the tuples leave of the data.
  Dims dims(indices.begin(), indices.end() - 1);
  dims.append(data.begin() + batch + *depth, data.end());
  TrainBuilder &tb = c.tb;
  // Positions as indices (masks of exporters): every element is read where it stands.
  auto positions = batch == 0 && *depth == c.rank(0) ? positionTuple(c.tensor(1)) : std::nullopt;
  bool standing = positions && int64_t(positions->size()) == *depth && llvm::is_sorted(*positions);
  // Every axis once, and of the data's size: then it is only repeated along the others.
  for (int64_t i = 0; standing && i < *depth; ++i)
    standing =
        dims[(*positions)[i]] == data[i] && (i == 0 || (*positions)[i] != (*positions)[i - 1]);
  if (standing)
    return c.set(tb.broadcast(c.tensor(0), dims, *positions));
  return c.set(train::GatherNdOp::create(tb.b(), tb.loc(), train::getTensorType(dims, c.element(0)),
                                         c.tensor(0), c.tensor(1), batch));
}

/// The depth is a scalar or one element, of any numeric type.
static std::optional<DimAttr> oneHotDepth(NodeContext &c) {
  if (isa<FloatType>(c.element(1))) {
    // Exporters write it as a real at times.
    auto real = c.realConstant(1, "depth");
    return real ? std::optional<DimAttr>(c.dim(int64_t(*real))) : std::nullopt;
  }
  auto depth = c.sizes(1, "depth");
  if (depth && depth->size() == 1)
    return (*depth)[0];
  return std::nullopt;
}

static LogicalResult oneHot(NodeContext &c) {
  auto depth = oneHotDepth(c);
  if (!depth || !c.needSizes({*depth}))
    return failure();
  // Off, on.
  if (c.dims(2).size() != 1 || !c.dims(2)[0].isConstant(2))
    return c.fail("its values are not a pair");
  int64_t rank = c.rank(0) + 1;
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-1)), rank);
  if (!axis)
    return failure();
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(0), kept;
  dims.insert(dims.begin() + *axis, *depth);
  // One known position: repeats of an axis, as exporters write repeat_interleave.
  const Content *position = c.content(0), *pair = c.content(2);
  auto at = position ? position->constants() : std::nullopt;
  auto length = depth->getConstant();
  if (at && at->size() == 1 && pair && length && *length <= kMaxContent) {
    Content result{pair->element, position->shape, {}};
    result.shape.insert(result.shape.begin() + *axis, *length);
    // Negative positions count from the end.
    int64_t hit = (*at)[0] < 0 ? (*at)[0] + *length : (*at)[0];
    // An index outside gives "off" everywhere.
    for (int64_t i = 0; i < *length; ++i)
      result.values.push_back(pair->values[i == hit]);
    return c.set(std::move(result));
  }
  // Positions may be given as reals.
  Type integer = tb.b().getI64Type();
  Value index = tb.broadcastAlong(tb.cast(c.tensor(0), integer), dims, {*axis});
  Value zero = tb.scalarLike(index, 0);
  Value size = tb.splat(tb.dim(*depth, integer), index);
  // Negative indices, as above, element by element.
  index = tb.select(tb.compare("lt", index, zero), tb.add(index, size), index);
  Value hit = tb.compare("eq", index, tb.iota(dims, integer, *axis));
  Value values = c.tensor(2);
  // Values may be computed.
  auto pick = [&](int64_t at) {
    Value one = tb.reshape(tb.sliceAxis(values, 0, c.dim(at), c.dim(1)), {});
    return tb.splat(one, hit);
  };
  return c.set(tb.select(hit, pick(1), pick(0)));
}

/// A list of numbers in an attribute as a tensor, behind `first` if there is one; null if absent.
static Value tableOf(NodeContext &c, StringRef ints, StringRef reals, Attribute first = {}) {
  SmallVector<Attribute> values;
  Type element = c.tb.b().getI64Type();
  if (first)
    values.push_back(first);
  if (auto list = dyn_cast_or_null<DenseI64ArrayAttr>(c.rawAttr(ints))) {
    for (int64_t value : list.asArrayRef())
      values.push_back(c.tb.b().getI64IntegerAttr(value));
  } else if (auto list = dyn_cast_or_null<DenseF32ArrayAttr>(c.rawAttr(reals))) {
    element = c.tb.b().getF32Type();
    for (float value : list.asArrayRef())
      values.push_back(c.tb.b().getF32FloatAttr(value));
  } else {
    return {};
  }
  auto type = RankedTensorType::get({int64_t(values.size())}, element);
  return c.tb.constant(DenseElementsAttr::get(type, values));
}

/// LabelEncoder (ai.onnx.ml) of numbers: the value of the key that an element is, else the default.
static LogicalResult labelEncoder(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  bool toReals = isa_and_nonnull<DenseF32ArrayAttr>(c.rawAttr("values_floats"));
  // The lists say the types; keys may be of one, values of the other.
  Attribute otherwise =
      toReals ? Attribute(tb.b().getF32FloatAttr(float(c.attr("default_float", -0.0))))
              : Attribute(tb.b().getI64IntegerAttr(c.attr("default_int64", int64_t(-1))));
  Value keys = tableOf(c, "keys_int64s", "keys_floats");
  Value values = tableOf(c, "values_int64s", "values_floats", otherwise);
  if (!keys || !values)
    return c.fail("only lists of integers or floats are supported as its keys and values");
  // The table has the default in front.
  DimAttr count = train::getDim(keys, 0);
  if (train::getDim(values, 0) != count + c.dim(1))
    return c.fail("it does not have one value for each key");
  if (train::getElementType(keys) != c.element(0))
    return c.fail("its keys are not of its input's type");
  Dims dims = c.dims(0);
  int64_t last = dims.size();
  // Compared with all keys at once: tables are short.
  dims.push_back(count);
  Value hit = tb.compare("eq", tb.broadcastAlong(c.tensor(0), dims, {last}),
                         tb.broadcast(keys, dims, {last}));
  Value position = tb.iota(dims, tb.b().getI64Type(), last);
  position = tb.add(position, tb.scalarLike(position, 1)); // the default is in front
  position = tb.select(hit, position, tb.scalarLike(position, 0));
  // A key that occurs twice counts where it is last.
  return c.set(tb.gather(values, tb.reduce(train::ReduceKind::max, position, {last}), 0));
}

/// The axis of CumSum and CumProd; says what is wrong with it or with the elements.
static std::optional<int64_t> scannedAxis(NodeContext &c) {
  auto at = c.constants(1, "axis");
  if (!at || at->size() != 1)
    return std::nullopt;
  std::optional<int64_t> axis = c.axis((*at)[0], c.rank(0));
  // And there is no sum of booleans to mean.
  if (axis && c.element(0).isInteger(1)) {
    (void)c.fail("it is not supported on booleans");
    return std::nullopt;
  }
  return axis;
}

static LogicalResult cumSum(NodeContext &c) {
  std::optional<int64_t> axis = scannedAxis(c);
  if (!axis)
    return failure();
  Value x = c.tensor(0);
  return c.set(train::CumsumOp::create(c.tb.b(), c.tb.loc(), x.getType(), x, *axis,
                                       c.attr("exclusive", int64_t(0)) != 0,
                                       c.attr("reverse", int64_t(0)) != 0));
}

/// Every element's own product over the elements up to it.
/// Quadratic in the axis, but differentiable, even at zeros.
static LogicalResult cumProd(NodeContext &c) {
  std::optional<int64_t> axis = scannedAxis(c);
  if (!axis)
    return failure();
  TrainBuilder &tb = c.tb;
  Dims pairs = c.dims(0);
  pairs.insert(pairs.begin() + *axis, pairs[*axis]);
  // Axis `axis` is the result's position, the one after it the factor's.
  Value self = tb.iota(pairs, tb.b().getI64Type(), *axis);
  Value other = tb.iota(pairs, tb.b().getI64Type(), *axis + 1);
  bool reverse = c.attr("reverse", int64_t(0)), exclusive = c.attr("exclusive", int64_t(0));
  // "Exclusive" leaves the element itself out.
  Value taken =
      tb.compare(reverse ? (exclusive ? "gt" : "ge") : (exclusive ? "lt" : "le"), other, self);
  Value factors = tb.broadcastAlong(c.tensor(0), pairs, {*axis});
  Value one = tb.scalarLike(factors, 1);
  return c.set(tb.reduce(train::ReduceKind::prod, tb.select(taken, factors, one), {*axis + 1}));
}

/// The number of results depends on the elements, so no memory could be planned for them.
static LogicalResult dataDependent(NodeContext &c) {
  return c.fail(
      "the shape of its result depends on data; mask with Where or Mul, which keep the shape");
}

void registerIndex(HandlerTable &table) {
  table.add("Gather", gather, 2, 1);
  table.add("GatherElements", gatherElements, 2, 11);
  table.add("GatherND", gatherNd, 2, 11);
  table.add("OneHot", oneHot, 3, 9);
  table.add("CumSum", cumSum, 2, 11);
  table.add("CumProd", cumProd, 2, 26);
  table.add("ai.onnx.ml::LabelEncoder", labelEncoder, 1, 2);
  table.entries["OneHot"].typedAs = 2;
  table.entries["ai.onnx.ml::LabelEncoder"].typedAs = -1;
  for (StringRef name : {"Unique", "NonMaxSuppression"})
    table.add(name, dataDependent, 1, 1);
  using Table = HandlerTable;
  table.describe({"Gather", "GatherElements", "GatherND"}, Table::kAll);
  table.describe({"OneHot"}, Table::kNumbers);
  table.describe({"ai.onnx.ml::LabelEncoder"}, Table::kNumbers, false);
  table.describe({"CumSum", "CumProd"}, Table::kNumbers);
  table.describe({"Unique", "NonMaxSuppression"}, 0, false);
}

} // namespace trainc::legalize
