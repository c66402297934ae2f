// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions as matmuls. The windows of the input are laid out as the columns of one
// matrix (im2col), batch and positions together, so that the gradient of the weight is one matmul
// over all of them; a transposed convolution puts the columns of its matmul back where the windows
// were (col2im). Gradients come out of these parts.

#include "lib/Conversion/ONNXToTrain/Images/Windows.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// The weight's axes after the channels, all constant; nullopt with a reason.
static std::optional<SmallVector<int64_t>> kernelOf(NodeContext &c) {
  if (!c.needFloat(0))
    return std::nullopt;
  if (c.element(1) != c.element(0) || (c.has(2) && c.element(2) != c.element(0))) {
    (void)c.fail("its input, weight and bias have different element types");
    return std::nullopt;
  }
  if (c.rank(0) < 3 || c.rank(1) != c.rank(0)) {
    (void)c.fail("it needs an input [batch, channels, axes...] and a weight of its rank");
    return std::nullopt;
  }
  SmallVector<int64_t> kernel;
  // The sizes of windows shape the graph: they have to be numbers.
  for (DimAttr size : ArrayRef<DimAttr>(c.dims(1)).drop_front(2)) {
    if (!size.getConstant()) {
      (void)c.fail("the size of its kernel is not constant");
      return std::nullopt;
    }
    kernel.push_back(*size.getConstant());
  }
  return kernel;
}

/// y plus a bias along axis 1, if the node has one.
static LogicalResult addBias(NodeContext &c, Value y) {
  if (!c.has(2))
    return c.set(y);
  Dims dims = train::getDims(y);
  if (c.dims(2) != Dims{dims[1]})
    return c.fail("its bias does not have one element a channel");
  return c.set(c.tb.add(y, c.tb.broadcast(c.tensor(2), dims, {1})));
}

/// Batched over the groups, or plain where there is one.
static Value groupedProduct(TrainBuilder &tb, Value lhs, Value rhs, bool transposeLhs) {
  auto drop = [&](Value x) {
    // A matmul of plain matrices is what later passes know.
    Dims dims = train::getDims(x);
    return dims[0].isConstant(1) ? tb.reshape(x, ArrayRef<DimAttr>(dims).drop_front()) : x;
  };
  return tb.matmul(drop(lhs), drop(rhs), transposeLhs);
}

static LogicalResult conv(NodeContext &c) {
  auto kernel = kernelOf(c);
  auto slidings = kernel ? readSlidings(c, *kernel) : std::nullopt;
  if (!slidings)
    return failure();
  TrainBuilder &tb = c.tb;
  MLIRContext *context = c.context();
  // Of the sliding windows; the result has as many.
  int64_t axes = slidings->size();
  DimAttr batch = c.dims(0)[0], groups = c.dim(c.attr("group", int64_t(1)));
  DimAttr filters = c.dims(1)[0], channels = c.dims(1)[1]; // channels of one group
  // Zero groups would divide by 0.
  DimAttr perGroup = groups.isConstant(0) ? DimAttr() : train::divideExactly(filters, groups);
  if (!perGroup || c.dims(0)[1] != channels * groups)
    return c.fail("its " + c.dims(0)[1].str() + " channels do not fit its weight and groups");
  // [taps..., batch, channels, windows...], zero where a window is over the edge.
  Value windows = buildWindows(tb, c.tensor(0), *slidings, 0);
  Dims result = {batch, filters};
  for (const Sliding &s : *slidings)
    result.push_back(s.count);

  // Depthwise.
  if (channels.isConstant(1) && perGroup.isConstant(1)) {
    // One filter a channel: sums of a few products, no matrix. [taps..., channels]
    SmallVector<int64_t> order;
    Dims weightDims = c.dims(1);
    weightDims.erase(weightDims.begin() + 1);
    for (int64_t i = 0; i < axes; ++i)
      order.push_back(1 + i);
    order.push_back(0);
    Value weight = tb.transpose(tb.reshape(c.tensor(1), weightDims), order);
    SmallVector<int64_t> taps = tapAxes(*slidings), weightAxes = taps;
    weightAxes.push_back(axes + 1);
    weight = tb.broadcast(weight, train::getDims(windows), weightAxes);
    return addBias(c, tb.sum(tb.mul(windows, weight), taps));
  }

  // [channels, taps..., batch, windows...]
  SmallVector<int64_t> permutation = {axes + 1};
  // Channels and taps become the depth of the matmul, batch and windows its columns.
  llvm::append_range(permutation, tapAxes(*slidings));
  permutation.push_back(axes);
  for (int64_t i = 0; i < axes; ++i)
    permutation.push_back(axes + 2 + i);
  ArrayRef<DimAttr> weightDims = c.dims(1);
  // Of one group.
  DimAttr depth = train::product(context, weightDims.drop_front());
  DimAttr columns = batch * train::product(context, ArrayRef<DimAttr>(result).drop_front(2));
  Value matrix = tb.reshape(tb.transpose(windows, permutation), {groups, depth, columns});
  Value weight = tb.reshape(c.tensor(1), {groups, perGroup, depth});
  Value y = groupedProduct(tb, weight, matrix, false);
  // The matmul has the filters first.
  std::swap(result[0], result[1]);
  y = tb.reshape(y, result);
  permutation = {1, 0};
  for (int64_t i = 0; i < axes; ++i)
    permutation.push_back(2 + i);
  return addBias(c, tb.transpose(y, permutation));
}

/// Sizes of the result; sets what is cut off before it. nullopt with a reason.
static std::optional<Dims> transposedSizes(NodeContext &c, ArrayRef<Sliding> slidings, Dims &low) {
  int64_t axes = slidings.size();
  auto more = c.ints("output_padding").value_or(SmallVector<int64_t>(axes, 0));
  auto wanted = c.ints("output_shape");
  if (int64_t(more.size()) != axes || (wanted && int64_t(wanted->size()) != axes)) {
    (void)c.fail("its output_padding or output_shape does not fit the axes of its input");
    return std::nullopt;
  }
  StringRef automatic = c.attr("auto_pad", "NOTSET");
  Dims sizes;
  for (auto [i, s] : llvm::enumerate(slidings)) {
    DimAttr stride = c.dim(s.stride);
    // As wide as all windows together reach.
    DimAttr full = (s.size - c.dim(1)) * stride + c.dim(s.reach() + more[i]);
    if (!wanted && !automatic.starts_with("SAME")) {
      low.push_back(s.low);
      sizes.push_back(full - s.low - s.high);
      continue;
    }
    sizes.push_back(wanted ? c.dim((*wanted)[i]) : s.size * stride);
    // Half of what is too much is cut off on each side; the odd one where the name says.
    DimAttr cut = c.state.bounds.max(full - sizes.back(), c.dim(0));
    DimAttr half = train::floorDiv(cut, c.dim(2));
    low.push_back(automatic == "SAME_UPPER" ? half : cut - half);
  }
  if (!c.needSizes(sizes))
    return std::nullopt;
  return sizes;
}

static LogicalResult convTranspose(NodeContext &c) {
  auto kernel = kernelOf(c);
  auto slidings = kernel ? readSlidings(c, *kernel, /*transposed=*/true) : std::nullopt;
  if (!slidings)
    return failure();
  Dims low = {c.dim(0), c.dim(0)};
  std::optional<Dims> sizes = transposedSizes(c, *slidings, low);
  if (!sizes)
    return failure();
  TrainBuilder &tb = c.tb;
  MLIRContext *context = c.context();
  int64_t axes = slidings->size();
  DimAttr batch = c.dims(0)[0], groups = c.dim(c.attr("group", int64_t(1)));
  // The weight's channels are those of the input, its filters those of one group.
  DimAttr channels = c.dims(1)[0], filters = c.dims(1)[1]; // filters of one group
  DimAttr perGroup = groups.isConstant(0) ? DimAttr() : train::divideExactly(channels, groups);
  if (!perGroup || c.dims(0)[1] != channels)
    return c.fail("its " + c.dims(0)[1].str() + " channels do not fit its weight and groups");
  ArrayRef<DimAttr> weightDims = c.dims(1), positions = ArrayRef<DimAttr>(c.dims(0)).drop_front(2);
  DimAttr depth = train::product(context, weightDims.drop_front());
  DimAttr columns = batch * train::product(context, positions);
  // Groups of channels are blocks of rows then.
  SmallVector<int64_t> channelsFirst = {1, 0};
  for (int64_t i = 0; i < axes; ++i)
    channelsFirst.push_back(2 + i);
  Value x = tb.reshape(tb.transpose(c.tensor(0), channelsFirst), {groups, perGroup, columns});
  Value weight = tb.reshape(c.tensor(1), {groups, perGroup, depth});
  // [filters, taps..., batch, positions...]
  Dims dims = {filters * groups};
  llvm::append_range(dims, weightDims.drop_front(2));
  dims.push_back(batch);
  llvm::append_range(dims, positions);
  Value y = tb.reshape(groupedProduct(tb, weight, x, true), dims);
  // [taps..., batch, filters, positions...]
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < axes; ++i)
    permutation.push_back(1 + i);
  permutation.append({axes + 1, 0});
  for (int64_t i = 0; i < axes; ++i)
    permutation.push_back(axes + 2 + i);
  y = tb.transpose(y, permutation);
  // One axis after the other: taps add up where windows overlap.
  for (auto [i, s] : llvm::enumerate(*slidings)) {
    int64_t axis = axes + 2 + int64_t(i);
    dims = train::getDims(y);
    dims[axis] = (s.size - c.dim(1)) * c.dim(s.stride) + c.dim(s.reach());
    y = train::SpreadOp::create(tb.b(), tb.loc(), train::getTensorType(dims, c.element(0)), y, axis,
                                int64_t(i), s.stride, s.dilation);
  }
  // The axes that are left of the taps.
  y = tb.sum(y, tapAxes(*slidings));
  Dims result = {batch, filters * groups};
  llvm::append_range(result, *sizes);
  // A pad by less than nothing cuts off.
  for (DimAttr &size : low)
    size = c.dim(0) - size;
  if (train::getDims(y) != result || llvm::any_of(low, [](DimAttr d) { return !d.isConstant(0); }))
    y = tb.pad(y, 0, low, result);
  return addBias(c, y);
}

void registerConv(HandlerTable &table) {
  table.add("Conv", conv, 2, 1);
  table.add("ConvTranspose", convTranspose, 2, 1);
}

} // namespace trainc::legalize
