// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions as matmuls. The windows of the input are laid out as the columns of one
// matrix (im2col), batch and positions together, so that the gradient of the filter is one matmul
// over all of them; the gradient of the input puts the columns of its matmul back where the windows
// were (col2im). Channels come first in the parts, as in ONNX: kernels over windows run along the
// rows of images, and the transposes around a convolution that came from there vanish.

#include "dialects/Train/Convolution/Convolution.h"

using namespace mlir;
using namespace trainc::train;

namespace {
/// Sizes and layouts of one convolution.
struct Parts {
  Parts(TrainBuilder &tb, ConvolutionOpInterface op)
      : tb(tb), slidings(getSlidings(op)), axes(slidings.size()),
        groups(tb.dimAttr(int64_t(op.getGroups()))), batch(getDim(op.getInput(), 0)),
        channels(getDims(op.getInput()).back()), filters(getDim(op.getFilter(), 0)),
        groupChannels(getDims(op.getFilter()).back()),
        groupFilters(divideExactly(filters, groups)) {
    for (const Sliding &s : slidings) {
      taps.push_back(tb.dimAttr(s.taps));
      counts.push_back(s.count);
    }
  }

  /// One filter a channel: sums of a few products, no matrix.
  bool isDepthwise() const { return groupChannels.isConstant(1) && groupFilters.isConstant(1); }
  /// Elements of a filter, and windows of all images.
  DimAttr depth() const { return groupChannels * product(tb.context(), taps); }
  DimAttr columns() const { return batch * product(tb.context(), counts); }

  /// [taps..., batch, channels, windows...], zero where a window is over the edge.
  Value windows(Value input) {
    return buildWindows(tb, tb.transpose(input, channelsFirst(axes + 2)), slidings, 0);
  }
  SmallVector<DimAttr> windowDims() const { return join({taps, {batch, channels}, counts}); }
  /// [groups, depth, columns]: channels and taps are the depth, batch and windows the columns.
  Value inputMatrix(Value input) {
    // [channels, taps..., batch, windows...]
    SmallVector<int64_t> permutation = {axes + 1};
    llvm::append_range(permutation, tapAxes(slidings));
    permutation.push_back(axes);
    llvm::append_range(permutation, llvm::seq<int64_t>(axes + 2, 2 * axes + 2));
    return tb.reshape(tb.transpose(windows(input), permutation), {groups, depth(), columns()});
  }
  /// [groups, depth, columns] back as windows, added up where they overlap.
  Value inputOf(Value matrix) {
    Value x = tb.reshape(matrix, join({{channels}, taps, {batch}, counts}));
    // [taps..., batch, channels, windows...]
    SmallVector<int64_t> permutation;
    llvm::append_range(permutation, llvm::seq<int64_t>(1, axes + 1));
    permutation.append({axes + 1, 0});
    llvm::append_range(permutation, llvm::seq<int64_t>(axes + 2, 2 * axes + 2));
    return sumOverWindows(tb.transpose(x, permutation));
  }
  Value sumOverWindows(Value windows) {
    return tb.transpose(sumWindows(tb, windows, slidings), channelsLast(axes + 2));
  }
  /// [groups, filters of one, depth]
  Value filterMatrix(Value filter) {
    return tb.reshape(tb.transpose(filter, channelsFirst(axes + 2)),
                      {groups, groupFilters, depth()});
  }
  Value filterOf(Value matrix) {
    return tb.transpose(tb.reshape(matrix, join({{filters, groupChannels}, taps})),
                        channelsLast(axes + 2));
  }
  /// [groups, filters of one, columns]
  Value outputMatrix(Value output) {
    SmallVector<int64_t> permutation = {axes + 1};
    llvm::append_range(permutation, llvm::seq<int64_t>(0, axes + 1));
    return tb.reshape(tb.transpose(output, permutation), {groups, groupFilters, columns()});
  }
  Value outputOf(Value matrix) {
    SmallVector<int64_t> permutation;
    llvm::append_range(permutation, llvm::seq<int64_t>(1, axes + 2));
    permutation.push_back(0);
    return tb.transpose(tb.reshape(matrix, join({{filters}, {batch}, counts})), permutation);
  }
  /// Batched over the groups, or plain where there is one: what later passes know.
  Value matmul(Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
    auto drop = [&](Value x) {
      SmallVector<DimAttr> dims = getDims(x);
      return dims[0].isConstant(1) ? tb.reshape(x, ArrayRef<DimAttr>(dims).drop_front()) : x;
    };
    return tb.matmul(drop(lhs), drop(rhs), transposeLhs, transposeRhs);
  }

  /// What each tap of each channel is multiplied with lies together, [channels, taps..., batch,
  /// windows...], where filters are read and their gradients summed: all taps of a channel use the
  /// same part of an image, while it is in a cache.
  SmallVector<int64_t> fromChannels() const {
    SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(1, axes + 2));
    permutation.push_back(0);
    llvm::append_range(permutation, llvm::seq<int64_t>(axes + 2, 2 * axes + 2));
    return permutation;
  }
  SmallVector<int64_t> toChannels() const {
    SmallVector<int64_t> permutation = {axes + 1};
    llvm::append_range(permutation, llvm::seq<int64_t>(0, axes + 1));
    llvm::append_range(permutation, llvm::seq<int64_t>(axes + 2, 2 * axes + 2));
    return permutation;
  }
  /// The filter of each channel, at all windows.
  Value depthwiseFilter(Value filter) {
    Value x = tb.reshape(tb.transpose(filter, channelsFirst(axes + 2)), join({{filters}, taps}));
    Value all = tb.broadcast(x, join({{filters}, taps, {batch}, counts}),
                             llvm::to_vector(llvm::seq<int64_t>(0, axes + 1)));
    return tb.transpose(all, fromChannels());
  }
  /// Its gradient, from the products at all windows.
  Value depthwiseFilterOf(Value products) {
    Value sums = tb.sum(tb.transpose(products, toChannels()),
                        llvm::to_vector(llvm::seq<int64_t>(axes + 1, 2 * axes + 2)));
    return filterOf(sums);
  }
  /// The output at each tap.
  Value depthwiseOutput(Value output) {
    return tb.broadcastAlong(tb.transpose(output, channelsFirst(axes + 2)), windowDims(),
                             tapAxes(slidings));
  }
  static SmallVector<DimAttr> join(ArrayRef<SmallVector<DimAttr>> lists) {
    SmallVector<DimAttr> all;
    for (ArrayRef<DimAttr> list : lists)
      llvm::append_range(all, list);
    return all;
  }

  TrainBuilder &tb;
  SmallVector<Sliding> slidings;
  int64_t axes;
  DimAttr groups, batch, channels, filters, groupChannels, groupFilters;
  SmallVector<DimAttr> taps, counts;
};
} // namespace

void ConvOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Parts parts(tb, *this);
  if (parts.isDepthwise()) {
    Value windows = parts.windows(getInput());
    Value products = tb.mul(windows, parts.depthwiseFilter(getFilter()));
    results.push_back(
        tb.transpose(tb.sum(products, tapAxes(parts.slidings)), channelsLast(parts.axes + 2)));
    return;
  }
  Value filter = parts.filterMatrix(getFilter()), input = parts.inputMatrix(getInput());
  results.push_back(parts.outputOf(parts.matmul(filter, input, false, false)));
}

void ConvDataGradOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Parts parts(tb, *this);
  if (parts.isDepthwise()) {
    Value output = parts.depthwiseOutput(getOutput());
    results.push_back(parts.sumOverWindows(tb.mul(output, parts.depthwiseFilter(getFilter()))));
    return;
  }
  Value filter = parts.filterMatrix(getFilter()), output = parts.outputMatrix(getOutput());
  results.push_back(parts.inputOf(parts.matmul(filter, output, true, false)));
}

void ConvFilterGradOp::decompose(TrainBuilder &tb, SmallVectorImpl<Value> &results) {
  Parts parts(tb, *this);
  if (parts.isDepthwise()) {
    Value windows = parts.windows(getInput());
    Value products = tb.mul(windows, parts.depthwiseOutput(getOutput()));
    results.push_back(parts.depthwiseFilterOf(products));
    return;
  }
  Value output = parts.outputMatrix(getOutput()), input = parts.inputMatrix(getInput());
  results.push_back(parts.filterOf(parts.matmul(output, input, false, true)));
}
