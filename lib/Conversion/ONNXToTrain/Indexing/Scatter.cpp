// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatters: elements or slices written over a tensor, or combined with what is there.
//
// Sums of floats are the dialect's scatter, and so is plain writing, where a second one counts what
// was written (ONNX forbids to write an element twice). Other reductions and integers, which are
// rare, compare every index with every position.
//
// An index that is none ends the run: the dialect's scatter says so itself, elsewhere indices that
// are not known are read through a check.

#include "dialects/Train/Loops/Loops.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Indexing/IndexBounds.h"
#include "lib/Conversion/ONNXToTrain/Positions.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

using namespace mlir;
using trainc::train::ReduceKind;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

namespace {

/// `updates` go to `data` with coordinate `axis` replaced by `indices`. Data and updates have equal
/// sizes but for `axis`; indices have the updates' shape, and none is negative where they are
/// compared.
struct Scatter {
  NodeContext &c;
  TrainBuilder &tb;
  StringRef reduction;
  int64_t axis;

  /// Only sums of floats have a kernel that is fast and keeps an order.
  bool sums() const {
    return isa<FloatType>(c.element(0)) && (reduction == "none" || reduction == "add");
  }
  Value run(Value data, Value indices, Value updates) {
    return sums() ? bySum(data, indices, updates) : byComparison(data, indices, updates);
  }

private:
  Value sum(Value indices, Value updates, ArrayRef<DimAttr> dims) {
    Type type = train::getTensorType(dims, train::getElementType(updates));
    return train::ScatterElementsAddOp::create(tb.b(), tb.loc(), type, indices, updates, axis);
  }

  /// Written elements: their sum, as each is written once at most.
  Value bySum(Value data, Value indices, Value updates) {
    Dims dims = train::getDims(data);
    Value total = sum(indices, updates, dims);
    if (reduction == "add")
      return tb.add(data, total);
    // Counted in the updates' own type; any count above 0 will do, however it is rounded.
    Value count = sum(indices, tb.scalarLike(updates, 1), dims);
    return tb.select(tb.compare("gt", count, tb.scalarLike(count, 0)), total, data);
  }

  /// Axis `axis` are the positions of data, the one after it the updates.
  Value byComparison(Value data, Value indices, Value updates) {
    assert(train::getDim(indices, axis) == train::getDim(updates, axis) && "an index for each");
    Dims dims = train::getDims(data), pairs = dims;
    pairs.insert(pairs.begin() + axis + 1, train::getDim(updates, axis));
    Type integer = tb.b().getI64Type();
    // An update at each position of the axis.
    auto spread = [&](Value x) { return tb.broadcastAlong(x, pairs, {axis}); };
    Value hit = tb.compare("eq", spread(tb.cast(indices, integer)), tb.iota(pairs, integer, axis));
    auto combined = [&](ReduceKind kind, Value values, double neutral) {
      // What does not hit counts as nothing.
      return tb.reduce(kind, tb.select(hit, values, tb.scalarLike(values, neutral)), {axis + 1});
    };
    if (reduction == "none") {
      // The last update that hits.
      Value last = combined(ReduceKind::max, tb.iota(pairs, integer, axis + 1), -1);
      Value none = tb.compare("lt", last, tb.scalarLike(last, 0));
      // Safe to read.
      Value safe = tb.max(last, tb.scalarLike(last, 0));
      return tb.select(none, data, tb.gatherElements(updates, safe, axis));
    }
    Value values = spread(updates);
    if (reduction == "add")
      return tb.add(data, combined(ReduceKind::sum, values, 0));
    if (reduction == "mul")
      return tb.mul(data, combined(ReduceKind::prod, values, 1));
    // Where nothing hits, the extremum is that of data alone.
    // The identity of an extremum need not be a number of the type: data itself stands for it.
    bool isMax = reduction == "max";
    Value some = tb.reduce(ReduceKind::max, hit, {axis + 1});
    Value start = tb.broadcastAlong(data, pairs, {axis + 1});
    Value best = tb.reduce(isMax ? ReduceKind::max : ReduceKind::min, tb.select(hit, values, start),
                           {axis + 1});
    return tb.select(some, isMax ? tb.max(data, best) : tb.min(data, best), data);
  }
};

} // namespace

/// Negative indices count from the end of an axis of `size`.
/// For constants this folds away.
static Value positive(TrainBuilder &tb, Value indices, DimAttr size) {
  indices = tb.cast(indices, tb.b().getI64Type());
  Value end = tb.splat(tb.dim(size, tb.b().getI64Type()), indices);
  Value zero = tb.scalarLike(indices, 0);
  return tb.select(tb.compare("lt", indices, zero), tb.add(indices, end), indices);
}

/// As `positive`, of indices whose values are not known: others than of an axis of `size` end the
/// run.
static Value checked(TrainBuilder &tb, Value indices, DimAttr size) {
  DimAttr last = size - tb.dimAttr(1);
  indices = train::WithinOp::create(tb.b(), tb.loc(), indices, last, /*fromEnd=*/true);
  return positive(tb, indices, size);
}

/// Checks data, indices and updates, and reads the reduction; "" with a reason.
static StringRef reductionOf(NodeContext &c) {
  StringRef reduction = c.attr("reduction", "none");
  assert(c.numInputs() > 2 && "data, indices and updates are required");
  bool known = reduction == "none" || reduction == "add" || reduction == "mul" ||
               reduction == "max" || reduction == "min";
  if (!known)
    (void)c.fail("reduction '" + reduction + "' is unknown");
  else if (c.element(0) != c.element(2))
    (void)c.fail("its data and updates have different element types");
  else if (c.element(0).isInteger(1) && reduction != "none")
    (void)c.fail("it is not supported on booleans");
  else if (c.needInteger(1))
    return reduction;
  return "";
}

/// Whether every `depth`-th of the indices, from number `i` on, is one of an axis of `size`;
/// nothing where they are not known.
static std::optional<bool> areInside(NodeContext &c, int64_t i, int64_t depth, DimAttr size) {
  const Content *known = c.content(1);
  auto indices = known ? known->constants() : std::nullopt;
  if (!indices)
    return std::nullopt;
  for (size_t at = i; at < indices->size(); at += depth) {
    int64_t index = (*indices)[at];
    // Also for indices from the end.
    DimAttr least = c.dim(index < 0 ? -(index + 1) : index); // the axis is larger
    if (!c.state.bounds.atMost(least, size - c.dim(1)) &&
        !c.state.bounds.demandAtMost(least - size, -1))
      return false;
  }
  return true;
}

static LogicalResult scatterElements(NodeContext &c) {
  int64_t rank = c.rank(0);
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), rank);
  StringRef reduction = reductionOf(c);
  if (!axis || reduction.empty())
    return failure();
  if (c.rank(1) != rank || c.dims(1) != c.dims(2))
    return c.fail("its indices and updates differ in shape, or in rank from the data");
  TrainBuilder &tb = c.tb;
  // The part of the data that indices can reach: all of `axis`, and as much of the others as they
  // have.
  Dims dims = c.dims(0), region = c.dims(1), start(rank, c.dim(0));
  region[*axis] = dims[*axis];
  Scatter scatter{c, tb, reduction, *axis};
  Value data = c.tensor(0), indices = c.tensor(1);
  if (areInside(c, 0, 1, dims[*axis]).value_or(false) ||
      isIndexOf(c.state.bounds, indices, dims[*axis]))
    indices = positive(tb, indices, dims[*axis]);
  else if (!scatter.sums())
    indices = checked(tb, indices, dims[*axis]);
  if (region == dims)
    return c.set(scatter.run(data, indices, c.tensor(2)));
  // Indices may cover less than the data along other axes: only that part changes.
  for (auto [size, whole] : llvm::zip(region, dims))
    if (!c.state.bounds.atMost(size, whole))
      return c.fail("size '" + size.str() + "' of its indices is not known to be at most '" +
                    whole.str() + "'" + boundHint({size, whole}));
  Value part = scatter.run(tb.slice(data, start, region), indices, c.tensor(2));
  // What lies outside of that part stays.
  Value inside = tb.pad(tb.full(region, tb.b().getI1Type(), 1), 0, start, dims);
  return c.set(tb.select(inside, tb.pad(part, 0, start, dims), data));
}

/// Whether the element `i` of all tuples of indices, of `depth` each, is known to be on its axis.
static bool isInside(NodeContext &c, int64_t i, int64_t depth) {
  DimAttr size = c.dims(0)[i];
  // The forward pass has read with these tuples what the gradient is scattered to.
  // Already refused at run time if it were not so.
  for (Operation *user : c.tensor(1).getUsers())
    if (auto gather = dyn_cast<train::GatherNdOp>(user))
      if (gather.getBatchDims() == 0 && gather.getIndices() == c.tensor(1) &&
          train::getDims(gather.getData())[i] == size)
        return true;
  if (std::optional<bool> known = areInside(c, i, depth, size))
    return *known;
  // Positions of an axis are less than its size.
  auto positions = positionTuple(c.tensor(1));
  return positions && int64_t(positions->size()) == depth &&
         c.state.bounds.atMost(c.dims(1)[(*positions)[i]], size);
}

static LogicalResult scatterNd(NodeContext &c) {
  StringRef reduction = reductionOf(c);
  if (reduction.empty())
    return failure();
  const Dims &data = c.dims(0), &indices = c.dims(1);
  // How many leading axes a tuple names.
  auto depth = indices.empty() ? std::nullopt : indices.back().getConstant();
  if (!depth || *depth < 1 || *depth > c.rank(0))
    return c.fail("the last axis of its indices has to be static and fit the data" +
                  (indices.empty() ? "" : fixHint({indices.back()})));
  Dims expected(indices.begin(), indices.end() - 1);
  expected.append(data.begin() + *depth, data.end());
  // Then sizes one by one, to name those that differ.
  if (c.dims(2).size() != expected.size())
    return c.fail("the shape of its updates does not fit its data and indices");
  for (auto [wanted, size] : llvm::zip(expected, c.dims(2)))
    if (wanted != size)
      return c.fail("sizes '" + size.str() + "' of its updates and '" + wanted.str() +
                    "' of its data and indices differ" +
                    (wanted.getConstant() && size.getConstant()
                         ? ""
                         : "; where they are the same within bounds, give these (--dim "
                           "NAME=MIN..MAX)"));
  // One row of data for each tuple of indices; a tuple is one number.
  TrainBuilder &tb = c.tb;
  // As a matrix: the axes that tuples name, and what is left of each.
  ArrayRef<DimAttr> sizes = data;
  DimAttr rows = train::product(c.context(), sizes.take_front(*depth));
  DimAttr width = train::product(c.context(), sizes.drop_front(*depth));
  DimAttr tuples = train::product(c.context(), ArrayRef<DimAttr>(indices).drop_back());
  Scatter scatter{c, tb, reduction, 0};
  Value row;
  // Horner's rule, over the axes that tuples name.
  for (int64_t i = 0; i < *depth; ++i) {
    Value index =
        tb.reshape(tb.sliceAxis(c.tensor(1), c.rank(1) - 1, c.dim(i), c.dim(1)), {tuples});
    if (isInside(c, i, *depth) || isIndexOf(c.state.bounds, index, data[i]))
      index = positive(tb, index, data[i]);
    // An index beyond its axis would be the number of another tuple.
    else if (*depth > 1 || !scatter.sums())
      index = checked(tb, index, data[i]);
    if (row)
      row = tb.mul(row, tb.splat(tb.dim(data[i], tb.b().getI64Type()), row));
    row = tb.add(row, index);
  }
  Value flat = tb.reshape(c.tensor(0), {rows, width});
  Value updates = tb.reshape(c.tensor(2), {tuples, width});
  Value y = scatter.run(flat, tb.broadcast(row, {tuples, width}, {0}), updates);
  return c.set(tb.reshape(y, data));
}

/// Every sample's update goes to its cache from the sample's own position on. Written as reads, so
/// that all types and gradients work.
static LogicalResult tensorScatter(NodeContext &c) {
  std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(-2)), c.rank(0));
  if (!axis)
    return failure();
  StringRef mode = c.attr("mode", "linear");
  Dims dims = c.dims(0), update = c.dims(1);
  // The update may be shorter than the cache along the axis, and nowhere else.
  if (c.rank(1) == c.rank(0))
    update[*axis] = dims[*axis];
  if (update != dims || *axis == 0 || c.element(0) != c.element(1) ||
      (mode != "linear" && mode != "circular"))
    return c.fail("its cache and update do not fit, or its mode is unknown");
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  // Which place of the update each place of the cache would get.
  Value at = tb.iota(dims, integer, *axis);
  if (c.has(2)) {
    if (!c.needInteger(2) || c.rank(2) != 1 || c.dims(2)[0] != dims[0])
      return c.fail("it needs one write index a sample");
    Value first = c.tensor(2);
    // Behind the cache there is nothing to go on at.
    if (mode == "linear")
      first = train::WithinOp::create(tb.b(), tb.loc(), first, dims[*axis] - c.dims(1)[*axis],
                                      /*fromEnd=*/false);
    at = tb.sub(at, tb.broadcast(tb.cast(first, integer), dims, {0}));
    // Modulo the cache: the update goes on at its start.
    if (mode == "circular")
      at = train::ModOp::create(tb.b(), tb.loc(), at.getType(), at,
                                tb.splat(tb.dim(dims[*axis], integer), at));
  }
  Value zero = tb.scalarLike(at, 0);
  Value length = tb.splat(tb.dim(c.dims(1)[*axis], integer), at);
  Value written = tb.logicalAnd(tb.compare("ge", at, zero), tb.compare("lt", at, length));
  // Reads outside of the update have to be safe, though nobody sees them.
  Value from = tb.select(written, at, zero);
  return c.set(tb.select(written, tb.gatherElements(c.tensor(1), from, *axis), c.tensor(0)));
}

void registerScatter(HandlerTable &table) {
  table.add("Scatter", scatterElements, 3, 9);
  table.add("ScatterElements", scatterElements, 3, 11);
  table.add("ScatterND", scatterNd, 3, 11);
  table.add("TensorScatter", tensorScatter, 2, 24);
  table.describe({"Scatter", "ScatterElements", "ScatterND", "TensorScatter"}, HandlerTable::kAll);
}

} // namespace trainc::legalize
