// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Taking masks apart: conjunctions, values that a boolean decides, comparisons of coordinates.

#include "lib/Transforms/RaiseAttention/AttentionMask.h"

#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainDetail.h"
#include "mlir/IR/Matchers.h"
#include "trainc/Analysis/AffineIntegers.h"
#include <limits>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
constexpr int kRow = 2, kColumn = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Adding a score to a number below this gives the number, in f32.
constexpr double kAbsorbing = -1e30;
/// No score is as far below the largest of its row: what exporters write for masks in 16 bits.
constexpr double kFarBelow = -9999;
} // namespace

/// The same elements, before ops that only repeat and rearrange them.
static CoordinateView lookThrough(CoordinateView view) {
  while (Operation *def = view.value.getDefiningOp()) {
    if (!isa<BroadcastOp, ReshapeOp, TransposeOp>(def))
      return view;
    AxisMap map = cast<AxisMapOpInterface>(def).getAxisMap();
    SmallVector<DimAttr> dims = getDims(def->getOperand(0));
    SmallVector<int> axes;
    for (auto [loop, dim] : llvm::zip_equal(map.operands[0], dims)) {
      auto at = llvm::find(map.results[0], loop);
      if (at != map.results[0].end())
        axes.push_back(view.axes[at - map.results[0].begin()]);
      else if (dim.isConstant(1))
        axes.push_back(-1);
      else
        return view;
    }
    view = {def->getOperand(0), axes};
  }
  return view;
}

static CoordinateView operandView(const CoordinateView &view, unsigned operand) {
  return lookThrough({view.value.getDefiningOp()->getOperand(operand), view.axes});
}

//===----------------------------------------------------------------------===//
// The causal mask
//===----------------------------------------------------------------------===//

namespace {
/// constant + sum of factors[c] * coordinate c
struct Affine {
  DimAttr constant;
  std::array<int64_t, 4> factors{};
};
} // namespace

static std::optional<Affine> getAffine(const CoordinateView &view) {
  std::optional<AffineInteger> affine = AffineIntegers().get(view.value);
  if (!affine)
    return std::nullopt;
  Affine result{affine->constant, {}};
  for (auto [factor, axis] : llvm::zip_equal(affine->factors, view.axes)) {
    std::optional<int64_t> number = factor.getConstant();
    if (!number)
      return std::nullopt;
    if (axis >= 0)
      result.factors[axis] += *number;
  }
  return result;
}

/// A constant triangle, cut to size: element (row, column) says column <= row.
static bool isLowerTriangle(CoordinateView view) {
  if (auto slice = view.value.getDefiningOp<SliceOp>()) {
    auto isZero = [](DimAttr start) { return start.isConstant(0); };
    auto isOne = [](int64_t step) { return step == 1; };
    if (!llvm::all_of(slice.getStarts().getDims(), isZero) ||
        !llvm::all_of(slice.getSteps(), isOne))
      return false;
    view.value = slice.getOperand();
  }
  DenseElementsAttr values;
  if (!view.value.getDefiningOp() || !matchPattern(view.value, m_Constant(&values)) ||
      !values.getElementType().isInteger(1))
    return false;
  int64_t row = -1, column = -1;
  for (auto [axis, coordinate] : llvm::enumerate(view.axes)) {
    if (coordinate == kRow)
      row = axis;
    else if (coordinate == kColumn)
      column = axis;
    else if (values.getType().getDimSize(axis) != 1)
      return false;
  }
  if (row < 0 || column < 0)
    return false;
  int64_t rows = values.getType().getDimSize(row), columns = values.getType().getDimSize(column);
  int64_t index = 0;
  for (bool value : values.getValues<bool>()) {
    int64_t i = row < column ? index / columns : index % rows;
    int64_t j = row < column ? index % columns : index / rows;
    if (value != (j <= i))
      return false;
    ++index;
  }
  return true;
}

bool AttentionMask::isCausalCondition(const CoordinateView &view, bool negated) const {
  Operation *def = view.value.getDefiningOp();
  if (!negated && dims[kRow] == dims[kColumn] && isLowerTriangle(view))
    return true;
  auto compare = dyn_cast_or_null<CompareOp>(def);
  if (!compare)
    return false;
  std::optional<Affine> lhs = getAffine(operandView(view, 0)),
                        rhs = getAffine(operandView(view, 1));
  if (!lhs || !rhs)
    return false;
  ComparePredicate predicate = compare.getPredicate();
  if (negated)
    switch (predicate) {
    case ComparePredicate::lt:
      predicate = ComparePredicate::ge;
      break;
    case ComparePredicate::le:
      predicate = ComparePredicate::gt;
      break;
    case ComparePredicate::gt:
      predicate = ComparePredicate::le;
      break;
    case ComparePredicate::ge:
      predicate = ComparePredicate::lt;
      break;
    default:
      return false;
    }
  // As small - large <= 0; integers, so that "less" is one less.
  bool swap = predicate == ComparePredicate::gt || predicate == ComparePredicate::ge;
  bool strict = predicate == ComparePredicate::lt || predicate == ComparePredicate::gt;
  if (predicate == ComparePredicate::eq || predicate == ComparePredicate::ne)
    return false;
  const Affine &small = swap ? *rhs : *lhs, &large = swap ? *lhs : *rhs;
  std::array<int64_t, 4> factors;
  for (int c = 0; c < 4; ++c)
    factors[c] = small.factors[c] - large.factors[c];
  DimAttr constant =
      small.constant - large.constant + DimAttr::constant(def->getContext(), strict ? 1 : 0);
  return factors == std::array<int64_t, 4>{0, 0, -1, 1} && constant == dims[kRow] - dims[kColumn];
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

namespace {
/// A number that a boolean decides.
struct TwoValued {
  CoordinateView condition;
  double ifTrue, ifFalse;
};
} // namespace

static std::optional<TwoValued> getTwoValued(CoordinateView view) {
  view = lookThrough(view);
  Operation *def = view.value.getDefiningOp();
  if (!def)
    return std::nullopt;
  if (auto cast = dyn_cast<CastOp>(def)) {
    if (getElementType(view.value).isInteger(1))
      return std::nullopt;
    if (getElementType(cast.getOperand()).isInteger(1))
      return TwoValued{operandView(view, 0), 1, 0};
    return getTwoValued(operandView(view, 0));
  }
  if (auto select = dyn_cast<SelectOp>(def)) {
    std::optional<double> ifTrue = getSplatValue(select.getOnTrue());
    std::optional<double> ifFalse = getSplatValue(select.getOnFalse());
    if (!ifTrue || !ifFalse)
      return std::nullopt;
    return TwoValued{operandView(view, 0), *ifTrue, *ifFalse};
  }
  if (!isa<AddOp, SubOp, MulOp>(def))
    return std::nullopt;
  // One side is the same number everywhere.
  for (unsigned side = 0; side < 2; ++side) {
    std::optional<double> splat = getSplatValue(def->getOperand(side));
    std::optional<TwoValued> other =
        splat ? getTwoValued(operandView(view, 1 - side)) : std::nullopt;
    if (!other)
      continue;
    for (double *value : {&other->ifTrue, &other->ifFalse}) {
      double x = side == 0 ? *splat : *value, y = side == 0 ? *value : *splat;
      *value = isa<AddOp>(def) ? x + y : isa<SubOp>(def) ? x - y : x * y;
    }
    return other;
  }
  return std::nullopt;
}

void AttentionMask::add(CoordinateView view, bool negated) {
  view = lookThrough(view);
  if (getSplatValue(view.value) == (negated ? 0.0 : 1.0))
    return;
  Operation *def = view.value.getDefiningOp();
  if (isa_and_nonnull<NotOp>(def))
    return add(operandView(view, 0), !negated);
  if ((isa_and_nonnull<AndOp>(def) && !negated) || (isa_and_nonnull<OrOp>(def) && negated)) {
    add(operandView(view, 0), negated);
    return add(operandView(view, 1), negated);
  }
  // A test of a number that a boolean decides is that boolean, or its negation.
  std::optional<TwoValued> tested;
  std::optional<double> with = 0.0;
  ComparePredicate predicate = ComparePredicate::ne;
  if (auto compare = dyn_cast_or_null<CompareOp>(def)) {
    with = getSplatValue(compare.getRhs());
    predicate = compare.getPredicate();
    if (with)
      tested = getTwoValued(operandView(view, 0));
  } else if (isa_and_nonnull<CastOp>(def)) {
    tested = getTwoValued(operandView(view, 0));
  } else if (isa_and_nonnull<SelectOp>(def)) {
    tested = getTwoValued(view);
  }
  if (tested) {
    bool ifTrue =
        (trainc::train::detail::compare(predicate, tested->ifTrue, *with) != 0) != negated;
    bool ifFalse =
        (trainc::train::detail::compare(predicate, tested->ifFalse, *with) != 0) != negated;
    if (ifTrue && ifFalse)
      return;
    if (ifTrue || ifFalse)
      return add(tested->condition, ifFalse);
  }
  if (isCausalCondition(view, negated))
    causal = true;
  else
    conditions.push_back({view, negated});
}

bool AttentionMask::addCondition(CoordinateView condition, bool negated, double masked) {
  if (!(masked <= kAbsorbing))
    return false;
  (masked == -kInfinity ? infinite : finite) = true;
  add(condition, negated);
  return true;
}

bool AttentionMask::addWeakCondition(CoordinateView condition, bool negated, double masked) {
  if (!(masked <= kFarBelow))
    return false;
  weak.push_back({{condition, negated}, Value()});
  return true;
}

void AttentionMask::useWeakConditions() {
  for (const WeakCondition &entry : weak) {
    if (entry.bias)
      llvm::erase_if(biases, [&](const CoordinateView &bias) { return bias.value == entry.bias; });
    add(entry.condition.view, entry.condition.negated);
  }
  weak.clear();
}

void AttentionMask::addBias(CoordinateView bias) {
  bias = lookThrough(bias);
  if (getSplatValue(bias.value) == 0.0)
    return;
  Operation *def = bias.value.getDefiningOp();
  if (isa_and_nonnull<AddOp>(def)) {
    addBias(operandView(bias, 0));
    return addBias(operandView(bias, 1));
  }
  if (std::optional<TwoValued> mask = getTwoValued(bias)) {
    if (mask->ifTrue == 0 && addCondition(mask->condition, false, mask->ifFalse))
      return;
    if (mask->ifFalse == 0 && addCondition(mask->condition, true, mask->ifTrue))
      return;
    bool isTrue = mask->ifTrue == 0;
    if ((isTrue || mask->ifFalse == 0) &&
        addWeakCondition(mask->condition, !isTrue, isTrue ? mask->ifFalse : mask->ifTrue))
      weak.back().bias = bias.value;
  }
  if (auto select = dyn_cast_or_null<SelectOp>(def))
    for (unsigned side : {1, 2}) {
      std::optional<double> masked = getSplatValue(def->getOperand(side));
      if (masked && addCondition(operandView(bias, 0), side == 1, *masked))
        return addBias(operandView(bias, 3 - side));
    }
  biases.push_back(bias);
}

void AttentionMask::assume(llvm::function_ref<std::optional<double>(Value)> known) {
  llvm::erase_if(conditions, [&](const Condition &condition) {
    std::optional<double> value = known(condition.view.value);
    return value && (*value != 0) != condition.negated;
  });
  llvm::erase_if(biases, [&](const CoordinateView &bias) { return known(bias.value) == 0.0; });
}

namespace {
/// A comparison of elements of one value [batch, positions], one at the row, one at the column.
struct ElementTest {
  Value value;
  ComparePredicate predicate;
  /// Whether the left side is that at the row.
  bool rowFirst;
};
} // namespace

static std::optional<ElementTest> getElementTest(const CoordinateView &view) {
  auto compare = view.value.getDefiningOp<CompareOp>();
  if (!compare)
    return std::nullopt;
  CoordinateView sides[] = {operandView(view, 0), operandView(view, 1)};
  for (CoordinateView &side : sides) {
    // The same number as another integer.
    while (auto cast = side.value.getDefiningOp<CastOp>())
      side = lookThrough({cast.getOperand(), side.axes});
    if (side.value != sides[0].value || side.axes.size() != 2 || side.axes[0] != 0)
      return std::nullopt;
  }
  if (std::minmax(sides[0].axes[1], sides[1].axes[1]) != std::minmax(kRow, kColumn))
    return std::nullopt;
  return ElementTest{sides[0].value, compare.getPredicate(), sides[0].axes[1] == kRow};
}

/// Whether a condition says that the elements are equal.
static bool testsEqual(const std::optional<ElementTest> &test, bool negated) {
  return test && test->predicate == (negated ? ComparePredicate::ne : ComparePredicate::eq);
}

bool AttentionMask::takeSameElement(Value input) {
  size_t before = conditions.size();
  llvm::erase_if(conditions, [&](const Condition &condition) {
    std::optional<ElementTest> test = getElementTest(condition.view);
    return testsEqual(test, condition.negated) && test->value == input;
  });
  return conditions.size() != before;
}

Value AttentionMask::findSameElement() const {
  for (const Condition &condition : conditions)
    if (std::optional<ElementTest> test = getElementTest(condition.view);
        testsEqual(test, condition.negated))
      return test->value;
  return {};
}

void AttentionMask::takeOrder(Value input) {
  llvm::erase_if(conditions, [&](const Condition &condition) {
    std::optional<ElementTest> test = getElementTest(condition.view);
    if (!test || test->value != input)
      return false;
    // column <= row, or not column > row
    using enum ComparePredicate;
    const ComparePredicate wanted = condition.negated ? test->rowFirst ? lt : gt
                                    : test->rowFirst  ? ge
                                                      : le;
    causal |= test->predicate == wanted;
    return test->predicate == wanted;
  });
}

//===----------------------------------------------------------------------===//
// Building what is left
//===----------------------------------------------------------------------===//

SmallVector<DimAttr> AttentionMask::getDims(bool withCausal) const {
  SmallVector<DimAttr> shape(4, DimAttr::constant(dims[0].getContext(), 1));
  shape[kColumn] = dims[kColumn];
  if (withCausal && causal)
    shape[kRow] = dims[kRow];
  auto join = [&](const CoordinateView &view) {
    for (int axis : view.axes)
      if (axis >= 0)
        shape[axis] = dims[axis];
  };
  for (const Condition &condition : conditions)
    join(condition.view);
  for (const CoordinateView &bias : biases)
    join(bias);
  return shape;
}

/// The value at every coordinate of `shape`.
static Value buildAt(TrainBuilder &tb, const CoordinateView &view, ArrayRef<DimAttr> shape) {
  // Axes in the order of the coordinates, those of size 1 dropped.
  SmallVector<int64_t> order, axes;
  for (int coordinate = 0; coordinate < 4; ++coordinate)
    for (auto [axis, c] : llvm::enumerate(view.axes))
      if (c == coordinate)
        order.push_back(axis), axes.push_back(coordinate);
  SmallVector<int64_t> permutation = order;
  for (auto [axis, c] : llvm::enumerate(view.axes))
    if (c < 0)
      permutation.push_back(axis);
  Value value = tb.transpose(view.value, permutation);
  SmallVector<DimAttr> kept = getDims(value);
  kept.resize(order.size());
  return tb.broadcast(tb.reshape(value, kept), shape, axes);
}

Value AttentionMask::buildConditions(TrainBuilder &tb, ArrayRef<DimAttr> shape) const {
  Value all;
  for (const Condition &condition : conditions) {
    Value value = buildAt(tb, condition.view, shape);
    if (condition.negated)
      value = tb.logicalNot(value);
    all = all ? tb.logicalAnd(all, value) : value;
  }
  return all;
}

Value AttentionMask::buildSum(TrainBuilder &tb, ArrayRef<DimAttr> shape, double least) const {
  Value sum;
  for (const CoordinateView &bias : biases)
    sum = tb.add(sum, tb.cast(buildAt(tb, bias, shape), tb.b().getF32Type()));
  if (sum && least != -kInfinity)
    sum = tb.max(sum, tb.scalarLike(sum, least));
  return sum;
}

Value AttentionMask::buildBias(TrainBuilder &tb, double least) const {
  SmallVector<DimAttr> shape = getDims(/*withCausal=*/false);
  Value sum = buildSum(tb, shape, least), visible = buildConditions(tb, shape);
  if (!visible)
    return sum;
  if (!sum)
    sum = tb.full(shape, tb.b().getF32Type(), 0);
  return tb.select(visible, sum, tb.scalarLike(sum, least));
}

Value AttentionMask::buildDeadRows(TrainBuilder &tb) const {
  SmallVector<DimAttr> shape = getDims(/*withCausal=*/true);
  Value visible = buildConditions(tb, shape);
  auto andAlso = [&](Value value) { visible = visible ? tb.logicalAnd(visible, value) : value; };
  if (causal) {
    Type i64 = tb.b().getI64Type();
    Value column = tb.iota(shape, i64, kColumn), row = tb.iota(shape, i64, kRow);
    Value shift = tb.splat(tb.dim(dims[kColumn] - dims[kRow], i64), row);
    andAlso(tb.compare("le", column, tb.add(row, shift)));
  }
  if (Value sum = buildSum(tb, shape, -kInfinity))
    andAlso(tb.compare("ne", sum, tb.scalarLike(sum, -kInfinity)));
  return tb.logicalNot(tb.reduce(ReduceKind::max, visible, kColumn));
}
