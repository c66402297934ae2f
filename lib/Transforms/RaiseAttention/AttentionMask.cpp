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
// Bounds on columns
//===----------------------------------------------------------------------===//

/// constant + sum of factors[c] * coordinate c
struct trainc::AffineDistance {
  DimAttr constant;
  std::array<int64_t, 4> factors{};

  AffineDistance plus(const AffineDistance &other, int64_t times) const {
    AffineDistance sum = *this;
    sum.constant = constant + other.constant * DimAttr::constant(constant.getContext(), times);
    for (auto [factor, added] : llvm::zip(sum.factors, other.factors))
      factor += times * added;
    return sum;
  }
};

/// `input`: a value [batch, positions] whose elements stand for the coordinate of their position.
static std::optional<AffineDistance> getAffine(const CoordinateView &view, Value input) {
  Operation *def = view.value.getDefiningOp();
  if (std::optional<AffineInteger> affine = AffineIntegers().get(view.value)) {
    // Coordinates are another number than the elements that stand for them.
    if (input && !affine->isUniform())
      return std::nullopt;
    AffineDistance result{affine->constant};
    for (auto [factor, axis] : llvm::zip_equal(affine->factors, view.axes)) {
      std::optional<int64_t> number = factor.getConstant();
      if (!number)
        return std::nullopt;
      if (axis >= 0)
        result.factors[axis] += *number;
    }
    return result;
  }
  if (!input)
    return std::nullopt;
  if (view.value == input) {
    const int axis = view.axes.size() == 2 && view.axes[0] == 0 ? view.axes[1] : -1;
    if (axis != kRow && axis != kColumn)
      return std::nullopt;
    AffineDistance result{DimAttr::constant(input.getContext(), 0)};
    result.factors[axis] = 1;
    return result;
  }
  auto type = dyn_cast<IntegerType>(getElementType(view.value));
  if (!isa_and_nonnull<CastOp, AddOp, SubOp>(def) || !type || type.getWidth() < 32)
    return std::nullopt;
  // The same number as another integer.
  if (isa<CastOp>(def))
    return getAffine(operandView(view, 0), input);
  std::optional<AffineDistance> lhs = getAffine(operandView(view, 0), input),
                                rhs = getAffine(operandView(view, 1), input);
  if (!lhs || !rhs)
    return std::nullopt;
  return lhs->plus(*rhs, isa<AddOp>(def) ? 1 : -1);
}

/// What a constant of booleans, cut to size, shows: element (row, column) says that the column is
/// at most `before` before the row and `after` after it. Bounds that reach over all of it are none.
struct ConstantBand {
  std::optional<int64_t> before, after;
};
static std::optional<ConstantBand> getConstantBand(CoordinateView view) {
  if (auto slice = view.value.getDefiningOp<SliceOp>()) {
    auto isZero = [](DimAttr start) { return start.isConstant(0); };
    auto isOne = [](int64_t step) { return step == 1; };
    if (!llvm::all_of(slice.getStarts().getDims(), isZero) ||
        !llvm::all_of(slice.getSteps(), isOne))
      return std::nullopt;
    view.value = slice.getOperand();
  }
  DenseElementsAttr values;
  if (!view.value.getDefiningOp() || !matchPattern(view.value, m_Constant(&values)) ||
      !values.getElementType().isInteger(1))
    return std::nullopt;
  int64_t row = -1, column = -1;
  for (auto [axis, coordinate] : llvm::enumerate(view.axes)) {
    if (coordinate == kRow)
      row = axis;
    else if (coordinate == kColumn)
      column = axis;
    else if (values.getType().getDimSize(axis) != 1)
      return std::nullopt;
  }
  if (row < 0 || column < 0)
    return std::nullopt;
  const int64_t rows = values.getType().getDimSize(row),
                columns = values.getType().getDimSize(column);
  SmallVector<bool> flat(values.getValues<bool>());
  auto at = [&](int64_t i, int64_t j) {
    return flat[row < column ? i * columns + j : j * rows + i];
  };
  // As far as the first row and the first column see.
  int64_t after = 0, before = 0;
  while (after < columns && at(0, after))
    ++after;
  while (before < rows && at(before, 0))
    ++before;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (at(i, j) != (j - i < after && i - j < before))
        return std::nullopt;
  if (flat.empty() || !flat.front())
    return std::nullopt;
  auto bound = [](int64_t count, int64_t size) {
    return count < size ? std::optional(count - 1) : std::nullopt;
  };
  return ConstantBand{bound(before, rows), bound(after, columns)};
}

static void tighten(std::optional<int64_t> &bound, std::optional<int64_t> other) {
  if (other)
    bound = std::min(*other, bound.value_or(*other));
}

/// That `distance` is at most 0.
bool AttentionMask::takeBound(const AffineDistance &distance, bool ofCoordinates) {
  using Factors = std::array<int64_t, 4>;
  const bool isSquare = dims[kRow] == dims[kColumn];
  const Factors &factors = distance.factors;
  if (factors == Factors{0, 0, -1, 1} && distance.constant == dims[kRow] - dims[kColumn])
    return causal = true;
  std::optional<int64_t> constant = distance.constant.getConstant();
  if (!constant || *constant > 0)
    return false;
  // Coordinates are not negative.
  if (llvm::all_of(factors,
                   [&](int64_t factor) { return ofCoordinates ? factor <= 0 : factor == 0; }))
    return true;
  if (!isSquare || (factors != Factors{0, 0, -1, 1} && factors != Factors{0, 0, 1, -1}))
    return false;
  // A bound beyond all positions hides none.
  std::optional<int64_t> positions = dims[kRow].getConstant();
  if (!positions || -*constant < *positions - 1)
    tighten(factors[kRow] < 0 ? after : before, -*constant);
  return true;
}

bool AttentionMask::takeBounds(const CoordinateView &view, bool negated, Value input) {
  if (!negated && !input && dims[kRow] == dims[kColumn])
    if (std::optional<ConstantBand> band = getConstantBand(view)) {
      tighten(before, band->before);
      tighten(after, band->after);
      return true;
    }
  auto compare = view.value.getDefiningOp<CompareOp>();
  if (!compare)
    return false;
  using enum ComparePredicate;
  ComparePredicate predicate = compare.getPredicate();
  if (predicate == eq || predicate == ne)
    return false;
  if (negated)
    predicate = predicate == lt ? ge : predicate == le ? gt : predicate == gt ? le : lt;
  // As small - large <= 0; integers, so that "less" is one less.
  const bool swap = predicate == gt || predicate == ge;
  const bool strict = predicate == lt || predicate == gt;
  const CoordinateView small = operandView(view, swap), large = operandView(view, !swap);
  std::optional<AffineDistance> limit = getAffine(large, input);
  if (!limit)
    return false;
  const AffineDistance one{DimAttr::constant(view.value.getContext(), strict ? 1 : 0)};
  const AffineDistance rest = one.plus(*limit, -1);
  // A maximum, as which integers have their absolute values, is at most what both are.
  SmallVector<CoordinateView, 2> parts = {small};
  if (small.value.getDefiningOp<MaxOp>())
    parts = {operandView(small, 0), operandView(small, 1)};
  AttentionMask all = *this;
  for (const CoordinateView &part : parts) {
    std::optional<AffineDistance> distance = getAffine(part, input);
    if (!distance || !all.takeBound(rest.plus(*distance, 1), !input))
      return false;
  }
  causal = all.causal, before = all.before, after = all.after;
  return true;
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
  if (!takeBounds(view, negated, /*input=*/Value()))
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
      llvm::erase_if(biases, [&](const ScoreBias &bias) { return bias.view.value == entry.bias; });
    add(entry.condition.view, entry.condition.negated);
  }
  weak.clear();
}

void AttentionMask::addBias(CoordinateView bias, double factor) {
  bias = lookThrough(bias);
  if (getSplatValue(bias.value) == 0.0)
    return;
  Operation *def = bias.value.getDefiningOp();
  if (isa_and_nonnull<AddOp>(def)) {
    addBias(operandView(bias, 0), factor);
    return addBias(operandView(bias, 1), factor);
  }
  if (std::optional<TwoValued> mask = getTwoValued(bias)) {
    for (double *value : {&mask->ifTrue, &mask->ifFalse})
      *value *= factor;
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
      if (masked && addCondition(operandView(bias, 0), side == 1, *masked * factor))
        return addBias(operandView(bias, 3 - side), factor);
    }
  biases.push_back({bias, factor});
}

void AttentionMask::assume(llvm::function_ref<std::optional<double>(Value)> known) {
  llvm::erase_if(conditions, [&](const Condition &condition) {
    std::optional<double> value = known(condition.view.value);
    return value && (*value != 0) != condition.negated;
  });
  llvm::erase_if(biases, [&](const ScoreBias &bias) { return known(bias.view.value) == 0.0; });
}

namespace {
/// A comparison of elements of one value [batch, positions], one at the row, one at the column.
struct ElementTest {
  Value value;
  ComparePredicate predicate;
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
  return ElementTest{sides[0].value, compare.getPredicate()};
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

void AttentionMask::takeDistances(Value input) {
  llvm::erase_if(conditions, [&](const Condition &condition) {
    return takeBounds(condition.view, condition.negated, input);
  });
}

//===----------------------------------------------------------------------===//
// Building what is left
//===----------------------------------------------------------------------===//

SmallVector<DimAttr> AttentionMask::getDims(bool ofDeadRows) const {
  SmallVector<DimAttr> shape(4, DimAttr::constant(dims[0].getContext(), 1));
  shape[kColumn] = dims[kColumn];
  if (ofDeadRows && (isCausal() || hasWindow()))
    shape[kRow] = dims[kRow];
  auto join = [&](const CoordinateView &view) {
    for (int axis : view.axes)
      if (axis >= 0)
        shape[axis] = dims[axis];
  };
  for (const Condition &condition : conditions)
    join(condition.view);
  if (!ofDeadRows || !finiteBiases)
    for (const ScoreBias &bias : biases)
      join(bias.view);
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
  for (const ScoreBias &bias : biases) {
    Value value = tb.cast(buildAt(tb, bias.view, shape), tb.b().getF32Type());
    if (bias.factor != 1)
      value = tb.mul(value, tb.scalarLike(value, bias.factor));
    sum = tb.add(sum, value);
  }
  if (sum && least != -kInfinity && !finiteBiases)
    sum = tb.max(sum, tb.scalarLike(sum, least));
  return sum;
}

Value AttentionMask::buildBias(TrainBuilder &tb, double least) const {
  SmallVector<DimAttr> shape = getDims(/*ofDeadRows=*/false);
  Value sum = buildSum(tb, shape, least), visible = buildConditions(tb, shape);
  if (!visible)
    return sum;
  if (!sum)
    sum = tb.full(shape, tb.b().getF32Type(), 0);
  return tb.select(visible, sum, tb.scalarLike(sum, least));
}

Value AttentionMask::buildDeadRows(TrainBuilder &tb) const {
  SmallVector<DimAttr> shape = getDims(/*ofDeadRows=*/true);
  Value visible = buildConditions(tb, shape);
  auto andAlso = [&](Value value) { visible = visible ? tb.logicalAnd(visible, value) : value; };
  if (isCausal() || hasWindow()) {
    Type i64 = tb.b().getI64Type();
    Value column = tb.iota(shape, i64, kColumn), row = tb.iota(shape, i64, kRow);
    Value shift = tb.splat(tb.dim(dims[kColumn] - dims[kRow], i64), row);
    Value own = tb.add(row, shift);
    auto seen = [&](StringRef predicate, int64_t columns) {
      andAlso(tb.compare(predicate, column, tb.add(own, tb.scalarLike(own, double(columns)))));
    };
    if (isCausal() || after)
      seen("le", isCausal() ? 0 : *after);
    if (before)
      seen("ge", -*before);
  }
  if (Value sum = finiteBiases ? Value() : buildSum(tb, shape, -kInfinity))
    andAlso(tb.compare("ne", sum, tb.scalarLike(sum, -kInfinity)));
  return tb.logicalNot(tb.reduce(ReduceKind::max, visible, kColumn));
}
