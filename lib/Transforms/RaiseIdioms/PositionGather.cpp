// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The indices as an affine function of their coordinates, with sizes as factors.

#include "lib/Transforms/RaiseIdioms/PositionGather.h"

#include "dialects/Train/Splats.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// constant + sum of factors[a] * coordinate a
struct Affine {
  DimAttr constant;
  SmallVector<DimAttr> factors;

  bool isUniform() const {
    return llvm::all_of(factors, [](DimAttr factor) { return factor.isConstant(0); });
  }
};
} // namespace

/// Longest constant that is looked at.
static constexpr int64_t kMaxConstant = 1 << 16;

static std::optional<Affine> affineOf(DenseElementsAttr constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  if (!isa<IntegerType>(type.getElementType()) || type.getElementType().isInteger(1) ||
      type.getNumElements() > kMaxConstant || type.getNumElements() == 0)
    return std::nullopt;
  SmallVector<int64_t> values;
  for (const APInt &value : constant.getValues<APInt>())
    values.push_back(value.getSExtValue());
  // Strides in the data and what an index adds to the value.
  SmallVector<int64_t> strides(type.getRank()), factors(type.getRank(), 0);
  int64_t stride = 1;
  for (int64_t a = type.getRank(); a-- > 0; stride *= type.getDimSize(a)) {
    strides[a] = stride;
    if (type.getDimSize(a) > 1)
      factors[a] = values[stride] - values[0];
  }
  for (auto [i, value] : llvm::enumerate(values)) {
    int64_t expected = values[0];
    for (int64_t a = 0; a < type.getRank(); ++a)
      expected += int64_t(i) / strides[a] % type.getDimSize(a) * factors[a];
    if (value != expected)
      return std::nullopt;
  }
  auto number = [&](int64_t n) { return DimAttr::constant(constant.getContext(), n); };
  Affine result{number(values[0]), {}};
  for (int64_t factor : factors)
    result.factors.push_back(number(factor));
  return result;
}

static std::optional<Affine> affineOf(Value value) {
  MLIRContext *context = value.getContext();
  auto number = [&](int64_t n) { return DimAttr::constant(context, n); };
  Affine result{number(0), SmallVector<DimAttr>(getRank(value), number(0))};
  if (std::optional<double> splat = getSplatValue(value)) {
    result.constant = number(int64_t(*splat));
    return result;
  }
  Operation *def = value.getDefiningOp();
  if (!def || !isa<IntegerType>(getElementType(value)))
    return std::nullopt;
  if (DenseElementsAttr constant; matchPattern(value, m_Constant(&constant)))
    return affineOf(constant);
  if (auto dim = dyn_cast<DimOp>(def)) {
    result.constant = dim.getValue();
    return result;
  }
  if (auto iota = dyn_cast<IotaOp>(def)) {
    result.factors[iota.getAxis()] = number(1);
    return result;
  }
  SmallVector<Affine> operands;
  for (Value operand : def->getOperands()) {
    std::optional<Affine> affine = affineOf(operand);
    if (!affine)
      return std::nullopt;
    operands.push_back(*affine);
  }
  if (isa<BroadcastOp, ReshapeOp, TransposeOp>(def)) {
    AxisMap map = cast<AxisMapOpInterface>(def).getAxisMap();
    result.constant = operands[0].constant;
    for (auto [factor, loop] : llvm::zip_equal(operands[0].factors, map.operands[0])) {
      if (factor.isConstant(0))
        continue;
      auto at = llvm::find(map.results[0], loop);
      if (at == map.results[0].end() || map.loops[loop] != LoopKind::Parallel)
        return std::nullopt;
      result.factors[at - map.results[0].begin()] = factor;
    }
    return result;
  }
  if (isa<CastOp>(def))
    return operands[0];
  if (isa<AddOp>(def)) {
    result.constant = operands[0].constant + operands[1].constant;
    for (auto [to, a, b] :
         llvm::zip_equal(result.factors, operands[0].factors, operands[1].factors))
      to = a + b;
    return result;
  }
  if (isa<MulOp>(def))
    for (unsigned side = 0; side < 2; ++side) {
      if (!operands[side].isUniform())
        continue;
      const Affine &other = operands[1 - side];
      DimAttr by = operands[side].constant;
      result.constant = other.constant * by;
      for (auto [to, factor] : llvm::zip_equal(result.factors, other.factors))
        to = factor * by;
      return result;
    }
  return std::nullopt;
}

Value trainc::viewOfGather(GatherOp gather) {
  int64_t axis = gather.getAxis();
  std::optional<Affine> affine = affineOf(gather.getIndices());
  if (!affine || !affine->constant.isConstant(0) || affine->isUniform())
    return {};
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  SmallVector<DimAttr> indices = getDims(gather.getIndices()), data = getDims(gather.getData());
  // Axes that the index runs over, each counting the elements of those behind it.
  DimAttr stride = tb.dimAttr(1);
  SmallVector<DimAttr> parts;
  SmallVector<int64_t> places;
  for (size_t a = indices.size(); a-- > 0;) {
    if (affine->factors[a].isConstant(0))
      continue;
    if (affine->factors[a] != stride)
      return {};
    parts.insert(parts.begin(), indices[a]);
    places.insert(places.begin(), axis + int64_t(a));
    stride = stride * indices[a];
  }
  if (stride != data[axis])
    return {};
  SmallVector<DimAttr> dims(data.begin(), data.begin() + axis);
  SmallVector<int64_t> axes;
  for (int64_t a = 0; a < axis; ++a)
    axes.push_back(a);
  llvm::append_range(dims, parts);
  llvm::append_range(axes, places);
  for (size_t a = axis + 1; a < data.size(); ++a) {
    dims.push_back(data[a]);
    axes.push_back(int64_t(a - 1 + indices.size()));
  }
  return tb.broadcast(tb.reshape(gather.getData(), dims), getDims(gather.getResult()), axes);
}

Value trainc::viewOfGather(GatherNdOp gather) {
  auto tuples = gather.getIndices().getDefiningOp<ConcatOp>();
  SmallVector<DimAttr> indices = getDims(gather.getIndices()), data = getDims(gather.getData());
  int64_t last = int64_t(indices.size()) - 1;
  if (!tuples || gather.getBatchDims() != 0 || int64_t(tuples.getAxis()) != last)
    return {};
  // Each number of a tuple counts along an axis of its own, in the data's order.
  SmallVector<int64_t> axes;
  for (Value part : tuples.getOperands()) {
    std::optional<Affine> affine = affineOf(part);
    if (!affine || !getDim(part, last).isConstant(1) || !affine->constant.isConstant(0))
      return {};
    int64_t along = -1;
    for (auto [axis, factor] : llvm::enumerate(affine->factors)) {
      if (factor.isConstant(0))
        continue;
      if (along >= 0 || !factor.isConstant(1))
        return {};
      along = axis;
    }
    if (along < 0 || (!axes.empty() && along <= axes.back()) || indices[along] != data[axes.size()])
      return {};
    axes.push_back(along);
  }
  for (size_t a = axes.size(); a < data.size(); ++a)
    axes.push_back(last + int64_t(a - tuples.getNumOperands()));
  OpBuilder builder(gather);
  TrainBuilder tb(builder, gather.getLoc());
  return tb.broadcast(gather.getData(), getDims(gather.getResult()), axes);
}
