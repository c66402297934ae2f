// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Relative positions of 256 tokens take 385 of DeBERTa's 512 buckets. Products with all of them
// would be computed, stored, and their gradients be scattered, for nothing.

#include "lib/Transforms/RaiseIdioms/KnownIndices.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Reference/Reference.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// Indices that are evaluated: what makes them takes milliseconds, as data they are 256 KiB.
constexpr int64_t kMostIndices = 64 * 1024;
/// Slices begin and end at multiples of it: rows that vectors divide, as matmuls like them.
constexpr int64_t kAlignment = 8;

/// Values that are made of constants, evaluated.
class KnownValues {
public:
  /// Null where the value is not known, or too large.
  const HostTensor *get(Value value) {
    auto [it, isNew] = known.try_emplace(value);
    if (isNew) {
      std::optional<HostTensor> tensor = evaluate(value);
      known[value] = std::move(tensor);
    }
    const std::optional<HostTensor> &found = known[value];
    return found ? &*found : nullptr;
  }

private:
  std::optional<HostTensor> evaluate(Value value) {
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!op || !type || !type.hasStaticShape() || type.getNumElements() > kMostIndices ||
        op->getNumResults() != 1 || op->getNumRegions() != 0 || !isPure(op) ||
        !reference::isEvaluable(op))
      return std::nullopt;
    const Type element = type.getElementType();
    if (!isa<IntegerType>(element) && !element.isF32() && !element.isF64())
      return std::nullopt;
    SmallVector<HostTensor> operands;
    for (Value operand : op->getOperands()) {
      const HostTensor *tensor = get(operand);
      if (!tensor)
        return std::nullopt;
      operands.push_back(*tensor);
    }
    FailureOr<reference::HostTensors> results = reference::evaluateOp(op, operands, {});
    if (failed(results))
      return std::nullopt;
    // Each op rounds what it gives.
    if (element.isF32())
      for (double &number : results->front().data)
        number = float(number);
    return std::move(results->front());
  }

  DenseMap<Value, std::optional<HostTensor>> known;
};

/// Ops that only move and repeat elements, from the last one to the first, and what they move.
struct Moved {
  SmallVector<Operation *> moves;
  Value source;
};
Moved getMoved(Value value) {
  Moved moved;
  while (Operation *def = value.getDefiningOp()) {
    auto access = dyn_cast<ElementAccessOpInterface>(def);
    if (!access || !access.onlyMoves() || def->getNumOperands() != 1 || def->getNumResults() != 1)
      break;
    moved.moves.push_back(def);
    value = def->getOperand(0);
  }
  moved.source = value;
  return moved;
}

class NarrowGathers {
public:
  explicit NarrowGathers(func::FuncOp function) : function(function) {}

  void run() {
    SmallVector<GatherElementsOp> gathers;
    function.walk([&](GatherElementsOp op) { gathers.push_back(op); });
    // In program order: what one reads less of, others above it may read less of later.
    for (GatherElementsOp gather : gathers)
      narrow(gather);
  }

private:
  void narrow(GatherElementsOp gather) {
    Value data = gather.getData();
    const int64_t axis = gather.getAxis();
    std::optional<int64_t> size = getDim(data, axis).getConstant();
    // Of an argument there is nothing to compute less of, nor where others read all of it.
    if (!data.getDefiningOp() || !data.hasOneUse() || !size)
      return;
    Moved moved = getMoved(gather.getIndices());
    const HostTensor *indices = known.get(moved.source);
    if (!indices || indices->data.empty())
      return;
    const auto [least, most] = std::minmax_element(indices->data.begin(), indices->data.end());
    // Below 0 they count from the end; behind it, they are an error that the step reports.
    if (*least < 0 || *most >= double(*size))
      return;
    const int64_t from = llvm::alignDown(int64_t(*least), kAlignment);
    const int64_t to = std::min<int64_t>(*size, llvm::alignTo(int64_t(*most) + 1, kAlignment));
    // A slice for less than an eighth costs more than it saves.
    if ((to - from) * 8 > *size * 7)
      return;
    OpBuilder builder(gather);
    TrainBuilder tb(builder, gather.getLoc());
    Value index = buildIndices(tb, moved, *indices, from);
    Value part = tb.sliceAxis(data, axis, tb.dimAttr(from), tb.dimAttr(to - from));
    gather.replaceAllUsesWith(tb.gatherElements(part, index, axis));
    remark::passed(
        gather.getLoc(),
        remark::RemarkOpts::name("Raised").category("raise-idioms").function(function.getName()))
        << remark::add("{0} reads {1} of {2} elements of its axis, which are all that is computed",
                       describeOp(gather), to - from, *size);
    gather.erase();
  }

  /// The indices less `from`, as a constant, moved as they were.
  static Value buildIndices(TrainBuilder &tb, const Moved &moved, const HostTensor &indices,
                            int64_t from) {
    const Type integer = tb.b().getI32Type();
    HostTensor shifted = indices;
    for (double &number : shifted.data)
      number -= double(from);
    auto type = cast<RankedTensorType>(withElementType(moved.source.getType(), integer));
    Value value = tb.constant(reference::toAttribute(type, shifted));
    for (Operation *move : llvm::reverse(moved.moves)) {
      IRMapping mapping;
      mapping.map(move->getOperand(0), value);
      value = tb.b().clone(*move, mapping)->getResult(0);
      value.setType(withElementType(move->getResult(0).getType(), integer));
    }
    return value;
  }

  func::FuncOp function;
  KnownValues known;
};
} // namespace

void trainc::narrowGathers(func::FuncOp function) { NarrowGathers(function).run(); }
