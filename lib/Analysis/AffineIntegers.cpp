// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Affine integers, bottom up. What is not understood is not affine.

#include "lib/Analysis/AffineIntegers.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// So that sums and products of a few stay far from overflow.
constexpr int64_t kMost = int64_t(1) << 30;

std::optional<AffineInteger> uniform(Value value, int64_t number) {
  return AffineInteger{DimAttr::constant(value.getContext(), number),
                       SmallVector<int64_t>(getRank(value), 0)};
}

std::optional<AffineInteger> uniform(Value value, DimAttr number) {
  return AffineInteger{number, SmallVector<int64_t>(getRank(value), 0)};
}

std::optional<int64_t> uniformNumber(const std::optional<AffineInteger> &affine) {
  return affine && affine->isUniform() ? affine->constant.getConstant() : std::nullopt;
}

bool isSmall(int64_t number) { return number >= -kMost && number <= kMost; }

std::optional<AffineInteger> bounded(AffineInteger affine) {
  std::optional<int64_t> constant = affine.constant.getConstant();
  if ((constant && !isSmall(*constant)) || !llvm::all_of(affine.factors, isSmall))
    return std::nullopt;
  return affine;
}

/// a + sign * b
std::optional<AffineInteger> sum(AffineInteger a, const AffineInteger &b, int64_t sign) {
  a.constant = sign > 0 ? a.constant + b.constant : a.constant - b.constant;
  for (auto [to, from] : llvm::zip_equal(a.factors, b.factors))
    to += sign * from;
  return bounded(std::move(a));
}

std::optional<AffineInteger> scaled(AffineInteger a, int64_t by) {
  if (!isSmall(by))
    return std::nullopt;
  a.constant = a.constant * DimAttr::constant(a.constant.getContext(), by);
  for (int64_t &factor : a.factors)
    factor *= by;
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
  if (values.isSplat() && isSmall(number(0)))
    return AffineInteger{DimAttr::constant(values.getContext(), number(0)),
                         SmallVector<int64_t>(shape.size(), 0)};
  SmallVector<int64_t> factors(shape.size(), 0), coordinates(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
    if (shape[axis] > 1)
      factors[axis] = number(stride) - number(0);
    stride *= shape[axis];
  }
  AffineInteger result{DimAttr::constant(values.getContext(), number(0)), factors};
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
  AffineInteger result{from.constant, SmallVector<int64_t>(map.results[0].size(), 0)};
  for (auto [loop, factor] : llvm::zip_equal(map.operands[0], from.factors)) {
    if (factor == 0)
      continue;
    auto at = llvm::find(map.results[0], loop);
    if (at == map.results[0].end())
      return std::nullopt;
    result.factors[at - map.results[0].begin()] = factor;
  }
  return result;
}

std::optional<AffineInteger> sliced(SliceOp op, AffineInteger from) {
  for (auto [axis, start] : llvm::enumerate(op.getStarts().getDims())) {
    int64_t &factor = from.factors[axis];
    if (factor != 0)
      from.constant = from.constant + DimAttr::constant(op.getContext(), factor) * start;
    factor = getDim(op.getResult(), axis).isConstant(1) ? 0 : factor * op.getSteps()[axis];
  }
  return bounded(std::move(from));
}

/// Parts that follow each other in one affine function.
std::optional<AffineInteger> joined(ConcatOp op,
                                    llvm::function_ref<std::optional<AffineInteger>(Value)> get) {
  int64_t axis = op.getAxis();
  SmallVector<AffineInteger> parts;
  std::optional<int64_t> step;
  for (Value operand : op.getOperands()) {
    std::optional<AffineInteger> part = get(operand);
    if (!part)
      return std::nullopt;
    if (!getDim(operand, axis).isConstant(1))
      step = part->factors[axis];
    parts.push_back(*part);
  }
  if (!step && parts.size() > 1) {
    std::optional<int64_t> difference = (parts[1].constant - parts[0].constant).getConstant();
    if (!difference)
      return std::nullopt;
    step = *difference;
  }
  AffineInteger whole = parts[0];
  whole.factors[axis] = step.value_or(0);
  DimAttr start = DimAttr::constant(op.getContext(), 0);
  for (auto [part, operand] : llvm::zip_equal(parts, op.getOperands())) {
    part.factors[axis] =
        getDim(operand, axis).isConstant(1) ? whole.factors[axis] : part.factors[axis];
    DimAttr expected =
        whole.constant + DimAttr::constant(op.getContext(), whole.factors[axis]) * start;
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
  auto holds = [&] {
    switch (op.getPredicate()) {
    case ComparePredicate::eq:
      return *number == 0;
    case ComparePredicate::ne:
      return *number != 0;
    case ComparePredicate::lt:
      return *number < 0;
    case ComparePredicate::le:
      return *number <= 0;
    case ComparePredicate::gt:
      return *number > 0;
    case ComparePredicate::ge:
      return *number >= 0;
    }
    llvm_unreachable("all predicates are handled");
  };
  return uniform(op.getResult(), int64_t(holds()));
}
} // namespace

std::optional<AffineInteger> AffineIntegers::get(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !isa<IntegerType>(getElementType(value)))
    return std::nullopt;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  std::optional<AffineInteger> result = compute(def, value);
  known[value] = result;
  return result;
}

std::optional<AffineInteger> AffineIntegers::component(Value indices, int64_t k) {
  int64_t last = getRank(indices) - 1;
  auto parts = indices.getDefiningOp<ConcatOp>();
  auto isOne = [&](Value part) { return getDim(part, last).isConstant(1); };
  std::optional<AffineInteger> result;
  if (parts && int64_t(parts.getAxis()) == last && llvm::all_of(parts.getOperands(), isOne)) {
    result = get(parts.getOperands()[k]);
  } else if ((result = get(indices))) {
    result->constant =
        result->constant + DimAttr::constant(indices.getContext(), result->factors[last] * k);
  }
  if (result)
    result->factors.pop_back();
  return result;
}

/// Whether the positions lie in [0, extent), over all coordinates of `dims`.
static bool isInside(const AffineInteger &position, ArrayRef<DimAttr> dims, DimAttr extent) {
  auto number = [&](int64_t n) { return DimAttr::constant(extent.getContext(), n); };
  DimAttr last = position.constant;
  for (auto [factor, dim] : llvm::zip(position.factors, dims)) {
    if (factor < 0)
      return false;
    if (factor > 0)
      last = last + number(factor) * (dim - number(1));
  }
  return position.constant.getConstant().value_or(-1) >= 0 &&
         (extent - last).getConstant().value_or(0) > 0;
}

std::optional<AffineInteger>
AffineIntegers::lookUp(Value data, ArrayRef<int64_t> indexed, ArrayRef<DimAttr> places,
                       llvm::function_ref<std::optional<AffineInteger>(int64_t)> at) {
  std::optional<AffineInteger> from = get(data);
  if (!from)
    return std::nullopt;
  AffineInteger result{from->constant, {}};
  SmallVector<int64_t> factors(places.size(), 0);
  for (auto [k, axis] : llvm::enumerate(indexed)) {
    // One out of range ends the run, one below 0 counts from the end.
    std::optional<AffineInteger> position = at(k);
    if (!position || !isInside(*position, places, getDim(data, axis)))
      return std::nullopt;
    std::optional<AffineInteger> part = scaled(*position, from->factors[axis]);
    if (!part)
      return std::nullopt;
    result.constant = result.constant + part->constant;
    for (auto [to, factor] : llvm::zip(factors, part->factors))
      to += factor;
  }
  for (auto [axis, factor] : llvm::enumerate(from->factors)) {
    if (int64_t(axis) == indexed.front())
      result.factors.append(factors);
    if (!llvm::is_contained(indexed, int64_t(axis)))
      result.factors.push_back(factor);
  }
  return bounded(std::move(result));
}

std::optional<AffineInteger> AffineIntegers::compute(Operation *op, Value value) {
  using Result = std::optional<AffineInteger>;
  auto both = [&](auto &&combine) -> Result {
    Result lhs = get(op->getOperand(0)), rhs = get(op->getOperand(1));
    return lhs && rhs ? combine(*lhs, *rhs) : std::nullopt;
  };
  auto decided = [&](int64_t absorbing) -> Result {
    std::optional<int64_t> lhs = uniformNumber(get(op->getOperand(0))),
                           rhs = uniformNumber(get(op->getOperand(1)));
    if (lhs == absorbing || rhs == absorbing)
      return uniform(value, absorbing);
    return lhs && rhs ? uniform(value, 1 - absorbing) : std::nullopt;
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<FullOp, ConstantOp>([&](auto constant) -> Result {
        if (auto number = dyn_cast<IntegerAttr>(constant.getValue())) {
          bool isBool = number.getType().isInteger(1);
          return bounded(*uniform(value, isBool ? int64_t(number.getValue().getBoolValue())
                                                : number.getValue().getSExtValue()));
        }
        auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
        return values ? ofConstant(values) : std::nullopt;
      })
      .Case([&](DimOp dim) -> Result { return uniform(value, dim.getValue()); })
      .Case([&](IotaOp iota) -> Result {
        Result result = uniform(value, 0);
        if (!getDim(value, iota.getAxis()).isConstant(1))
          result->factors[iota.getAxis()] = 1;
        return result;
      })
      .Case<BroadcastOp, ReshapeOp, TransposeOp>([&](auto move) -> Result {
        Result from = get(move.getOperand());
        return from ? moved(cast<AxisMapOpInterface>(op), *from) : std::nullopt;
      })
      .Case([&](SliceOp slice) -> Result {
        Result from = get(slice.getOperand());
        return from ? sliced(slice, *from) : std::nullopt;
      })
      .Case([&](ConcatOp concat) -> Result {
        return joined(concat, [&](Value part) { return get(part); });
      })
      .Case([&](CastOp cast) -> Result {
        Result from = get(cast.getOperand());
        // To a boolean, or to a type that may not hold it.
        int64_t bits = getElementType(value).getIntOrFloatBitWidth();
        if (bits == 1 || (bits < 32 && from)) {
          std::optional<int64_t> number = uniformNumber(from);
          if (!number || (bits > 1 && (*number < 0 || *number > 127)))
            return std::nullopt;
          return uniform(value, bits == 1 ? int64_t(*number != 0) : *number);
        }
        return from;
      })
      .Case([&](AddOp) { return both([](auto &a, auto &b) { return sum(a, b, 1); }); })
      .Case([&](SubOp) { return both([](auto &a, auto &b) { return sum(a, b, -1); }); })
      .Case([&](MulOp) {
        return both([](auto &a, auto &b) -> Result {
          if (std::optional<int64_t> number = uniformNumber(a))
            return scaled(b, *number);
          if (std::optional<int64_t> number = uniformNumber(b))
            return scaled(a, *number);
          return std::nullopt;
        });
      })
      .Case([&](CumsumOp) -> Result {
        return uniformNumber(get(op->getOperand(0))) == 0 ? uniform(value, 0) : std::nullopt;
      })
      .Case([&](GatherOp gather) -> Result {
        int64_t axis = gather.getAxis();
        return lookUp(gather.getData(), axis, getDims(gather.getIndices()),
                      [&](int64_t) { return get(gather.getIndices()); });
      })
      .Case([&](GatherNdOp gather) -> Result {
        SmallVector<DimAttr> places = getDims(gather.getIndices());
        int64_t tuple = places.pop_back_val().getConstant().value_or(0);
        if (gather.getBatchDims() != 0 || tuple == 0)
          return std::nullopt;
        return lookUp(gather.getData(), llvm::to_vector(llvm::seq<int64_t>(tuple)), places,
                      [&](int64_t k) { return component(gather.getIndices(), k); });
      })
      .Case([&](CompareOp compare) {
        return both([&](auto &a, auto &b) { return compared(compare, a, b); });
      })
      .Case([&](NotOp) -> Result {
        std::optional<int64_t> number = uniformNumber(get(op->getOperand(0)));
        return number ? uniform(value, 1 - *number) : std::nullopt;
      })
      .Case([&](AndOp) { return decided(0); })
      .Case([&](OrOp) { return decided(1); })
      .Default([](Operation *) -> Result { return std::nullopt; });
}
