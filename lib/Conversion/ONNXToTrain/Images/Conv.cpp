// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions, channels last, between transposes: ONNX has the channels first. A transposed
// convolution is the gradient of one for its input.

#include "dialects/Train/Convolution/Convolution.h"
#include "lib/Conversion/ONNXToTrain/Images/Windows.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace trainc::legalize {

/// The weight's axes after the channels, all constant; nullopt with a reason.
static std::optional<SmallVector<int64_t>> kernelOf(NodeContext &c) {
  if (!c.needFloat(0))
    return std::nullopt;
  if (c.element(1) != c.element(0) || (c.has(2) && c.element(2) != c.element(0))) {
    (void)c.fail("its input, weight and bias have different element types: give it a Cast before "
                 "those that are not of the input's");
    return std::nullopt;
  }
  if (c.rank(0) < 3 || c.rank(1) != c.rank(0)) {
    (void)c.fail("its input is " + train::dimsToString(c.dims(0)) + " and its weight " +
                 train::dimsToString(c.dims(1)) +
                 ": it needs an input [batch, channels, axes...] and a weight of its rank");
    return std::nullopt;
  }
  SmallVector<int64_t> kernel;
  // The sizes of windows shape the graph: they have to be numbers.
  for (DimAttr size : ArrayRef<DimAttr>(c.dims(1)).drop_front(2)) {
    if (!size.getConstant()) {
      (void)c.fail("the size of its kernel is not constant, but '" + size.str() + "'" +
                   fixHint({size}));
      return std::nullopt;
    }
    kernel.push_back(*size.getConstant());
  }
  return kernel;
}

/// Whether all elements of an input are known to be 0.
static bool isZero(NodeContext &c, int64_t input) {
  if (const Content *known = c.content(input))
    return known->isReal() && llvm::all_of(known->values, [](Scalar x) { return x.real == 0; });
  auto full = c.tensor(input).getDefiningOp<train::FullOp>();
  return full && cast<FloatAttr>(full.getValue()).getValueAsDouble() == 0;
}

/// y plus a bias along axis 1, if the node has one.
static LogicalResult addBias(NodeContext &c, Value y) {
  if (!c.has(2))
    return c.set(y);
  Dims dims = train::getDims(y);
  if (c.dims(2) != Dims{dims[1]}) {
    // Zeros of any shape are no bias: onnxscript writes that of a Conv3d without one as
    // [filters, 2].
    if (!isZero(c, 2))
      return c.fail("its bias does not have one element a channel: give it the shape [" +
                    dims[1].str() + "], or leave it out");
    remark::passed(c.op.getLoc(),
                   remark::RemarkOpts::name("NoBias").category("legalize-onnx").function("forward"))
        << remark::add("its bias is zeros, not one for each channel: it is left out");
    return c.set(y);
  }
  return c.set(c.tb.add(y, c.tb.broadcast(c.tensor(2), dims, {1})));
}

/// Whether the input has the channels of a weight, whose first two axes are these, and the groups
/// divide the first one. Fails if not.
static LogicalResult needGroups(NodeContext &c, DimAttr first, DimAttr second, DimAttr channels) {
  DimAttr groups = c.dim(c.attr("group", int64_t(1))), given = c.dims(0)[1];
  if (first.isConstant(0) || second.isConstant(0))
    return c.fail("its weight is [" + first.str() + ", " + second.str() +
                  ", taps...], of no elements: give it at least one channel and one filter");
  if (given == channels) {
    if (train::divideExactly(first, groups))
      return success();
    return c.fail("its group=" + groups.str() + " does not divide the first axis of its weight, [" +
                  first.str() + ", " + second.str() +
                  ", taps...]: choose groups that divide filters and channels");
  }
  std::optional<StringRef> name = given.getSymbol();
  return c.fail("its " + given.str() + " channels do not fit its weight and groups: " +
                "the weight is [" + first.str() + ", " + second.str() +
                ", taps...], with group=" + groups.str() + ", for " + channels.str() + " channels" +
                (name ? "; --dim " + *name + "=" + channels.str() + " fixes them" : ""));
}

/// Inputs 0 and 1 as a convolution or the gradient of one, plus the bias. `sizes`: of the result.
template <typename Op>
static LogicalResult convolution(NodeContext &c, ArrayRef<Sliding> slidings, DimAttr channels,
                                 ArrayRef<DimAttr> sizes) {
  SmallVector<int64_t> strides, dilations;
  Dims low, high, result = {c.dims(0)[0]};
  for (const Sliding &s : slidings) {
    strides.push_back(s.stride);
    dilations.push_back(s.dilation);
    low.push_back(s.low);
    high.push_back(s.high);
  }
  llvm::append_range(result, sizes);
  result.push_back(channels);
  int64_t rank = c.rank(0);
  Value x = c.tb.transpose(c.tensor(0), train::channelsLast(rank));
  Value weight = c.tb.transpose(c.tensor(1), train::channelsLast(rank));
  Value y = Op::create(c.tb.b(), c.tb.loc(), train::getTensorType(result, c.element(0)), x, weight,
                       strides, dilations, train::DimsAttr::get(c.context(), low),
                       train::DimsAttr::get(c.context(), high), c.attr("group", int64_t(1)));
  return addBias(c, c.tb.transpose(y, train::channelsFirst(rank)));
}

static LogicalResult conv(NodeContext &c) {
  auto kernel = kernelOf(c);
  auto slidings = kernel ? readSlidings(c, *kernel) : std::nullopt;
  if (!slidings)
    return failure();
  DimAttr filters = c.dims(1)[0], channels = c.dims(1)[1]; // channels of one group
  if (failed(needGroups(c, filters, channels, channels * c.dim(c.attr("group", int64_t(1))))))
    return failure();
  Dims sizes;
  for (const Sliding &s : *slidings)
    sizes.push_back(s.count);
  return convolution<train::ConvOp>(c, *slidings, filters, sizes);
}

/// Sizes of the result; sets what is cut off around it. nullopt with a reason.
static std::optional<Dims> transposedSizes(NodeContext &c, MutableArrayRef<Sliding> slidings) {
  int64_t axes = slidings.size();
  auto more = c.ints("output_padding").value_or(SmallVector<int64_t>(axes, 0));
  auto wanted = c.ints("output_shape");
  if (failed(needPerAxis(c, "output_padding", more.size(), axes, axes)) ||
      (wanted && failed(needPerAxis(c, "output_shape", wanted->size(), axes, axes))))
    return std::nullopt;
  StringRef automatic = c.attr("auto_pad", "NOTSET");
  Dims sizes;
  for (auto [i, s] : llvm::enumerate(slidings)) {
    // PyTorch's rule: an output_padding chooses among the sizes that a convolution has one result
    // of, of which there are so many.
    if (more[i] >= std::max(s.stride, s.dilation)) {
      (void)c.fail("its output_padding of axis " + Twine(2 + i) + " is " + Twine(more[i]) +
                   ", which has to be below its stride " + Twine(s.stride) + " or its dilation " +
                   Twine(s.dilation) + "; pad the result instead");
      return std::nullopt;
    }
    DimAttr stride = c.dim(s.stride);
    // As wide as all windows together reach.
    DimAttr full = (s.size - c.dim(1)) * stride + c.dim(s.reach() + more[i]);
    if (!wanted && !automatic.starts_with("SAME")) {
      sizes.push_back(full - s.low - s.high);
      if (auto most = c.state.bounds.interval(sizes.back()).high; most && *most < 1) {
        (void)c.fail("its pads leave nothing of the " + full.str() + " positions of axis " +
                     Twine(2 + i) + " of its result; give it smaller pads");
        return std::nullopt;
      }
      // A mean over no positions is no number.
      (void)c.state.bounds.demandAtMost(c.dim(1) - sizes.back(), 0);
      continue;
    }
    sizes.push_back(wanted ? c.dim((*wanted)[i]) : s.size * stride);
    // Half of what is too much is cut off on each side; the odd one where the name says.
    DimAttr cut = c.state.bounds.max(full - sizes.back(), c.dim(0));
    DimAttr half = train::floorDiv(cut, c.dim(2));
    s.low = automatic == "SAME_UPPER" ? half : cut - half;
    s.high = cut - s.low;
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
  std::optional<Dims> sizes = transposedSizes(c, *slidings);
  if (!sizes)
    return failure();
  // The weight's first axis are the channels of the input, its second one filters of one group.
  DimAttr channels = c.dims(1)[0], filters = c.dims(1)[1];
  if (failed(needGroups(c, channels, filters, channels)))
    return failure();
  return convolution<train::ConvDataGradOp>(c, *slidings,
                                            filters * c.dim(c.attr("group", int64_t(1))), *sizes);
}

void registerConv(HandlerTable &table) {
  table.add("Conv", conv, 2, 1);
  table.add("ConvTranspose", convTranspose, 2, 1);
}

} // namespace trainc::legalize
