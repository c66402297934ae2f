// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an op makes of zeros follows from the ranges of its results.

#include "lib/Transforms/Support/ZeroRows.h"
#include "lib/Transforms/Support/RestrictLoops.h"

#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainDetail.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "trainc/Formulas/LastToken.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// For all sizes from each symbol's least value on: sufficient, not necessary. Products of symbols
/// with positive coefficients only grow.
bool trainc::isNeverNegative(DimAttr dim, Operation *op) {
  if (std::optional<int64_t> number = dim.getConstant())
    return *number >= 0;
  // Symbols of this module and those around it, each taken as 1 at least.
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
       // A factor that is no symbol (a quotient) may be anything.
       llvm::zip_equal(shifted.getCoefficients(), shifted.getMonomials()))
    if (coefficient < 0 || !llvm::all_of(factors, llvm::IsaPred<StringAttr>))
      return false;
  return true;
}

/// select and place are inverse to each other for rows that are placed.
Value RowPlacement::select(TrainBuilder &tb, Value value, int64_t axis) const {
  assert(getDim(value, axis) == whole && bool(start) != bool(index) && "a range or indices");
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
  assert(dims[axis] == count && canPlace(rows.getType()));
  dims[axis] = whole;
  if (inverse)
    return tb.selectRows(rows, inverse, index, axis);
  if (index)
    return tb.scatterAdd(index, rows, axis, getTensorType(dims, getElementType(rows)));
  low[axis] = start;
  return tb.pad(rows, 0, low, dims);
}

/// Rows of a range of the result, the rest of which is 0.
/// A pad along one axis with zeros, that cuts nothing off for any size.
static std::optional<PlacedRows> matchPadded(SubrangeOpInterface op) {
  Value rows = op->getOperand(0), result = op->getResult(0);
  const Subrange range = op.getSubrange(0, 0);
  SmallVector<DimAttr> from = getDims(rows), to = getDims(result);
  DimAttr zero = DimAttr::constant(op->getContext(), 0), begin;
  int64_t axis = -1;
  for (auto [a, start] : llvm::enumerate(range.starts)) {
    DimAttr low = zero - start;
    if (low.isConstant(0) && from[a] == to[a])
      continue;
    // Rows along two axes would be placed twice.
    if (axis >= 0 || !isNeverNegative(low, op) || !isNeverNegative(to[a] - low - from[a], op))
      return std::nullopt;
    axis = a;
    begin = low;
  }
  if (axis < 0 || train::detail::attrValue(op.getFill()) != 0)
    return std::nullopt;
  return PlacedRows{{to[axis], from[axis], begin, {}, {}}, rows, axis};
}

/// Whether no two indices may be the same row: there is but one, or they are known.
static bool areDistinct(Value indices) {
  if (getNumElements(indices.getType()).isConstant(1))
    return true;
  // Known means constant.
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

/// Whether rows are put back of which each sample had one, so that none is left over.
/// Else a slot could be left over, whose row is not placed.
static bool isRowOfEach(RowSelectionOpInterface op) {
  DimAttr count = getDim(op.getData(), op.getAxis());
  DimAttr length = divideExactly(getDim(op->getResult(0), op.getAxis()), count);
  return length && areRowsOfSamples(op.getInverse(), length);
}

/// A pad, a selection that puts rows back, or a scatter of distinct rows: in each the other rows
/// are 0.
std::optional<PlacedRows> trainc::matchPlacedRows(TrainBuilder &tb, Operation *op) {
  if (auto range = dyn_cast<SubrangeOpInterface>(op); range && range.getFill())
    return matchPadded(range);
  if (auto rows = dyn_cast<RowSelectionOpInterface>(op); rows && isRowOfEach(rows)) {
    int64_t axis = rows.getAxis();
    RowPlacement at{getDim(op->getResult(0), axis),
                    getDim(rows.getData(), axis),
                    {},
                    rows.getInverse(),
                    rows.getIndex()};
    return PlacedRows{at, rows.getData(), axis};
  }
  // Elements that are added up one by one have no rows.
  auto scatter = dyn_cast<ScatterOpInterface>(op);
  if (!scatter || !scatter.isRowScatter())
    return std::nullopt;
  Value indices = scatter.getScatterIndices().get(), updates = scatter.getScatterUpdates().get();
  if (getRank(indices) > 1 || !areDistinct(indices))
    return std::nullopt;
  int64_t axis = scatter.getScatterAxis();
  SmallVector<DimAttr> dims = getDims(op->getResult(0));
  DimAttr count = getNumElements(indices.getType());
  RowPlacement at{dims[axis], count, {}, tb.reshape(indices, {count}), {}};
  dims[axis] = count;
  return PlacedRows{at, tb.reshape(updates, dims), axis};
}

/// Whether an index may be negative. The compiler makes all of them: a row that has none is always
/// chosen as a negative constant.
/// Through choices, views and casts; anything else that the compiler computes is a row number.
static bool mayBeNegative(Value index) {
  Operation *def = index.getDefiningOp();
  if (!def)
    return true;
  if (std::optional<double> splat = getSplatValue(index))
    return *splat < 0;
  if (auto choice = dyn_cast<ChoiceOpInterface>(def))
    return mayBeNegative(choice.getOnTrue()) || mayBeNegative(choice.getOnFalse());
  return (isView(def) || isa<CastOpInterface>(def)) && mayBeNegative(def->getOperand(0));
}

bool trainc::mayFillRows(SliceOpInterface selection) {
  auto rows = dyn_cast<RowSelectionOpInterface>(*selection);
  return rows && mayBeNegative(rows.getIndex());
}

/// By the ranges of results, for operands that are 0 where `zeros` says and anything finite
/// elsewhere.
bool trainc::keepsZeroRows(Operation *op, ArrayRef<bool> zeros) {
  if (!isa<RangeOpInterface>(op))
    return false;
  assert(zeros.size() == op->getNumOperands() && "one for each operand");
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
