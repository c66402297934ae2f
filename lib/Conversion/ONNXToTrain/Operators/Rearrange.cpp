// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fixed patterns of positions: triangles, diagonals, blocks of pixels as channels, reversed
// sequences, and windows summed back into an image.

#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// A comparison of two positions, whatever the sizes are.
static LogicalResult trilu(NodeContext &c) {
  int64_t rank = c.rank(0), diagonal = 0;
  if (rank < 2)
    return c.fail("it needs a matrix");
  if (c.has(1)) {
    auto k = c.constants(1, "diagonal");
    if (!k)
      return failure();
    if (k->size() != 1)
      return c.fail("its diagonal is not a scalar");
    diagonal = (*k)[0];
  }
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  Value row = tb.iota(c.dims(0), tb.b().getI64Type(), rank - 2);
  Value column = tb.iota(c.dims(0), tb.b().getI64Type(), rank - 1);
  // A diagonal above the main one has a positive number.
  if (diagonal)
    row = tb.add(row, tb.scalarLike(row, double(diagonal)));
  Value keep = tb.compare(c.attr("upper", int64_t(1)) ? "ge" : "le", column, row);
  return c.set(tb.select(keep, x, tb.scalarLike(x, 0)));
}

static LogicalResult eyeLike(NodeContext &c) {
  if (c.rank(0) != 2)
    return c.fail("it needs a matrix");
  Type element = c.element(0);
  unsigned unsignedBits = c.in(0).unsignedBits;
  // The result's type is the input's, unless it says another.
  if (c.rawAttr("dtype")) {
    int64_t dtype = c.attr("dtype", int64_t(0));
    element = c.elementType(dtype);
    unsignedBits = NodeContext::unsignedBits(dtype);
    if (!element)
      return c.fail("its dtype is not supported");
  }
  TrainBuilder &tb = c.tb;
  Value row = tb.iota(c.dims(0), tb.b().getI64Type(), 0);
  Value column = tb.iota(c.dims(0), tb.b().getI64Type(), 1);
  row = tb.add(row, tb.scalarLike(row, double(c.attr("k", int64_t(0)))));
  // 0 and 1 of any type; the input's elements are not read.
  (void)c.set(tb.cast(tb.compare("eq", row, column), element));
  c.state.valueOf(c.op.getOutputs()[0]).unsignedBits = unsignedBits;
  return success();
}

/// Sizes [batch, channels, height, width] and the block's; nullopt with a reason.
static std::optional<int64_t> blockSize(NodeContext &c) {
  int64_t block = c.attr("blocksize", int64_t(0));
  if (c.rank(0) == 4 && block > 0)
    return block;
  (void)c.fail("it needs a tensor of rank 4 and a positive blocksize");
  return std::nullopt;
}

static LogicalResult depthToSpace(NodeContext &c) {
  std::optional<int64_t> block = blockSize(c);
  if (!block)
    return failure();
  Dims dims = c.dims(0);
  // Exact for all sizes: the block divides the channels by an attribute.
  DimAttr b = c.dim(*block), channels = train::divideExactly(dims[1], b * b);
  if (!channels)
    return c.fail("its channels are no multiple of the block's pixels");
  StringRef mode = c.attr("mode", "DCR");
  bool columns = mode == "CRD"; // the channel, not the block, comes first
  Value x = c.tensor(0);
  // Pixels of a block come out of the channels and go next to the rows and columns that they are
  // in.
  x = columns ? c.tb.reshape(x, {dims[0], channels, b, b, dims[2], dims[3]})
              : c.tb.reshape(x, {dims[0], b, b, channels, dims[2], dims[3]});
  x = c.tb.transpose(x, columns ? ArrayRef<int64_t>{0, 1, 4, 2, 5, 3}
                                : ArrayRef<int64_t>{0, 3, 4, 1, 5, 2});
  return c.set(c.tb.reshape(x, {dims[0], channels, dims[2] * b, dims[3] * b}));
}

static LogicalResult spaceToDepth(NodeContext &c) {
  std::optional<int64_t> block = blockSize(c);
  if (!block)
    return failure();
  Dims dims = c.dims(0);
  DimAttr b = c.dim(*block);
  DimAttr height = train::divideExactly(dims[2], b), width = train::divideExactly(dims[3], b);
  if (!height || !width)
    return c.fail("its height and width are no multiples of the block's");
  // The other way round; the block's pixels come first in the channels, as DCR has them.
  Value x = c.tb.reshape(c.tensor(0), {dims[0], dims[1], height, b, width, b});
  x = c.tb.transpose(x, {0, 3, 5, 1, 2, 4});
  return c.set(c.tb.reshape(x, {dims[0], dims[1] * b * b, height, width}));
}

/// The first length[b] elements of every sequence, backwards.
static LogicalResult reverseSequence(NodeContext &c) {
  int64_t time = c.attr("time_axis", int64_t(0)), batch = c.attr("batch_axis", int64_t(1));
  // ONNX allows time and batch on the first two axes only.
  if (c.rank(0) < 2 || time == batch || time < 0 || time > 1 || batch < 0 || batch > 1 ||
      c.rank(1) != 1 || c.dims(1)[0] != c.dims(0)[batch] || !c.needInteger(1))
    return c.fail("its axes have to be 0 and 1, with one length a sequence");
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  const Dims &dims = c.dims(0);
  Value length = tb.broadcast(tb.cast(c.tensor(1), integer), dims, {batch});
  Value at = tb.iota(dims, integer, time);
  // Elements behind the length stay where they are.
  Value back = tb.sub(tb.sub(length, tb.scalarLike(at, 1)), at);
  Value from = tb.select(tb.compare("lt", at, length), back, at);
  return c.set(tb.gatherElements(c.tensor(0), from, time));
}

/// Sums windows, one a column, into the image that they were cut from: the gradient of im2col.
static LogicalResult col2Im(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  auto image = c.constants(1, "image_shape"), block = c.constants(2, "block_shape");
  if (!image || !block)
    return failure();
  size_t axes = image->size();
  // Lists of another length are taken for absent.
  auto listed = [&](StringRef name, size_t size, int64_t otherwise) {
    auto given = c.ints(name);
    return given && given->size() == size ? *given : SmallVector<int64_t>(size, otherwise);
  };
  SmallVector<int64_t> dilations = listed("dilations", axes, 1),
                       strides = listed("strides", axes, 1), pads = listed("pads", 2 * axes, 0);
  // Padding is part of the sum's target and cut off at the end.
  SmallVector<int64_t> padded, windows;
  int64_t pixels = 1, offsets = 1, places = 1;
  // A list that does not fit stops early: fewer windows than axes are refused below.
  for (size_t i = 0; i < axes && block->size() == axes; ++i) {
    padded.push_back((*image)[i] + pads[i] + pads[i + axes]);
    // Positions that a window can start at, less one.
    int64_t span = padded[i] - dilations[i] * ((*block)[i] - 1) - 1;
    if ((*block)[i] < 1 || strides[i] < 1 || dilations[i] < 1 || span < 0)
      break;
    windows.push_back(span / strides[i] + 1);
    pixels *= padded[i];
    offsets *= (*block)[i];
    places *= windows[i];
  }
  // Known sizes, so that every target is a constant.
  DimAttr channels =
      c.rank(0) == 3 ? train::divideExactly(c.dims(0)[1], c.dim(offsets)) : DimAttr();
  if (windows.size() != axes || !channels || !c.dims(0)[2].isConstant(places))
    return c.fail("the sizes of its windows, image and blocks do not fit");
  SmallVector<int64_t> targets;
  // For each tap and each window the pixel it was cut from, the last axis fastest.
  for (int64_t offset = 0; offset < offsets; ++offset)
    for (int64_t place = 0; place < places; ++place) {
      int64_t pixel = 0, stride = 1, o = offset, p = place;
      for (size_t i = axes; i-- > 0;) {
        pixel += stride * (p % windows[i] * strides[i] + o % (*block)[i] * dilations[i]);
        stride *= padded[i];
        o /= (*block)[i];
        p /= windows[i];
      }
      assert(pixel < pixels && "windows lie in the padded image");
      targets.push_back(pixel);
    }
  TrainBuilder &tb = c.tb;
  DimAttr batch = c.dims(0)[0], rows = batch * channels;
  auto type = RankedTensorType::get({int64_t(targets.size())}, tb.b().getI64Type());
  Value index = tb.constant(DenseElementsAttr::get(type, ArrayRef<int64_t>(targets)));
  Value x = tb.reshape(c.tensor(0), {rows, c.dim(offsets * places)});
  // Pixels of several windows are summed.
  x = tb.scatterAdd(index, x, 1, train::getTensorType({rows, c.dim(pixels)}, c.element(0)));
  Dims dims = {batch, channels}, begin = dims, sizes = dims;
  for (size_t i = 0; i < axes; ++i) {
    dims.push_back(c.dim(padded[i]));
    begin.push_back(c.dim(pads[i]));
    sizes.push_back(c.dim((*image)[i]));
  }
  // Batch and channels are not cut.
  begin[0] = begin[1] = c.dim(0);
  return c.set(tb.slice(tb.reshape(x, dims), begin, sizes));
}

void registerRearrange(HandlerTable &table) {
  table.add("Trilu", trilu, 1, 14);
  table.add("EyeLike", eyeLike, 1, 9);
  table.entries["EyeLike"].typedAs = -1;
  table.add("DepthToSpace", depthToSpace, 1, 1);
  table.add("SpaceToDepth", spaceToDepth, 1, 1);
  table.add("ReverseSequence", reverseSequence, 2, 10);
  table.add("Col2Im", col2Im, 3, 18);
  using Table = HandlerTable;
  table.describe({"Trilu", "DepthToSpace", "SpaceToDepth", "ReverseSequence"}, Table::kAll);
  table.describe({"EyeLike"}, Table::kAll, false);
}

} // namespace trainc::legalize
