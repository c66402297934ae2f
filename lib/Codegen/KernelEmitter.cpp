// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements by demand, and the loops around them.
//
// A value at an index is emitted in the loop body that defines its innermost coordinate: what does
// not depend on the inner loop comes before it, without a pass that would have to prove that loads
// may move.

#include "trainc/Codegen/KernelEmitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "trainc/Report/Reports.h"
#include <limits>

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// First words of memo keys.
enum KeyKind : intptr_t { kElement, kSplat, kVector, kLess, kBinary, kSelect };

static intptr_t word(Value value) { return reinterpret_cast<intptr_t>(value.getAsOpaquePointer()); }

KernelEmitter::KernelEmitter(FusionOp fusion, const Structure &structure, LLVM::LLVMFuncOp function,
                             SmallVectorImpl<DimAttr> &dims)
    /// Values are emitted by demand, so the first thing is to know which of them exist only behind
    /// a reduction.
    : structure(structure), fusion(fusion), function(function), dims(dims), b(fusion.getContext()),
      location(fusion.getLoc()) {
  entry = function.addEntryBlock(b);
  scopes.push_back({entry, nullptr, {}, /*guards=*/false});
  uses.resize(fusion.getInputs().size() + fusion.getNumResults());
  // In order: operands are known before their readers.
  for (Operation &op : fusion.getBody().front())
    if (isa<ReductionOpInterface>(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return afterReduction.contains(operand);
        }))
      afterReduction.insert(op.result_begin(), op.result_end());
  moveTo(0);
}

//===----------------------------------------------------------------------===//
// Loops and places
//===----------------------------------------------------------------------===//

/// The innermost scope whose block defines the value; values of inner regions that are no scope
/// count as of the last one.
unsigned KernelEmitter::depthOf(Value value) {
  if (!value)
    return 0;
  Block *block = value.getParentBlock();
  for (unsigned depth = scopes.size(); depth-- > 0;)
    if (scopes[depth].block == block)
      return depth;
  return scopes.size() - 1;
}
unsigned KernelEmitter::depthOf(const ElementIndex &index) {
  return depthOf(index.vector ? index.vector : index.base);
}

/// New ops go to the end of the scope's block, before the loop that the next scope is.
void KernelEmitter::moveTo(unsigned depth) {
  position = depth;
  if (depth + 1 < scopes.size()) {
    b.setInsertionPoint(scopes[depth + 1].op);
    return;
  }
  Block *block = scopes[depth].block;
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    b.setInsertionPoint(&block->back());
  else
    b.setInsertionPointToEnd(block);
}

/// A value is made once for each key, in the outermost scope that it may be in, and found again in
/// every scope inside of that one.
Value KernelEmitter::once(unsigned depth, Key key, llvm::function_ref<Value()> make) {
  for (Scope &scope : llvm::reverse(scopes))
    if (auto it = scope.memo.find(key); it != scope.memo.end())
      return it->second;
  unsigned before = position;
  moveTo(depth);
  Value value = make();
  scopes[depth].memo.emplace(std::move(key), value);
  moveTo(before);
  return value;
}

/// Constants and sizes: before everything else, whatever is being emitted.
Value KernelEmitter::atEntry(llvm::function_ref<Value()> make) {
  OpBuilder::InsertionGuard restore(b);
  b.setInsertionPointToStart(entry);
  return make();
}

/// At the innermost place. Everything until closeLoop is inside.
scf::ForOp KernelEmitter::openLoop(Value lower, Value upper, Value step, ValueRange init) {
  moveTo(scopes.size() - 1);
  auto loop = scf::ForOp::create(b, location, lower, upper, step, init);
  scopes.push_back({loop.getBody(), loop, {}, /*guards=*/false});
  moveTo(scopes.size() - 1);
  return loop;
}

Values KernelEmitter::closeLoop(scf::ForOp loop, ValueRange yielded) {
  assert(scopes.back().block == loop.getBody() &&
         "scopes close in the order in which they were opened");
  assert(loop.getInitArgs().size() == yielded.size() && "one value for each that the loop carries");
  moveTo(scopes.size() - 1);
  if (!yielded.empty())
    scf::YieldOp::create(b, location, yielded);
  scopes.pop_back();
  moveTo(scopes.size() - 1);
  return Values(loop.getResults());
}

/// As a scope: what is made inside must not be used behind it, which the memo's scopes see to.
void KernelEmitter::openIf(Value condition) {
  moveTo(scopes.size() - 1);
  auto op = scf::IfOp::create(b, location, condition, /*withElseRegion=*/false);
  scopes.push_back({op.thenBlock(), op, {}, /*guards=*/true});
  moveTo(scopes.size() - 1);
}

void KernelEmitter::closeIf() {
  assert(scopes.back().guards && "scopes close in the order in which they were opened");
  assert(scopes.size() > 1 && "the entry stays open");
  scopes.pop_back();
  moveTo(scopes.size() - 1);
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Equal values, not equal formulas: the same coordinates come from the same ops.
bool KernelEmitter::same(ArrayRef<ElementIndex> a, ArrayRef<ElementIndex> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip_equal(a, b), [](auto pair) {
           const ElementIndex &x = std::get<0>(pair), &y = std::get<1>(pair);
           return x.base == y.base && x.stride == y.stride && x.vector == y.vector;
         });
}

/// The first error is reported; a zero stands for the value, so that emission can go on to its end.
Value KernelEmitter::fail(Operation *op, Type element, const Twine &message) {
  if (!failed)
    op->emitOpError(message);
  failed = true;
  return splat(cast<TypedAttr>(b.getZeroAttr(element)));
}

Value KernelEmitter::convertFloat(Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element || !isa<FloatType>(from) || !isa<FloatType>(element))
    return value;
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), element);
  if (element.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(b, location, type, value);
  return arith::TruncFOp::create(b, location, type, value);
}

/// The element of a value at an index, in all lanes at once unless it is the same in each. Which
/// guards hold is part of the key: under another guard the element may not be read.
Value KernelEmitter::evaluate(Value value, ArrayRef<ElementIndex> index) {
  bool uniform =
      vectorLanes == 1 || llvm::all_of(index, [](const ElementIndex &i) { return i.isUniform(); });
  Key key = {kElement,
             word(value),
             word(guard.scalar),
             word(guard.lanes),
             uniform ? 0 : word(guard.tail),
             uniform ? 1 : vectorLanes};
  // Not before the guard is known; not outside of an `if` that is open.
  unsigned depth = std::max(depthOf(guard.scalar), depthOf(guard.lanes));
  if (!uniform)
    depth = std::max(depth, depthOf(guard.tail));
  for (unsigned scope = scopes.size(); scope-- > depth + 1;)
    if (scopes[scope].guards)
      depth = scope;
  // What follows from a reduction exists only inside the work item.
  if (afterReduction.contains(value))
    depth = std::max<unsigned>(depth, std::min<size_t>(workDepth, scopes.size() - 1));
  for (const ElementIndex &i : index) {
    key.insert(key.end(), {word(i.base), intptr_t(i.stride), word(i.vector)});
    depth = std::max(depth, depthOf(i));
  }
  // `compute` runs in the lanes of this element; the caller's are restored.
  unsigned lanesBefore = currentLanes;
  Location locationBefore = location;
  currentLanes = uniform ? 1 : vectorLanes;
  Value result = once(depth, std::move(key), [&] { return compute(value, index); });
  currentLanes = lanesBefore;
  location = locationBefore;
  return result;
}

Value KernelEmitter::evaluateLanes(Value value, ArrayRef<ElementIndex> index) {
  return toLanes(evaluate(value, index));
}

/// Only where the space's own index is current.
void KernelEmitter::storeResults() {
  // All are read before one is written: a result may be an input's buffer.
  Values values;
  for (const Store &place : structure.stores)
    values.push_back(evaluateLanes(place.value, spaceIndex));
  for (auto [place, value] : llvm::zip_equal(structure.stores, values))
    store(place, spaceIndex, value);
}

/// From a register or stash where the template keeps it, from memory, or by its op.
Value KernelEmitter::compute(Value value, ArrayRef<ElementIndex> index) {
  if (resident)
    if (Value known = resident(value, index))
      return known;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    noteRead(argument.getArgNumber(), index);
    return load(argument.getArgNumber(), argument.getType(), index);
  }
  Operation *op = value.getDefiningOp();
  assert(op && "values of a body are arguments of it or results of its ops");
  location = op->getLoc();
  Value result = computeOp(op, cast<OpResult>(value).getResultNumber(), index);
  if (currentLanes > 1 && !isa<VectorType>(result.getType()))
    result = toLanes(result);
  return result;
}

Value KernelEmitter::computeOp(Operation *op, unsigned number, ArrayRef<ElementIndex> index) {
  Type element = getElementType(op->getResult(number));
  if (auto pointwise = dyn_cast<PointwiseOpInterface>(op)) {
    Values elements, coordinates;
    for (OpOperand &operand : op->getOpOperands()) {
      // Scalars have no coordinates.
      bool scalar = getRank(operand.get()) == 0;
      elements.push_back(this->element(operand, scalar ? ArrayRef<ElementIndex>() : index));
    }
    for (const ElementIndex &i : index)
      coordinates.push_back(indexValue(i));
    if (op->hasAttr(kReportsAttr))
      reportNumber(whereWanted(elements.front()));
    // Narrow floats compute in f32 and are rounded once, at the end.
    for (Value &operand : elements)
      operand = convertFloat(operand, computeType(getElementTypeOrSelf(operand.getType())));
    return convertFloat(pointwise.buildScalar(b, location, elements, coordinates), element);
  }
  if (auto access = dyn_cast<ElementAccessOpInterface>(op)) {
    if (Value result = access.buildElement(*this, number, index))
      return result;
    return fail(op, element, "cannot be computed inside a kernel");
  }
  // A reduction's result is resident at its own position: here it was asked for at another.
  if (isa<ReductionOpInterface>(op))
    return fail(op, element, "is read at another position than its own in the kernel");
  return fail(op, element, "cannot be part of a kernel");
}

Value KernelEmitter::element(OpOperand &operand, ArrayRef<ElementIndex> index) {
  Value result = evaluate(operand.get(), index);
  return currentLanes > 1 ? toLanes(result) : result;
}

/// Reads `operand` only where `mask` holds, so that places outside of it are never touched.
Value KernelEmitter::elementIf(OpOperand &operand, ArrayRef<ElementIndex> index, Value mask,
                               Value other) {
  Guard before = guard;
  Value &part = isa<VectorType>(mask.getType()) ? guard.lanes : guard.scalar;
  part = conjunction(part, mask);
  Value value = element(operand, index);
  guard = before;
  return arith::SelectOp::create(b, location, mask, value, other);
}

//===----------------------------------------------------------------------===//
// Scalars and lanes
//===----------------------------------------------------------------------===//

/// Lanes of one value; remembered which, so that index arithmetic can go back to the scalar.
Value KernelEmitter::toLanes(Value scalar) {
  if (vectorLanes == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  auto type = VectorType::get(int64_t(vectorLanes), scalar.getType());
  Value lanes = once(depthOf(scalar), {kSplat, word(scalar), vectorLanes}, [&]() -> Value {
    // Constants stay visible to formulas that look at them (powers).
    Attribute value;
    if (auto constant = scalar.getDefiningOp<arith::ConstantOp>()) {
      value = constant.getValue();
      return arith::ConstantOp::create(b, location, DenseElementsAttr::get(type, value));
    }
    return vector::BroadcastOp::create(b, location, type, scalar);
  });
  splatSource[lanes] = scalar;
  return lanes;
}

Value KernelEmitter::splat(TypedAttr value) {
  if (currentLanes == 1)
    return arith::ConstantOp::create(b, location, value);
  auto type = VectorType::get(int64_t(currentLanes), value.getType());
  return arith::ConstantOp::create(b, location, DenseElementsAttr::get(type, Attribute(value)));
}

Value KernelEmitter::splatValue(Value scalar) {
  return currentLanes == 1 ? scalar : toLanes(scalar);
}

Value KernelEmitter::zero(Type element) { return splat(cast<TypedAttr>(b.getZeroAttr(element))); }

/// Null stands for "true".
Value KernelEmitter::conjunction(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  if (x.getType() != y.getType()) {
    x = toLanes(x);
    y = toLanes(y);
  }
  return arith::AndIOp::create(b, location, x, y);
}

Value KernelEmitter::anyLane(Value mask) {
  if (!isa<VectorType>(mask.getType()))
    return mask;
  return vector::ReductionOp::create(b, location, vector::CombiningKind::OR, mask);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

/// At the entry, each once.
Value KernelEmitter::constantIndex(int64_t value) {
  Value &constant = constants[value];
  if (!constant)
    constant =
        atEntry([&] { return arith::ConstantIndexOp::create(b, location, value).getResult(); });
  return constant;
}

/// Unsigned: indices are never negative, and the quotient is cheaper.
Value KernelEmitter::makeDivision(Value x, Value y, bool remainder) {
  if (remainder)
    return arith::RemUIOp::create(b, location, x, y);
  return arith::DivUIOp::create(b, location, x, y);
}

template <typename OpTy> static Value makeIndexOp(OpBuilder &b, Location loc, Value x, Value y) {
  return OpTy::create(b, loc, x, y);
}

/// Folded while emitting: what is not emitted needs no pass to take it away.
Value KernelEmitter::addIndex(Value x, Value y) {
  if (isConstantIntValue(x, 0))
    return y;
  if (isConstantIntValue(y, 0))
    return x;
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cx && cy)
    return constantIndex(*cx + *cy);
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 0, word(x), word(y)},
              [&] { return makeIndexOp<arith::AddIOp>(b, location, x, y); });
}
Value KernelEmitter::subIndex(Value x, Value y) {
  if (isConstantIntValue(y, 0))
    return x;
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cx && cy)
    return constantIndex(*cx - *cy);
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 1, word(x), word(y)},
              [&] { return makeIndexOp<arith::SubIOp>(b, location, x, y); });
}
Value KernelEmitter::mulIndex(Value x, Value y) {
  if (isConstantIntValue(x, 1))
    return y;
  if (isConstantIntValue(y, 1))
    return x;
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cx && cy)
    return constantIndex(*cx * *cy);
  if ((cx && *cx == 0) || (cy && *cy == 0))
    return constantIndex(0);
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 2, word(x), word(y)},
              [&] { return makeIndexOp<arith::MulIOp>(b, location, x, y); });
}
Value KernelEmitter::minIndex(Value x, Value y) {
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cx && cy)
    return constantIndex(std::min(*cx, *cy));
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 3, word(x), word(y)},
              [&] { return makeIndexOp<arith::MinSIOp>(b, location, x, y); });
}
Value KernelEmitter::divIndex(Value x, Value y) {
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cy && *cy == 1)
    return x;
  if (cx && cy && *cy > 0)
    return constantIndex(*cx / *cy);
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 4, word(x), word(y)},
              [&] { return makeDivision(x, y, /*remainder=*/false); });
}
Value KernelEmitter::remIndex(Value x, Value y) {
  auto cx = getConstantIntValue(x), cy = getConstantIntValue(y);
  if (cy && *cy == 1)
    return constantIndex(0);
  if (cx && cy && *cy > 0)
    return constantIndex(*cx % *cy);
  return once(std::max(depthOf(x), depthOf(y)), {kBinary, 5, word(x), word(y)},
              [&] { return makeDivision(x, y, /*remainder=*/true); });
}
Value KernelEmitter::lessIndex(Value x, Value y) {
  return once(std::max(depthOf(x), depthOf(y)), {kLess, word(x), word(y)}, [&] {
    return arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, x, y).getResult();
  });
}
Value KernelEmitter::selectIndex(Value condition, Value x, Value y) {
  return once(std::max({depthOf(condition), depthOf(x), depthOf(y)}),
              {kSelect, word(condition), word(x), word(y)},
              [&] { return arith::SelectOp::create(b, location, condition, x, y).getResult(); });
}

/// 0, stride, 2 * stride, ... in the lanes.
Value KernelEmitter::laneConstants(Type element, int64_t stride) {
  SmallVector<Attribute> steps;
  for (unsigned lane = 0; lane < vectorLanes; ++lane)
    steps.push_back(b.getIntegerAttr(element, int64_t(lane) * stride));
  auto type = VectorType::get(int64_t(vectorLanes), element);
  return arith::ConstantOp::create(b, location, DenseElementsAttr::get(type, steps));
}

/// Of a constant, in another integer type or not.
static std::optional<int64_t> constantOf(Value value) {
  if (auto cast = value.getDefiningOp<arith::IndexCastUIOp>())
    value = cast.getIn();
  return getConstantIntValue(value);
}

/// Proved from the ops that make the value; false where that does not show it.
bool KernelEmitter::isMultipleOf(Value value, int64_t factor) {
  if (auto known = assumed.find(value); known != assumed.end() && known->second % factor == 0)
    return true;
  if (auto constant = getConstantIntValue(value))
    return *constant % factor == 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    // A loop's counter: start and step.
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop && argument == loop.getInductionVar() &&
           isMultipleOf(loop.getLowerBound(), factor) && isMultipleOf(loop.getStep(), factor);
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::MulIOp>(op))
    return isMultipleOf(op->getOperand(0), factor) || isMultipleOf(op->getOperand(1), factor);
  if (isa<arith::IndexCastUIOp>(op))
    return isMultipleOf(op->getOperand(0), factor);
  if (auto quotient = dyn_cast<arith::DivUIOp>(op)) {
    auto divisor = constantOf(quotient.getRhs());
    return divisor && *divisor > 0 && isMultipleOf(quotient.getLhs(), factor * *divisor);
  }
  if (auto difference = dyn_cast<arith::SubIOp>(op)) {
    // x - x mod c
    auto remainder = difference.getRhs().getDefiningOp<arith::RemUIOp>();
    if (remainder && remainder.getLhs() == difference.getLhs() &&
        isMultipleOf(remainder.getRhs(), factor))
      return true;
  }
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return isMultipleOf(op->getOperand(0), factor) && isMultipleOf(op->getOperand(1), factor);
  return false;
}

/// Lanes of an index. Aligned ones are marked, for loads of whole vectors.
Value KernelEmitter::asVector(const ElementIndex &index) {
  if (index.vector)
    return index.vector;
  if (index.stride == 0)
    return toLanes(index.base);
  return once(depthOf(index.base), {kVector, word(index.base), intptr_t(index.stride), vectorLanes},
              [&] {
                Value steps = laneConstants(b.getIndexType(), index.stride);
                auto lanes = arith::AddIOp::create(b, location, toLanes(index.base), steps);
                if (index.stride == 1 && isMultipleOf(index.base, 4))
                  lanes->setAttr(kAlignedLanesAttr, b.getUnitAttr());
                return lanes.getResult();
              });
}

Value KernelEmitter::indexValue(const ElementIndex &index) {
  return currentLanes == 1 ? index.base : asVector(index);
}

/// Bases and strides add up as long as both are of that form; else lane by lane.
ElementIndex KernelEmitter::add(const ElementIndex &x, const ElementIndex &y) {
  if (!x.vector && !y.vector)
    return {addIndex(x.base, y.base), x.stride + y.stride, {}};
  return {{}, 0, addIndex(asVector(x), asVector(y))};
}
ElementIndex KernelEmitter::sub(const ElementIndex &x, const ElementIndex &y) {
  if (!x.vector && !y.vector)
    return {subIndex(x.base, y.base), x.stride - y.stride, {}};
  return {{}, 0, subIndex(asVector(x), asVector(y))};
}
/// By a constant.
ElementIndex KernelEmitter::mul(const ElementIndex &x, int64_t factor) {
  if (factor == 1)
    return x;
  if (!x.vector)
    return {mulIndex(x.base, constantIndex(factor)), x.stride * factor, {}};
  return {{}, 0, mulIndex(x.vector, toLanes(constantIndex(factor)))};
}

ElementIndex KernelEmitter::div(const ElementIndex &x, int64_t divisor) {
  if (currentLanes == 1 || x.isUniform())
    return {divIndex(x.base, constantIndex(divisor)), 0, {}};
  Value lanes = asVector(x), factor = toLanes(constantIndex(divisor));
  return {{}, 0, arith::DivUIOp::create(b, location, lanes, factor)};
}

/// As indices, which are compared as signed numbers: a difference may be below 0. Lanes at even
/// distances are told from a bound by the distances alone, in 32 bits: vectors of half the size,
/// and the difference of the bases is one number.
Value KernelEmitter::lessThan(const ElementIndex &x, const ElementIndex &y) {
  using Predicate = arith::CmpIPredicate;
  const bool uniform = currentLanes == 1 || (x.isUniform() && y.isUniform());
  if (uniform || x.vector || y.vector) {
    Value left = uniform ? x.base : asVector(x), right = uniform ? y.base : asVector(y);
    return once(std::max(depthOf(left), depthOf(right)), {kLess, word(left), word(right)}, [&] {
      return arith::CmpIOp::create(b, location, Predicate::slt, left, right).getResult();
    });
  }
  // x + i * n < y + j * n where (i - j) * n < y - x.
  const int64_t apart = x.stride - y.stride;
  return once(std::max(depthOf(x.base), depthOf(y.base)),
              {kLess, word(x.base), intptr_t(apart), word(y.base), vectorLanes}, [&]() -> Value {
                Value most = constantIndex(std::numeric_limits<int32_t>::max());
                Value least = constantIndex(std::numeric_limits<int32_t>::min());
                Value room = subIndex(y.base, x.base);
                // Distances of lanes are far from both ends.
                room = arith::MinSIOp::create(b, location, room, most);
                room = arith::MaxSIOp::create(b, location, room, least);
                room = arith::IndexCastOp::create(b, location, b.getI32Type(), room);
                return arith::CmpIOp::create(b, location, Predicate::slt,
                                             laneConstants(b.getI32Type(), apart), toLanes(room));
              });
}

Value KernelEmitter::asInteger(const ElementIndex &index) {
  Value value = indexValue(index);
  Type type = b.getI64Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), type);
  return arith::IndexCastOp::create(b, location, type, value);
}

/// Row-major coordinates of a flat position. Quotients are remembered, so that `linearize` gives
/// the flat position back without multiplying.
Index KernelEmitter::delinearize(Value flat, ArrayRef<DimAttr> sizes) {
  Index index(sizes.size(), constant(0));
  // The outermost axis longer than 1 takes what is left.
  size_t outermost = 0;
  while (outermost < sizes.size() && sizes[outermost].isConstant(1))
    ++outermost;
  for (size_t axis = sizes.size(); axis-- > outermost;) {
    if (axis == outermost) {
      index[axis] = {flat, 0, {}};
      break;
    }
    if (sizes[axis].isConstant(1))
      continue;
    Value size = dim(sizes[axis]);
    Value quotient = divIndex(flat, size), remainder = remIndex(flat, size);
    // flat = quotient * size + remainder.
    divisions[quotient] = {flat, remainder, sizes[axis]};
    index[axis] = {remainder, 0, {}};
    flat = quotient;
  }
  return index;
}

/// 1 for no sizes.
Value KernelEmitter::productOf(ArrayRef<DimAttr> sizes) {
  Value result = constantIndex(1);
  for (DimAttr size : sizes)
    result = mulIndex(result, dim(size));
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Templates may combine in any tree; which one follows from the template and the sizes, so that
/// every run has the same bits.
Value KernelEmitter::combine(Operation *reduction, Value x, Value y) {
  return cast<ReductionOpInterface>(reduction).buildCombine(b, reduction->getLoc(), x, y);
}

Value KernelEmitter::mappedOperand(Operation *reduction, ArrayRef<ElementIndex> index) {
  Value element = evaluateLanes(reduction->getOperand(0), index);
  element = convertFloat(element, computeType(getElementTypeOrSelf(element.getType())));
  return cast<ReductionOpInterface>(reduction).buildMap(b, reduction->getLoc(), element);
}

Value KernelEmitter::finishReduction(Operation *reduction, Value total) {
  return convertFloat(total, getElementType(reduction->getResult(0)));
}

Value KernelEmitter::identity(Operation *reduction, unsigned width) {
  Type element = computeType(getElementType(reduction->getResult(0)));
  TypedAttr value = cast<ReductionOpInterface>(reduction).getIdentity(element);
  if (width == 1)
    return arith::ConstantOp::create(b, location, value);
  auto type = VectorType::get(int64_t(width), element);
  return arith::ConstantOp::create(b, location, DenseElementsAttr::get(type, Attribute(value)));
}

/// Halves are folded onto each other: a tree that depends on the number of lanes alone.
Value KernelEmitter::combineLanes(Operation *reduction, Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return value;
  assert(llvm::isPowerOf2_64(uint64_t(type.getNumElements())) && "lanes are halved");
  for (int64_t width = type.getNumElements() / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      low.push_back(lane);
      high.push_back(lane + width);
    }
    Value x = vector::ShuffleOp::create(b, location, value, value, low);
    Value y = vector::ShuffleOp::create(b, location, value, value, high);
    value = combine(reduction, x, y);
  }
  return vector::ExtractOp::create(b, location, value, ArrayRef<int64_t>{0});
}

void joinUses(MutableArrayRef<BufferUse> all, ArrayRef<BufferUse> uses) {
  for (auto [joined, use] : llvm::zip_equal(all, uses)) {
    joined.used |= use.used;
    joined.onlySpace &= use.onlySpace;
    joined.onlyKept &= use.onlyKept;
    joined.onlyColumns &= use.onlyColumns;
    joined.pass = std::max(joined.pass, use.pass);
  }
}

/// Inputs over which a kernel may write a result: each element has been read by the same work item
/// before it is written.
SmallVector<std::pair<unsigned, unsigned>> inPlacePairs(FusionOp fusion, const Structure &structure,
                                                        ArrayRef<BufferUse> uses) {
  SmallVector<std::pair<unsigned, unsigned>> pairs;
  unsigned inputs = fusion.getInputs().size();
  // A standalone op reads what it likes; an epilogue reads where it writes.
  bool plain = !structure.standalone || structure.hasEpilogue;
  for (unsigned input = 0; plain && input < inputs; ++input) {
    Type type = fusion.getInputs()[input].getType();
    for (unsigned result = 0; result < fusion.getNumResults(); ++result) {
      if (fusion.getResult(result).getType() != type)
        continue;
      const BufferUse &read = uses[input], &write = uses[inputs + result];
      bool own = llvm::is_contained(structure.columnResults, result) ? read.onlyColumns
                 : llvm::is_contained(structure.keptResults, result) ? read.onlyKept
                                                                     : read.onlySpace;
      // Read in a later pass than written it would be the new value.
      if (!read.used || (own && read.pass <= write.pass))
        pairs.push_back({input, result});
    }
  }
  return pairs;
}

} // namespace trainc::codegen
