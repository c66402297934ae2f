// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer results as affine functions of their coordinates (AffineOpInterface), op by op. What is
// not understood is not affine.

#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainDialect.h"

using namespace mlir;
using namespace trainc::train;

using Result = std::optional<AffineInteger>;

namespace {
/// So that sums and products of a few stay far from overflow.
constexpr int64_t kMost = int64_t(1) << 30;

std::optional<AffineInteger> uniform(Value value, DimAttr number) {
  DimAttr zero = DimAttr::constant(value.getContext(), 0);
  return AffineInteger{number, SmallVector<DimAttr>(getRank(value), zero)};
}

std::optional<AffineInteger> uniform(Value value, int64_t number) {
  return uniform(value, DimAttr::constant(value.getContext(), number));
}

std::optional<int64_t> uniformNumber(const std::optional<AffineInteger> &affine) {
  return affine && affine->isUniform() ? affine->constant.getConstant() : std::nullopt;
}

bool isSmall(int64_t number) { return number >= -kMost && number <= kMost; }
/// Sizes are.
bool isSmallOrSize(DimAttr number) { return isSmall(number.getConstant().value_or(0)); }

std::optional<AffineInteger> bounded(AffineInteger affine) {
  if (!isSmallOrSize(affine.constant) || !llvm::all_of(affine.factors, isSmallOrSize))
    return std::nullopt;
  return affine;
}

/// a + sign * b
std::optional<AffineInteger> sum(AffineInteger a, const AffineInteger &b, int64_t sign) {
  a.constant = sign > 0 ? a.constant + b.constant : a.constant - b.constant;
  for (auto [to, from] : llvm::zip_equal(a.factors, b.factors))
    to = sign > 0 ? to + from : to - from;
  return bounded(std::move(a));
}

std::optional<AffineInteger> scaled(AffineInteger a, DimAttr by) {
  if (!isSmallOrSize(by))
    return std::nullopt;
  a.constant = a.constant * by;
  for (DimAttr &factor : a.factors)
    factor = factor * by;
  return bounded(std::move(a));
}

std::optional<AffineInteger> ofConstant(DenseElementsAttr values) {
  ArrayRef<int64_t> shape = values.getType().getShape();
  if (values.empty() || !isa<IntegerType>(values.getElementType()))
    return std::nullopt;
  auto numbers = values.getValues<APInt>();
  bool isBool = values.getElementType().isInteger(1);
  auto number = [&](int64_t index) {
    APInt value = numbers[index];
    return isBool ? int64_t(value.getZExtValue()) : value.getSExtValue();
  };
  auto asDim = [&](int64_t n) { return DimAttr::constant(values.getContext(), n); };
  if (values.isSplat() && isSmall(number(0)))
    return AffineInteger{asDim(number(0)), SmallVector<DimAttr>(shape.size(), asDim(0))};
  SmallVector<int64_t> factors(shape.size(), 0), coordinates(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
    if (shape[axis] > 1)
      factors[axis] = number(stride) - number(0);
    stride *= shape[axis];
  }
  AffineInteger result{asDim(number(0)), llvm::map_to_vector(factors, asDim)};
  if (!bounded(result))
    return std::nullopt;
  for (int64_t index = 0; index < stride; ++index) {
    int64_t expected = number(0), rest = index;
    for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
      expected += factors[axis] * (rest % shape[axis]);
      rest /= shape[axis];
    }
    if (number(index) != expected)
      return std::nullopt;
  }
  return result;
}

/// The same elements at other places.
std::optional<AffineInteger> moved(AxisMapOpInterface op, const AffineInteger &from) {
  AxisMap map = op.getAxisMap();
  AffineInteger result = *uniform(op->getResult(0), from.constant);
  for (auto [loop, factor] : llvm::zip_equal(map.operands[0], from.factors)) {
    if (factor.isConstant(0))
      continue;
    auto at = llvm::find(map.results[0], loop);
    if (loop < 0 || at == map.results[0].end())
      return std::nullopt;
    result.factors[at - map.results[0].begin()] = factor;
  }
  return result;
}

std::optional<AffineInteger> sliced(SliceOp op, AffineInteger from) {
  for (auto [axis, start] : llvm::enumerate(op.getStarts().getDims())) {
    DimAttr &factor = from.factors[axis];
    from.constant = from.constant + factor * start;
    bool single = getDim(op.getResult(), axis).isConstant(1);
    factor = factor * DimAttr::constant(op.getContext(), single ? 0 : op.getSteps()[axis]);
  }
  return bounded(std::move(from));
}

/// Parts that follow each other in one affine function.
std::optional<AffineInteger> joined(ConcatOp op, AffineLookup get) {
  int64_t axis = op.getAxis();
  SmallVector<AffineInteger> parts;
  std::optional<DimAttr> step;
  for (Value operand : op.getOperands()) {
    std::optional<AffineInteger> part = get(operand);
    if (!part)
      return std::nullopt;
    if (!getDim(operand, axis).isConstant(1))
      step = part->factors[axis];
    parts.push_back(*part);
  }
  if (!step && parts.size() > 1) {
    step = parts[1].constant - parts[0].constant;
    if (!step->getConstant())
      return std::nullopt;
  }
  AffineInteger whole = parts[0];
  whole.factors[axis] = step.value_or(DimAttr::constant(op.getContext(), 0));
  DimAttr start = DimAttr::constant(op.getContext(), 0);
  for (auto [part, operand] : llvm::zip_equal(parts, op.getOperands())) {
    part.factors[axis] =
        getDim(operand, axis).isConstant(1) ? whole.factors[axis] : part.factors[axis];
    DimAttr expected = whole.constant + whole.factors[axis] * start;
    if (part.factors != whole.factors || part.constant != expected)
      return std::nullopt;
    start = start + getDim(operand, axis);
  }
  return bounded(std::move(whole));
}

/// 1 or 0 where the difference is the same everywhere.
std::optional<AffineInteger> compared(CompareOp op, const AffineInteger &lhs,
                                      const AffineInteger &rhs) {
  std::optional<AffineInteger> difference = sum(lhs, rhs, -1);
  std::optional<int64_t> number = uniformNumber(difference);
  if (!number)
    return std::nullopt;
  // Small: exact in double.
  return uniform(op.getResult(),
                 int64_t(trainc::train::detail::compare(op.getPredicate(), double(*number), 0)));
}
} // namespace

//===----------------------------------------------------------------------===//
// Constants and what moves them
//===----------------------------------------------------------------------===//

static Result affineOf(FullOp op, AffineLookup) {
  auto number = dyn_cast<IntegerAttr>(op.getValue());
  if (!number)
    return std::nullopt;
  bool isBool = number.getType().isInteger(1);
  return bounded(*uniform(op.getResult(), isBool ? int64_t(number.getValue().getBoolValue())
                                                 : number.getValue().getSExtValue()));
}
static Result affineOf(ConstantOp op, AffineLookup) {
  auto values = dyn_cast<DenseElementsAttr>(op.getValue());
  return values ? ofConstant(values) : std::nullopt;
}
static Result affineOf(DimOp op, AffineLookup) { return uniform(op.getResult(), op.getValue()); }
static Result affineOf(IotaOp op, AffineLookup) {
  Result result = uniform(op.getResult(), 0);
  if (!getDim(op.getResult(), op.getAxis()).isConstant(1))
    result->factors[op.getAxis()] = DimAttr::constant(op.getContext(), 1);
  return result;
}
static Result affineOf(BroadcastOp op, AffineLookup get) {
  Result from = get(op.getOperand());
  return from ? moved(op, *from) : std::nullopt;
}
static Result affineOf(ReshapeOp op, AffineLookup get) {
  Result from = get(op.getOperand());
  return from ? moved(op, *from) : std::nullopt;
}
static Result affineOf(TransposeOp op, AffineLookup get) {
  Result from = get(op.getOperand());
  return from ? moved(op, *from) : std::nullopt;
}
static Result affineOf(SliceOp op, AffineLookup get) {
  Result from = get(op.getOperand());
  return from ? sliced(op, *from) : std::nullopt;
}
static Result affineOf(ConcatOp op, AffineLookup get) { return joined(op, get); }

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// Component `k` of the last axis of an index tensor, without that axis.
static Result component(Value indices, int64_t k, AffineLookup get) {
  int64_t last = getRank(indices) - 1;
  auto parts = indices.getDefiningOp<ConcatOp>();
  auto isOne = [&](Value part) { return getDim(part, last).isConstant(1); };
  Result result;
  if (parts && int64_t(parts.getAxis()) == last && llvm::all_of(parts.getOperands(), isOne)) {
    result = get(parts.getOperands()[k]);
  } else if ((result = get(indices))) {
    result->constant =
        result->constant + result->factors[last] * DimAttr::constant(indices.getContext(), k);
  }
  if (result)
    result->factors.pop_back();
  return result;
}

/// Whether the positions lie in [0, extent), over all coordinates of `dims`.
static bool isInside(const AffineInteger &position, ArrayRef<DimAttr> dims, DimAttr extent) {
  auto number = [&](int64_t n) { return DimAttr::constant(extent.getContext(), n); };
  DimAttr last = position.constant;
  for (auto [factor, dim] : llvm::zip_equal(position.factors, dims)) {
    if (factor.getConstant().value_or(-1) < 0)
      return false;
    last = last + factor * (dim - number(1));
  }
  return position.constant.getConstant().value_or(-1) >= 0 &&
         (extent - last).getConstant().value_or(0) > 0;
}

/// The data at affine positions inside of it. `at(k)` is the position along axis `indexed[k]`; axes
/// of sizes `places` stand in the result for the indexed ones.
static Result lookUp(Value data, ArrayRef<int64_t> indexed, ArrayRef<DimAttr> places,
                     llvm::function_ref<Result(int64_t)> at, AffineLookup get) {
  Result from = get(data);
  if (!from)
    return std::nullopt;
  AffineInteger result{from->constant, {}};
  SmallVector<DimAttr> factors(places.size(), DimAttr::constant(data.getContext(), 0));
  for (auto [k, axis] : llvm::enumerate(indexed)) {
    // One out of range ends the run, one below 0 counts from the end.
    Result position = at(k);
    if (!position || !isInside(*position, places, getDim(data, axis)))
      return std::nullopt;
    Result part = scaled(*position, from->factors[axis]);
    if (!part)
      return std::nullopt;
    result.constant = result.constant + part->constant;
    for (auto [to, factor] : llvm::zip_equal(factors, part->factors))
      to = to + factor;
  }
  for (auto [axis, factor] : llvm::enumerate(from->factors)) {
    if (int64_t(axis) == indexed.front())
      result.factors.append(factors);
    if (!llvm::is_contained(indexed, int64_t(axis)))
      result.factors.push_back(factor);
  }
  return bounded(std::move(result));
}

static Result affineOf(GatherOp op, AffineLookup get) {
  return lookUp(
      op.getData(), int64_t(op.getAxis()), getDims(op.getIndices()),
      [&](int64_t) { return get(op.getIndices()); }, get);
}
static Result affineOf(GatherNdOp op, AffineLookup get) {
  SmallVector<DimAttr> places = getDims(op.getIndices());
  int64_t tuple = places.pop_back_val().getConstant().value_or(0);
  if (op.getBatchDims() != 0 || tuple == 0)
    return std::nullopt;
  return lookUp(
      op.getData(), llvm::to_vector(llvm::seq<int64_t>(tuple)), places,
      [&](int64_t k) { return component(op.getIndices(), k, get); }, get);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Result affineOf(CastOp op, AffineLookup get) {
  Result from = get(op.getOperand());
  // To a boolean, or to a type that may not hold it.
  int64_t bits = getElementType(op.getResult()).getIntOrFloatBitWidth();
  if (bits >= 32 || !from)
    return from;
  std::optional<int64_t> number = uniformNumber(from);
  if (!number || (bits > 1 && (*number < 0 || *number > 127)))
    return std::nullopt;
  return uniform(op.getResult(), bits == 1 ? int64_t(*number != 0) : *number);
}
static Result affineOf(AddOp op, AffineLookup get) {
  Result lhs = get(op.getLhs()), rhs = get(op.getRhs());
  return lhs && rhs ? sum(*lhs, *rhs, 1) : std::nullopt;
}
static Result affineOf(SubOp op, AffineLookup get) {
  Result lhs = get(op.getLhs()), rhs = get(op.getRhs());
  return lhs && rhs ? sum(*lhs, *rhs, -1) : std::nullopt;
}
static Result affineOf(MulOp op, AffineLookup get) {
  Result lhs = get(op.getLhs()), rhs = get(op.getRhs());
  if (!lhs || !rhs)
    return std::nullopt;
  if (lhs->isUniform())
    return scaled(*rhs, lhs->constant);
  return rhs->isUniform() ? scaled(*lhs, rhs->constant) : std::nullopt;
}
static Result affineOf(CumsumOp op, AffineLookup get) {
  return uniformNumber(get(op.getOperand())) == 0 ? uniform(op.getResult(), 0) : std::nullopt;
}
static Result affineOf(CompareOp op, AffineLookup get) {
  Result lhs = get(op.getLhs()), rhs = get(op.getRhs());
  return lhs && rhs ? compared(op, *lhs, *rhs) : std::nullopt;
}
static Result affineOf(NotOp op, AffineLookup get) {
  std::optional<int64_t> number = uniformNumber(get(op.getOperand()));
  return number ? uniform(op.getResult(), 1 - *number) : std::nullopt;
}
/// One operand decides where it is `absorbing`.
static Result decided(Value result, Result lhs, Result rhs, int64_t absorbing) {
  std::optional<int64_t> x = uniformNumber(lhs), y = uniformNumber(rhs);
  if (x == absorbing || y == absorbing)
    return uniform(result, absorbing);
  return x && y ? uniform(result, 1 - absorbing) : std::nullopt;
}
static Result affineOf(AndOp op, AffineLookup get) {
  return decided(op.getResult(), get(op.getLhs()), get(op.getRhs()), 0);
}
static Result affineOf(OrOp op, AffineLookup get) {
  return decided(op.getResult(), get(op.getLhs()), get(op.getRhs()), 1);
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

namespace {
template <typename Op> struct AffineModel : AffineOpInterface::ExternalModel<AffineModel<Op>, Op> {
  Result getAffine(Operation *op, AffineLookup get) const { return affineOf(cast<Op>(op), get); }
};
template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<AffineModel<Ops>>(*context), ...);
}
} // namespace

void trainc::train::detail::attachAffineInterfaces(MLIRContext *context) {
  attach<FullOp, ConstantOp, DimOp, IotaOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ConcatOp,
         GatherOp, GatherNdOp, CastOp, AddOp, SubOp, MulOp, CumsumOp, CompareOp, NotOp, AndOp,
         OrOp>(context);
}
