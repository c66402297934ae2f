// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bias of every sample, row and column is as large as the scores. Its formulas are computed in
// the one shape that kernels before and behind it have, from what products gave, so that nothing
// but that and the bias itself is stored; the same holds for its gradient.

#include "lib/Transforms/RaiseAttention/TrainedBias.h"

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/Splats.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Formulas in a row that are moved, at most.
static constexpr unsigned kMostSteps = 12;

/// `value` in the shape `dims`, computed there of what formulas read. What is transposed is stored
/// before, as a kernel that reads across its results has to find it in memory: in the type `low`,
/// which the bias is rounded to.
static Value computeIn(TrainBuilder &tb, Value value, ArrayRef<DimAttr> dims, Type low,
                       unsigned steps) {
  if (std::optional<double> splat = getSplatValue(value))
    return tb.full(dims, getElementType(value), *splat);
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (reshape && ArrayRef(getDims(reshape.getOperand())) == dims)
    return computeIn(tb, reshape.getOperand(), dims, low, steps);
  if (auto transpose = value.getDefiningOp<TransposeOp>();
      transpose && isFormula(transpose.getOperand().getDefiningOp())) {
    Value rounded = tb.cast(transpose.getOperand(), low);
    rounded = tb.transpose(rounded, transpose.getPermutation());
    return tb.reshape(tb.cast(rounded, getElementType(value)), dims);
  }
  Operation *def = value.getDefiningOp();
  if (steps == 0 || !isFormula(def))
    return tb.reshape(value, dims);
  IRMapping mapping;
  // Numbers are the same in any shape.
  for (Value operand : def->getOperands())
    if (getRank(operand) > 0)
      mapping.map(operand, computeIn(tb, operand, dims, low, steps - 1));
  Value result = tb.b().clone(*def, mapping)->getResult(0);
  result.setType(getTensorType(dims, getElementType(result)));
  return result;
}

Value trainc::prepareTrainedBias(TrainBuilder &tb, Value bias, ArrayRef<Value *> operands) {
  SmallVector<DimAttr> dims = getDims(*operands[0]), full = getDims(bias);
  full[1] = dims[1], full[2] = dims[2];
  SmallVector<int64_t> axes;
  SmallVector<DimAttr> kept;
  for (auto [axis, dim] : llvm::enumerate(getDims(bias)))
    if (dim == full[axis])
      axes.push_back(axis), kept.push_back(dim);
  // What is the same for all heads or rows is repeated: its gradient is the sum over them, which
  // the op does not make.
  const bool isWhole = axes.size() == full.size();
  if (!isWhole)
    bias = tb.broadcast(tb.reshape(bias, kept), full, axes);
  if (full[0].isConstant(1))
    return bias;
  auto fold = [&](Value value) {
    SmallVector<DimAttr> dims = getDims(value);
    return tb.reshape(value, {tb.dimAttr(1), dims[0] * dims[1], dims[2], dims[3]});
  };
  for (Value *operand : operands)
    *operand = fold(*operand);
  // Products that are batched over samples and heads have them in one axis.
  if (isWhole)
    bias = computeIn(tb, bias, {full[0] * full[1], full[2], full[3]}, getElementType(bias),
                     kMostSteps);
  return tb.reshape(bias, {tb.dimAttr(1), full[0] * full[1], full[2], full[3]});
}
