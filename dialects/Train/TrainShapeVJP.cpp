// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients of the operations that move elements: each moves the cotangent back.

#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

void BroadcastOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                           MutableArrayRef<Value> gradients) {
  SmallVector<int64_t> repeated;
  for (int64_t axis = 0; axis < getRank(getResult()); ++axis)
    if (!llvm::is_contained(getAxes(), axis))
      repeated.push_back(axis);
  gradients[0] = repeated.empty() ? cotangents[0] : tb.sum(cotangents[0], repeated);
}
void ReshapeOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                         MutableArrayRef<Value> gradients) {
  gradients[0] = tb.reshape(cotangents[0], getDims(getOperand()));
}
void TransposeOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                           MutableArrayRef<Value> gradients) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [axis, from] : llvm::enumerate(getPermutation()))
    inverse[from] = axis;
  gradients[0] = tb.transpose(cotangents[0], inverse);
}

void SliceOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                       MutableArrayRef<Value> gradients) {
  // Steps of one pad back. Behind each element of longer ones come zeros up to the next one: an
  // axis of their own, which is joined with that of the elements. Steps backwards are scattered.
  Value g = cotangents[0];
  SmallVector<DimAttr> dims = getDims(getOperand()), low(getStarts().getDims());
  for (auto [axis, step] : llvm::enumerate(getSteps())) {
    if (step == 1)
      continue;
    if (step < 1) {
      Type integer = tb.b().getI64Type();
      SmallVector<DimAttr> spread = getDims(g), count = {spread[axis]};
      Value positions = tb.iota(count, integer, 0);
      positions = tb.mul(positions, tb.scalarLike(positions, double(step)));
      positions = tb.add(positions, tb.broadcast(tb.dim(low[axis], integer), count, {}));
      spread[axis] = dims[axis];
      g = tb.scatterAdd(positions, g, axis, getTensorType(spread, getElementType(g)));
      low[axis] = tb.dimAttr(0);
      continue;
    }
    SmallVector<DimAttr> joined = getDims(g), apart = joined;
    apart.insert(apart.begin() + axis + 1, tb.dimAttr(1));
    SmallVector<DimAttr> spread = apart;
    spread[axis + 1] = tb.dimAttr(step);
    joined[axis] = joined[axis] * tb.dimAttr(step);
    SmallVector<DimAttr> first(apart.size(), tb.dimAttr(0));
    g = tb.reshape(tb.pad(tb.reshape(g, apart), 0, first, spread), joined);
  }
  auto isZero = [](DimAttr start) { return start.isConstant(0); };
  if (!llvm::all_of(low, isZero) || getDims(g) != dims)
    g = tb.pad(g, 0, low, dims);
  gradients[0] = g;
}
void PadOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                     MutableArrayRef<Value> gradients) {
  // The opposite pad crops; where this pad cropped, it puts zeros.
  SmallVector<DimAttr> low;
  for (DimAttr dim : getLow().getDims())
    low.push_back(tb.dimAttr(0) - dim);
  gradients[0] = tb.pad(cotangents[0], 0, low, getDims(getOperand()));
}
void ConcatOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                        MutableArrayRef<Value> gradients) {
  SmallVector<DimAttr> sizes;
  for (Value operand : getOperands())
    sizes.push_back(getDim(operand, getAxis()));
  for (auto [gradient, part] :
       llvm::zip_equal(gradients, tb.split(cotangents[0], getAxis(), sizes)))
    gradient = part;
}
void SplitOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                       MutableArrayRef<Value> gradients) {
  SmallVector<Value> parts;
  for (auto [cotangent, result] : llvm::zip_equal(cotangents, getResults()))
    parts.push_back(cotangent ? cotangent : tb.zeros(result.getType()));
  gradients[0] = tb.concat(parts, getAxis());
}
void GatherOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                        MutableArrayRef<Value> gradients) {
  gradients[0] = tb.scatterAdd(getIndices(), cotangents[0], getAxis(), getData().getType());
}
void SelectRowsOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                            MutableArrayRef<Value> gradients) {
  gradients[0] = tb.selectRows(cotangents[0], getInverse(), getIndex(), getAxis());
}
void GatherElementsOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                                MutableArrayRef<Value> gradients) {
  gradients[0] = ScatterElementsAddOp::create(tb.b(), tb.loc(), getData().getType(), getIndices(),
                                              cotangents[0], getAxis());
}
Value GatherNdOp::buildRowNumbers(TrainBuilder &tb, Value *isValid) {
  SmallVector<DimAttr> data = getDims(getData()), tuples = getDims(getIndices());
  const int64_t batch = getBatchDims(), depth = *tuples.pop_back_val().getConstant();
  Type integer = tb.b().getI64Type();
  Value wide = tb.cast(getIndices(), integer), number;
  auto advance = [&](Value next, DimAttr size) {
    number = number ? tb.add(tb.mul(number, tb.splat(tb.dim(size, integer), number)), next) : next;
  };
  for (int64_t axis = 0; axis < batch; ++axis)
    advance(tb.iota(tuples, integer, axis), data[axis]);
  for (int64_t i = 0; i < depth; ++i) {
    Value index =
        tb.reshape(tb.sliceAxis(wide, tuples.size(), tb.dimAttr(i), tb.dimAttr(1)), tuples);
    DimAttr size = data[batch + i];
    Value extent = tb.splat(tb.dim(size, integer), index), zero = tb.scalarLike(index, 0);
    index = tb.select(tb.compare("lt", index, zero), tb.add(index, extent), index);
    if (isValid) {
      Value isInside =
          tb.logicalAnd(tb.compare("ge", index, zero), tb.compare("lt", index, extent));
      *isValid = *isValid ? tb.logicalAnd(*isValid, isInside) : isInside;
    }
    advance(index, size);
  }
  return number;
}
void GatherNdOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                          MutableArrayRef<Value> gradients) {
  SmallVector<DimAttr> data = getDims(getData());
  int64_t indexed = getBatchDims() + *getDims(getIndices()).back().getConstant();
  SmallVector<DimAttr> rows = {product(tb.context(), ArrayRef(data).take_front(indexed))};
  rows.append(data.begin() + indexed, data.end());
  Value scattered = tb.scatterAdd(buildRowNumbers(tb), cotangents[0], 0,
                                  getTensorType(rows, getElementType(cotangents[0])));
  gradients[0] = tb.reshape(scattered, data);
}
void ScatterAddOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                            MutableArrayRef<Value> gradients) {
  if (!getUnique()) {
    gradients[1] = tb.gather(cotangents[0], getIndices(), getAxis());
    return;
  }
  Value nowhere = tb.scalarLike(getIndices(), 0);
  Value isTaken = tb.compare("ge", getIndices(), nowhere);
  Value taken = tb.gather(cotangents[0], tb.max(getIndices(), nowhere), getAxis());
  gradients[1] = tb.select(tb.broadcast(isTaken, getDims(taken), {int64_t(getAxis())}), taken,
                           tb.scalarLike(taken, 0));
}
void ScatterElementsAddOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                                    MutableArrayRef<Value> gradients) {
  gradients[1] = tb.gatherElements(cotangents[0], getIndices(), getAxis());
}
void CumsumOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                        MutableArrayRef<Value> gradients) {
  gradients[0] = CumsumOp::create(tb.b(), tb.loc(), cotangents[0].getType(), cotangents[0],
                                  getAxis(), getExclusive(), !getReverse());
}
