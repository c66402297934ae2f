// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Group and instance normalisation: each sample's channels in groups, over all positions.

#include "Moments.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Elements of a group that a block of threads keeps in registers between passes over them, and
/// positions of a single channel that are few enough to come out of a cache again.
constexpr int64_t kOnceElements = 32768, kOncePositions = 1024;

namespace {

/// The channels of `x`, [batch, channels, ...], in groups of `channels`.
struct Groups {
  Value x;
  DimAttr count, channels;

  bool isOfOne() const { return channels.isConstant(1); }
  /// [batch, groups, channels of one, ...]; as they are where a group is one channel.
  Dims split(ArrayRef<DimAttr> dims) const {
    Dims result(dims);
    if (isOfOne())
      return result;
    result[1] = channels;
    result.insert(result.begin() + 1, count);
    return result;
  }
  /// What is in caches or registers when it is read again.
  bool areSmall() const;
};

} // namespace

bool Groups::areSmall() const {
  Dims dims = train::getDims(x);
  MLIRContext *context = x.getContext();
  DimAttr positions = train::product(context, ArrayRef<DimAttr>(dims).drop_front(2));
  std::optional<int64_t> size = (channels * positions).getConstant();
  return size && *size <= (isOfOne() ? kOncePositions : kOnceElements);
}

/// The mean first, then the differences from it. `scale` and `bias` are of `own`, axes of what the
/// groups are split to.
static Value normaliseSmall(TrainBuilder &tb, const Groups &groups, double epsilon, Value scale,
                            Value bias, ArrayRef<int64_t> own) {
  Dims all = train::getDims(groups.x), dims = groups.split(all);
  Value x = tb.reshape(groups.x, dims);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, dims.size()));
  Value centred = tb.sub(x, tb.broadcastAlong(tb.mean(x, axes), dims, axes));
  Value variance = tb.mean(tb.mul(centred, centred), axes);
  Value rstd = tb.rsqrt(tb.add(variance, tb.scalarLike(variance, epsilon)));
  // Multiplied by 1 / deviation: one division a group.
  Value y = tb.mul(centred, tb.broadcastAlong(rstd, dims, axes));
  y = tb.add(tb.mul(y, tb.broadcast(scale, dims, own)), tb.broadcast(bias, dims, own));
  return tb.reshape(y, all);
}

/// Sums of each channel come first, which read all channels of a position together where they lie
/// last, then those of a group, which are few numbers.
static Value normaliseLarge(TrainBuilder &tb, const Groups &groups, double epsilon, Value scale,
                            Value bias, ArrayRef<int64_t> own) {
  Type element = train::getElementType(groups.x);
  Value x = tb.cast(groups.x, sumType(element));
  Dims dims = train::getDims(x), channels = {dims[0], dims[1]};
  Dims split = groups.split(channels);
  auto together = [&](Value value) -> Value {
    if (groups.isOfOne())
      return value;
    Value mean = tb.mean(tb.reshape(value, split), {2});
    return tb.reshape(tb.broadcastAlong(mean, split, {2}), channels);
  };
  auto perChannel = [&](Value value) {
    Value repeated = tb.broadcast(tb.cast(value, x.getType()), split, own);
    return tb.reshape(repeated, channels);
  };
  SmallVector<int64_t> positions = llvm::to_vector(llvm::seq<int64_t>(2, dims.size()));
  // A sixteenth says where the numbers are.
  DimAttr part = train::floorDiv(dims[2] + tb.dimAttr(15), tb.dimAttr(16));
  Value sample = tb.sliceAxis(x, 2, tb.dimAttr(0), part);
  Moments moments = momentsOf(tb, x, sample, positions, together);
  Value y = normalise(tb, x, moments, positions, epsilon, perChannel(scale), perChannel(bias));
  return tb.cast(y, element);
}

/// Scale and bias have one number a channel, or, without `eachChannel`, a group.
static LogicalResult normaliseGroups(NodeContext &c, const Groups &groups, bool eachChannel) {
  TrainBuilder &tb = c.tb;
  Dims split = groups.split(train::getDims(groups.x)), size;
  SmallVector<int64_t> own = {1};
  // In groups, channels are two axes.
  if (eachChannel && !groups.isOfOne())
    own.push_back(2);
  for (int64_t axis : own)
    size.push_back(split[axis]);
  Value parameters[2];
  for (int64_t i : {0, 1}) {
    if (c.element(1 + i) != c.element(0) || c.rank(1 + i) != 1 ||
        c.dims(1 + i)[0] != train::product(c.context(), size))
      return c.fail("its scale and bias need one number a channel, of its input's type");
    parameters[i] = tb.reshape(c.tensor(1 + i), size);
  }
  auto make = groups.areSmall() ? normaliseSmall : normaliseLarge;
  Value y = make(tb, groups, c.attr("epsilon", 1e-5), parameters[0], parameters[1], own);
  return c.set(tb.reshape(y, c.dims(0)));
}

/// Channels are normalised in groups; before opset 21 scale and bias have one number a group.
static LogicalResult groupNorm(NodeContext &c) {
  int64_t groups = c.attr("num_groups", int64_t(0));
  if (!c.needFloat(0) || c.rank(0) < 2)
    return c.fail("it needs floats with channels on axis 1");
  DimAttr count = c.dim(std::max<int64_t>(groups, 1));
  DimAttr channels = groups > 0 ? train::divideExactly(c.dims(0)[1], count) : DimAttr();
  if (!channels)
    return c.fail("its channels cannot be cut into num_groups groups");
  Value x = c.tensor(0);
  // Without positions, each is one.
  if (c.rank(0) == 2)
    x = c.tb.reshape(x, {c.dims(0)[0], c.dims(0)[1], c.dim(1)});
  return normaliseGroups(c, {x, count, channels}, c.version() >= 21);
}

/// Of an input [batch, groups, the rest] that was [batch, channels, ...]: exporters write group
/// normalisation so. Channels of their own can lie in any order. Else each channel is a group.
static Groups groupsOf(Value x) {
  Dims dims = train::getDims(x);
  Groups whole = {x, dims[1], DimAttr::constant(x.getContext(), 1)};
  auto merged = x.getDefiningOp<train::ReshapeOp>();
  if (!merged || dims.size() != 3)
    return whole;
  Dims before = train::getDims(merged.getOperand());
  if (before.size() < 3 || before[0] != dims[0])
    return whole;
  DimAttr channels = train::divideExactly(before[1], dims[1]);
  return channels ? Groups{merged.getOperand(), dims[1], channels} : whole;
}

static LogicalResult instanceNorm(NodeContext &c) {
  if (!c.needFloat(0) || c.rank(0) < 3)
    return c.fail("it needs floats with channels on axis 1 and something to normalise");
  return normaliseGroups(c, groupsOf(c.tensor(0)), /*eachChannel=*/false);
}

void registerGroupNorm(HandlerTable &table) {
  table.add("GroupNormalization", groupNorm, 3, 18);
  table.add("InstanceNormalization", instanceNorm, 3, 6);
}

} // namespace trainc::legalize
