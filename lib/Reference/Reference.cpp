// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluation of train ops in double. Knows interfaces, no ops: a dialect whose ops implement them
// is evaluated too. Integers are doubles that wrap around like their type; floats keep the double's
// bits.
#include "trainc/Reference/Reference.h"
#include "dialects/Train/Loops/Loops.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainDetail.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::reference::HostTensors;

/// All elements alike.
HostTensor reference::makeTensor(ArrayRef<int64_t> shape, double value) {
  HostTensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.data.assign(tensor.size(), value);
  return tensor;
}

/// Sizes as numbers; failure where a symbol has no value.
FailureOr<SmallVector<int64_t>> reference::evaluateShape(Type type, const SymbolValues &symbols) {
  SmallVector<int64_t> shape;
  for (DimAttr dim : getDims(type)) {
    FailureOr<int64_t> size = symbols.evaluate(dim);
    if (failed(size) || *size < 0)
      return failure();
    shape.push_back(*size);
  }
  return shape;
}

LogicalResult reference::bindSymbols(Type type, ArrayRef<int64_t> shape, SymbolValues &symbols) {
  SmallVector<DimAttr> dims = getDims(type);
  if (dims.size() != shape.size())
    return failure();
  // Plain symbols first: other expressions may be made of them.
  for (auto [dim, size] : llvm::zip_equal(dims, shape))
    if (std::optional<StringRef> symbol = dim.getSymbol())
      symbols.values.try_emplace(*symbol, size);
  for (auto [dim, size] : llvm::zip_equal(dims, shape)) {
    // What cannot be evaluated yet is no contradiction.
    FailureOr<int64_t> expected = symbols.evaluate(dim);
    if (succeeded(expected) && *expected != size)
      return failure();
  }
  return success();
}

/// Steps to the next index in row-major order.
static void increment(MutableArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
    if (++index[axis] < shape[axis])
      return;
    index[axis] = 0;
  }
}

static LogicalResult evaluatePointwise(PointwiseOpInterface op, ArrayRef<HostTensor> operands,
                                       HostTensor &result) {
  int64_t size = result.size();
  // Scalars fit any shape.
  for (const HostTensor &operand : operands)
    if (operand.shape != result.shape && !operand.shape.empty())
      return failure();
  SmallVector<int64_t> index(result.shape.size(), 0);
  SmallVector<double> elements(operands.size());
  for (int64_t i = 0; i < size; ++i) {
    for (auto [element, operand] : llvm::zip_equal(elements, operands))
      element = operand.data[operand.shape.empty() ? 0 : i];
    result.data[i] = op.evaluateScalar(elements, index);
    increment(index, result.shape);
  }
  return success();
}

static LogicalResult evaluateReduction(ReductionOpInterface op, const HostTensor &operand,
                                       HostTensor &result) {
  // Element by element, in row-major order: one order of sums for all.
  SmallVector<int64_t> reduced = op.getReducedAxes();
  std::fill(result.data.begin(), result.data.end(), op.evaluateIdentity());
  SmallVector<int64_t> index(operand.shape.size(), 0);
  for (double element : operand.data) {
    int64_t target = 0, kept = 0;
    for (auto [axis, i] : llvm::enumerate(index)) {
      // Axes that are left are the result's, in their order.
      if (llvm::is_contained(reduced, int64_t(axis)))
        continue;
      if (kept >= int64_t(result.shape.size()))
        return failure();
      target = target * result.shape[kept++] + i;
    }
    assert(target < int64_t(result.data.size()) && "the result's shape is what is kept");
    result.data[target] = op.evaluateCombine(result.data[target], op.evaluateMap(element));
    increment(index, operand.shape);
  }
  return success();
}

/// The one block of an op that only wraps ops: its arguments are the operands, its terminator gives
/// the results.
static Block *getWrappedBlock(Operation *op) {
  if (op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return nullptr;
  Block &block = op->getRegion(0).front();
  if (block.empty() || !block.back().hasTrait<OpTrait::ReturnLike>())
    return nullptr;
  bool fits = block.getNumArguments() == op->getNumOperands() &&
              block.back().getNumOperands() == op->getNumResults();
  return fits ? &block : nullptr;
}

/// Step by step; slices lie behind each other.
static FailureOr<HostTensors> evaluateLoop(LoopOp loop, ArrayRef<HostTensor> operands,
                                           const SymbolValues &symbols) {
  const size_t carried = loop.numCarried(), scanned = loop.getScanned().size();
  FailureOr<int64_t> steps = symbols.evaluate(loop.getSteps());
  if (failed(steps))
    return failure();
  HostTensors results(operands.take_front(carried));
  for (Value stacked : loop.getStacked()) {
    auto shape = reference::evaluateShape(stacked.getType(), symbols);
    if (failed(shape))
      return failure();
    results.push_back(reference::makeTensor(*shape));
  }
  for (int64_t i = 0; i < *steps; ++i) {
    const int64_t at = loop.getReverse() ? *steps - 1 - i : i;
    HostTensors arguments(ArrayRef(results).take_front(carried));
    for (const HostTensor &all : operands.slice(carried, scanned)) {
      HostTensor slice = reference::makeTensor(ArrayRef(all.shape).drop_front());
      std::copy_n(all.data.begin() + at * slice.size(), slice.size(), slice.data.begin());
      arguments.push_back(std::move(slice));
    }
    llvm::append_range(arguments, operands.drop_front(carried + scanned));
    FailureOr<HostTensors> made = reference::evaluateBlock(*loop.getBlock(), arguments, symbols);
    if (failed(made))
      return failure();
    for (auto [number, value] : llvm::enumerate(*made))
      if (number < carried)
        results[number] = value;
      else
        llvm::copy(value.data, results[number].data.begin() + at * value.size());
  }
  return results;
}

/// Also of what it wraps.
bool reference::isEvaluable(Operation *op) {
  if (isa<PointwiseOpInterface, ReductionOpInterface, ReferenceOpInterface>(op))
    return true;
  Block *block = getWrappedBlock(op);
  return block && llvm::all_of(block->without_terminator(),
                               [](Operation &inner) { return reference::isEvaluable(&inner); });
}

FailureOr<HostTensors> reference::evaluateOp(Operation *op, ArrayRef<HostTensor> operands,
                                             const SymbolValues &symbols) {
  if (auto loop = dyn_cast<LoopOp>(op))
    return evaluateLoop(loop, operands, symbols);
  // A kernel is what its ops are.
  if (Block *block = getWrappedBlock(op))
    return evaluateBlock(*block, operands, symbols);
  HostTensors results;
  for (Value result : op->getResults()) {
    auto shape = evaluateShape(result.getType(), symbols);
    if (failed(shape))
      return failure();
    results.push_back(makeTensor(*shape));
  }
  assert(results.size() == op->getNumResults() && "one tensor a result");
  LogicalResult done = failure();
  // An evaluation of its own goes first: an op may have several interfaces.
  if (auto reference = dyn_cast<ReferenceOpInterface>(op))
    done = reference.evaluate(operands, symbols, results);
  else if (auto pointwise = dyn_cast<PointwiseOpInterface>(op))
    done = evaluatePointwise(pointwise, operands, results[0]);
  else if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    done = evaluateReduction(reduction, operands[0], results[0]);
  if (failed(done))
    return failure();
  // Shapes are checked, then values wrapped: an evaluation may have done anything.
  for (auto [tensor, value] : llvm::zip_equal(results, op->getResults())) {
    if (int64_t(tensor.data.size()) != tensor.size())
      return failure();
    for (double &element : tensor.data)
      element = train::detail::wrapValue(element, value.getType());
  }
  return results;
}

FailureOr<HostTensors> reference::evaluateBlock(Block &block, ArrayRef<HostTensor> arguments,
                                                const SymbolValues &symbols) {
  llvm::DenseMap<Value, HostTensor> values;
  assert(block.getNumArguments() == arguments.size() && "one tensor an argument");
  for (auto [argument, tensor] : llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = tensor;
  // How many ops still read a value: a whole model's step would not fit otherwise.
  llvm::DenseMap<Value, unsigned> pending;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++pending[operand];
  // The last reader takes it over.
  auto take = [&](Value value) -> HostTensor {
    if (--pending[value] > 0)
      return values[value];
    HostTensor tensor = std::move(values[value]);
    values.erase(value);
    return tensor;
  };
  for (Operation &op : block) {
    HostTensors operands;
    for (Value operand : op.getOperands())
      operands.push_back(take(operand));
    // A terminator's operands are the block's results.
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    auto results = evaluateOp(&op, operands, symbols);
    if (failed(results))
      return op.emitError(
          "reference evaluation failed: an index is out of range, a size is unknown, or "
          "the op cannot be evaluated");
    // Nobody reads it: not kept.
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), *results))
      if (!result.use_empty())
        values[result] = std::move(tensor);
  }
  return failure();
}

FailureOr<HostTensors> reference::evaluate(func::FuncOp function, ArrayRef<HostTensor> arguments,
                                           SymbolValues symbols) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("reference evaluation needs a function of one block");
  if (function.getNumArguments() != arguments.size())
    return function.emitError("reference evaluation got ")
           << arguments.size() << " arguments, expected " << function.getNumArguments();
  // Twice: a size may be known only from a later argument.
  for (int round = 0; round < 2; ++round)
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (failed(bindSymbols(function.getArgumentTypes()[i], argument.shape, symbols)))
        return attachNotes(function.emitError("the shape of argument ")
                               << i << " does not fit its type " << function.getArgumentTypes()[i],
                           {{"it", function.getArgument(i)}});
  return evaluateBlock(function.getBody().front(), arguments, symbols);
}

/// Rounded to the type; null where that would change an integer.
DenseElementsAttr reference::toAttribute(RankedTensorType type, const HostTensor &tensor) {
  Type element = type.getElementType();
  if (!type.hasStaticShape() || int64_t(tensor.data.size()) != type.getNumElements())
    return {};
  if (auto floating = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double value : tensor.data) {
      bool lossy;
      values.emplace_back(value);
      values.back().convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    }
    return DenseElementsAttr::get(type, values);
  }
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return {};
  // Doubles hold integers exactly up to here.
  constexpr double exact = 9007199254740992.0;
  SmallVector<APInt> values;
  for (double value : tensor.data) {
    if (!(std::fabs(value) < exact) || value != std::trunc(value))
      return {};
    values.emplace_back(integer.getWidth(), uint64_t(int64_t(value)), /*isSigned=*/true,
                        /*implicitTrunc=*/true);
  }
  return DenseElementsAttr::get(type, values);
}
