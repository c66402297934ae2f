// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Autocast's rules, on a graph without modules: an op that runs in the low type gives it, an op
// that takes any type gives the widest of its operands', sums and exponentials give f32. Two things
// that modules do are told by their form: a parameter of one axis that is added to a product is its
// bias, and what statistics of one axis are taken from is batch normalisation, scales included. A
// scale of anything else (layer scale) makes f32 of it, and so do layer and group normalisation,
// whose statistics differ from sample to sample. In a model of the low type neither does: its
// modules give what they were given, whatever they compute in.

#include "lib/Transforms/MixedPrecision/CarriedTypes.h"

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/Precision/Precision.h"
#include "dialects/Train/Splats.h"
#include "trainc/Analysis/Roles.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The one axis along which elements of a small value differ, 0 for a scalar; none for a tensor.
static std::optional<int64_t> getOnlyAxis(Value value) {
  std::optional<int64_t> only;
  for (auto [axis, dim] : llvm::enumerate(getDims(value)))
    if (!dim.isConstant(1)) {
      if (only)
        return std::nullopt;
      only = axis;
    }
  return only.value_or(0);
}

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

CarriedTypes::CarriedTypes(func::FuncOp function, FloatType low, bool parameters)
    : low(low), parameters(parameters) {
  Block &block = function.getBody().front();
  for (BlockArgument argument : block.getArguments())
    known[argument] = ofArgument(function, argument);
  for (Operation &op : block)
    for (OpResult result : op.getResults())
      known[result] = ofResult(result);
}

bool CarriedTypes::isCarried(Value value) const {
  Precision precision = lookup(value);
  return precision.carries && precision.isNarrow();
}
bool CarriedTypes::joins(Value value) const { return lookup(value).joined; }

CarriedTypes::Precision CarriedTypes::lookup(Value value) const { return known.lookup(value); }

CarriedTypes::Precision CarriedTypes::ofArgument(func::FuncOp function,
                                                 BlockArgument argument) const {
  Precision precision;
  std::optional<int64_t> axis = getOnlyAxis(argument);
  if (!isFloat(argument) || getRank(argument) == 0)
    precision.kind = Kind::Neutral;
  else if (axis && getArgRole(function, argument.getArgNumber()) == "parameter")
    precision.kind = Kind::Parameter;
  // Several axes of parameters of the low type: what they are is what an op in it gives.
  else if (getElementTypeOrSelf(argument.getType()) == low)
    precision.kind = Kind::Narrow;
  precision.axis = axis.value_or(0);
  return precision;
}

CarriedTypes::Precision CarriedTypes::ofResult(OpResult result) const {
  Operation *op = result.getOwner();
  Precision precision;
  precision.carries = parameters || isa<ConvolutionOpInterface>(op);
  for (Value operand : op->getOperands())
    precision.carries |= lookup(operand).carries;
  auto ofKind = [&](Kind kind) {
    precision.kind = kind;
    return precision;
  };
  if (!isFloat(result) || getRank(result) == 0)
    return ofKind(Kind::Neutral);
  if (isa<LowPrecisionOpInterface>(op))
    return ofKind(getElementTypeOrSelf(result.getType()) == low ? Kind::Product : Kind::Wide);
  if (op->getNumOperands() == 0)
    return ofKind(getSplatValue(result) ? Kind::Neutral : Kind::Wide);
  if (getOnlyAxis(result))
    return ofVector(result);
  if (isa<CastOpInterface>(op) && isFloat(op->getOperand(0)))
    return lookup(op->getOperand(0));
  if (isa<ReductionOpInterface>(op))
    return ofReduction(result);
  if (parameters && isMadeOfNeutral(op))
    return ofKind(Kind::Neutral);
  if (!isa<CarriedTypeOpInterface>(op))
    return ofKind(Kind::Wide);
  return isa<PointwiseOpInterface>(op) || op->getNumOperands() > 1 ? ofOperands(result)
                                                                   : ofMove(result);
}

/// What is computed of statistics of samples in a model of the low type: of floats, that is.
bool CarriedTypes::isMadeOfNeutral(Operation *op) const {
  return llvm::any_of(op->getOperands(), isFloat) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return lookup(operand).kind == Kind::Neutral; });
}

/// Whatever the op: numbers of one axis are parameters or statistics.
CarriedTypes::Precision CarriedTypes::ofVector(OpResult result) const {
  Precision precision;
  precision.kind = Kind::Neutral;
  precision.axis = *getOnlyAxis(result);
  for (Value operand : result.getOwner()->getOperands()) {
    Precision from = lookup(operand);
    precision.carries |= from.carries;
    if (isFloat(operand))
      precision.kind = std::max(precision.kind, std::min(from.kind, Kind::Statistic));
  }
  return precision;
}

/// Of windows' taps: a pool, which has its operand's type. Other sums are statistics of samples,
/// which a model of the low type scales its values by without making them wider.
CarriedTypes::Precision CarriedTypes::ofReduction(OpResult result) const {
  Precision precision = lookup(result.getOwner()->getOperand(0));
  SmallVector<int64_t> reduced = cast<ReductionOpInterface>(result.getOwner()).getReducedAxes();
  if (precision.isVector() || llvm::any_of(reduced, [&](int64_t axis) {
        return axis >= int64_t(precision.taps.size()) || !precision.taps[axis];
      }))
    precision.kind = parameters && precision.isNarrow() ? Kind::Neutral : Kind::Wide;
  precision.joined = false;
  precision.taps.clear();
  return precision;
}

/// Of one operand, whose elements are only moved.
CarriedTypes::Precision CarriedTypes::ofMove(OpResult result) const {
  Operation *op = result.getOwner();
  Precision precision = lookup(op->getOperand(0));
  precision.joined = false;
  auto carried = cast<CarriedTypeOpInterface>(op);
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  std::optional<AxisMap> map;
  if (mapped)
    map = mapped.getAxisMap();
  if (precision.isVector()) {
    const int loop = map ? map->operands[0][precision.axis] : -1;
    ArrayRef<int> axes =
        map ? ArrayRef<int>(map->results[result.getResultNumber()]) : ArrayRef<int>();
    const auto *at = llvm::find(axes, loop);
    // Numbers of samples are no channels.
    if (loop < 0 || at == axes.end() || at == axes.begin())
      precision.kind = parameters && precision.kind == Kind::Statistic ? Kind::Neutral : Kind::Wide;
    else
      precision.axis = at - axes.begin();
    return precision;
  }
  // Windows are taken of axes one by one, of what was repeated before.
  llvm::SmallBitVector taps(getRank(result));
  if (precision.taps.size() == taps.size())
    taps = precision.taps;
  if (std::optional<int64_t> axis = carried.getTapsAxis())
    taps.set(*axis);
  precision.taps = taps;
  return precision;
}

/// The widest, and what parameters and statistics do to it.
CarriedTypes::Precision CarriedTypes::ofOperands(OpResult result) const {
  Precision precision;
  precision.kind = Kind::Neutral;
  bool parameter = false, statistic = false, normalised = true;
  SmallVector<Value, 2> streams;
  Kind vector = Kind::Neutral;
  for (Value operand : result.getOwner()->getOperands()) {
    Precision from = lookup(operand);
    precision.carries |= from.carries;
    if (!isFloat(operand) || from.kind == Kind::Neutral)
      continue;
    if (from.kind == Kind::Wide) {
      precision.kind = Kind::Wide;
      return precision;
    }
    if (from.isVector()) {
      parameter |= from.kind == Kind::Parameter;
      statistic |= from.kind == Kind::Statistic;
      vector = std::max(vector, from.kind);
      precision.axis = from.axis;
      continue;
    }
    normalised &= from.kind == Kind::Normalised;
    if (from.taps.size() > precision.taps.size())
      precision.taps = from.taps;
    if (!llvm::is_contained(streams, operand))
      streams.push_back(operand);
  }
  if (streams.empty()) {
    precision.kind = vector;
    return precision;
  }
  precision.joined = streams.size() > 1;
  if (statistic || (parameter && normalised))
    precision.kind = Kind::Normalised;
  else if (parameter && !parameters &&
           (streams.size() > 1 || lookup(streams[0]).kind != Kind::Product))
    precision.kind = Kind::Wide;
  else
    precision.kind = Kind::Narrow;
  return precision;
}
