// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an op makes of zeros follows from the ranges of its results.

#include "lib/Transforms/Support/ZeroRows.h"
#include "lib/Transforms/Support/RestrictLoops.h"

#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainDetail.h"
#include "lib/Analysis/AffineIntegers.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

bool trainc::isNeverNegative(DimAttr dim, Operation *op) {
  if (std::optional<int64_t> number = dim.getConstant())
    return *number >= 0;
  llvm::StringMap<int64_t> least;
  for (auto module = op->getParentOfType<ModuleOp>(); module;
       module = module->getParentOfType<ModuleOp>())
    for (SymbolOp symbol : module.getOps<SymbolOp>())
      least[symbol.getSymName()] = std::max<int64_t>(symbol.getMin(), 1);
  // With sizes counted from the least, no term may be negative.
  DimAttr shifted = dim.substitute([&](StringRef name) {
    auto known = least.find(name);
    return DimAttr::symbol(dim.getContext(), name) +
           DimAttr::constant(dim.getContext(), known == least.end() ? 1 : known->second);
  });
  for (auto [coefficient, factors] :
       llvm::zip_equal(shifted.getCoefficients(), shifted.getMonomials()))
    if (coefficient < 0 || !llvm::all_of(factors, llvm::IsaPred<StringAttr>))
      return false;
  return true;
}

Value RowPlacement::select(TrainBuilder &tb, Value value, int64_t axis) const {
  if (inverse)
    return tb.selectRows(value, index, inverse, axis);
  return index ? tb.gather(value, index, axis) : tb.sliceAxis(value, axis, start, count);
}

bool RowPlacement::canPlace(TypeRange types) const {
  return !index || inverse ||
         llvm::all_of(types, [](Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); });
}

Value RowPlacement::place(TrainBuilder &tb, Value rows, int64_t axis) const {
  SmallVector<DimAttr> dims = getDims(rows), low(dims.size(), tb.dimAttr(0));
  dims[axis] = whole;
  if (inverse)
    return tb.selectRows(rows, inverse, index, axis);
  if (index)
    return tb.scatterAdd(index, rows, axis, getTensorType(dims, getElementType(rows)));
  low[axis] = start;
  return tb.pad(rows, 0, low, dims);
}

static std::optional<PlacedRows> matchPad(PadOp pad) {
  SmallVector<DimAttr> from = getDims(pad.getOperand()), to = getDims(pad.getResult());
  int64_t axis = -1;
  for (auto [a, low] : llvm::enumerate(pad.getLow().getDims())) {
    if (low.isConstant(0) && from[a] == to[a])
      continue;
    if (axis >= 0 || !isNeverNegative(low, pad) || !isNeverNegative(to[a] - low - from[a], pad))
      return std::nullopt;
    axis = a;
  }
  if (axis < 0 || train::detail::attrValue(pad.getValue()) != 0)
    return std::nullopt;
  RowPlacement at{to[axis], from[axis], pad.getLow().getDims()[axis], {}, {}};
  return PlacedRows{at, pad.getOperand(), axis};
}

/// Whether no two indices may be the same row: there is but one, or they are known.
static bool areDistinct(Value indices) {
  if (getNumElements(indices.getType()).isConstant(1))
    return true;
  DenseElementsAttr values;
  if (!matchPattern(indices, m_Constant(&values)))
    return false;
  llvm::SmallSet<int64_t, 8> seen;
  for (const APInt &value : values.getValues<APInt>())
    // One below 0 counts from the end: it could be any other.
    if (value.isNegative() || !seen.insert(value.getSExtValue()).second)
      return false;
  return true;
}

/// Whether rows are put back of which each sample had one, so that none is left over: row
/// `sample * length + position` of a sample.
static bool isRowOfEach(SelectRowsOp op) {
  Value index = op.getInverse();
  while (auto cast = index.getDefiningOp<CastOp>())
    index = cast.getOperand();
  // A position that is out of range ends the run.
  if (auto checked = index.getDefiningOp<SelectOp>())
    index = checked.getOnTrue();
  auto sum = index.getDefiningOp<AddOp>();
  DimAttr count = getDim(op.getData(), op.getAxis());
  DimAttr length = divideExactly(getDim(op.getResult(), op.getAxis()), count);
  return sum && length && llvm::any_of(sum->getOperands(), [&](Value side) {
           std::optional<AffineInteger> first = AffineIntegers().get(side);
           return first && first->factors.size() == 1 && first->factors[0] == length &&
                  first->constant.isConstant(0);
         });
}

std::optional<PlacedRows> trainc::matchPlacedRows(TrainBuilder &tb, Operation *op) {
  if (auto pad = dyn_cast<PadOp>(op))
    return matchPad(pad);
  if (auto rows = dyn_cast<SelectRowsOp>(op); rows && isRowOfEach(rows)) {
    int64_t axis = rows.getAxis();
    RowPlacement at{getDim(rows.getResult(), axis),
                    getDim(rows.getData(), axis),
                    {},
                    rows.getInverse(),
                    rows.getIndex()};
    return PlacedRows{at, rows.getData(), axis};
  }
  auto scatter = dyn_cast<ScatterAddOp>(op);
  if (!scatter || getRank(scatter.getIndices()) > 1 || !areDistinct(scatter.getIndices()))
    return std::nullopt;
  int64_t axis = scatter.getAxis();
  SmallVector<DimAttr> dims = getDims(scatter.getResult());
  DimAttr count = getNumElements(scatter.getIndices().getType());
  RowPlacement at{dims[axis], count, {}, tb.reshape(scatter.getIndices(), {count}), {}};
  dims[axis] = count;
  return PlacedRows{at, tb.reshape(scatter.getUpdates(), dims), axis};
}

/// Whether an index may be negative. The compiler makes all of them: a row that has none is always
/// chosen as a negative constant.
static bool mayBeNegative(Value index) {
  Operation *def = index.getDefiningOp();
  if (!def)
    return true;
  if (std::optional<double> splat = getSplatValue(index))
    return *splat < 0;
  if (auto select = dyn_cast<SelectOp>(def))
    return mayBeNegative(select.getOnTrue()) || mayBeNegative(select.getOnFalse());
  return (isView(def) || isa<CastOp>(def)) && mayBeNegative(def->getOperand(0));
}

bool trainc::mayFillRows(SliceOpInterface selection) {
  auto rows = dyn_cast<SelectRowsOp>(*selection);
  return rows && mayBeNegative(rows.getIndex());
}

bool trainc::keepsZeroRows(Operation *op, ArrayRef<bool> zeros) {
  if (!isa<RangeOpInterface>(op))
    return false;
  SmallVector<Range> ranges;
  for (auto [operand, zero] : llvm::zip_equal(op->getOperands(), zeros)) {
    Type type = getElementType(operand);
    std::optional<double> splat = getSplatValue(operand);
    if (zero)
      ranges.push_back(Range::number(0));
    else if (splat)
      ranges.push_back(Range::number(*splat));
    else
      // What overflows in a row that is left out makes no NaN.
      ranges.push_back(isa<FloatType>(type) ? Range::finite() : rangeOfType(type));
  }
  for (OpResult result : op->getResults()) {
    Range range = inferRange(op, result.getResultNumber(), ranges);
    if (range.lo != 0 || range.hi != 0)
      return false;
  }
  // Rows of zeros that are summed up have to add nothing, or the least of all would change.
  auto reduction = dyn_cast<ReductionOpInterface>(op);
  return !reduction || (reduction.evaluateIdentity() == 0 && reduction.evaluateMap(0) == 0);
}
