// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `widen-types`: 16-bit floats in f32, matmuls of doubles as sums.

#include "lib/Transforms/WidenTypes/WidenTypes.h"

#include "dialects/Train/External/FixedTypes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_WIDENTYPESPASS
#include "lib/Transforms/WidenTypes/WidenTypes.h.inc"
} // namespace trainc

namespace {

bool isNarrow(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

/// A number or numbers of a narrow type as f32, which holds them exactly; others as they are.
Attribute widened(Attribute attr) {
  auto exactly = [](APFloat value) {
    bool lossy = false;
    // Every 16-bit float is an f32: nothing is lost.
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
    return value;
  };
  Type wide = Float32Type::get(attr.getContext());
  if (auto number = dyn_cast<FloatAttr>(attr); number && isNarrow(number.getType()))
    return FloatAttr::get(wide, exactly(number.getValue()));
  if (auto numbers = dyn_cast<DenseFPElementsAttr>(attr); numbers && isNarrow(numbers.getType()))
    return numbers.mapValues(wide,
                             [&](const APFloat &value) { return exactly(value).bitcastToAPInt(); });
  return attr;
}

/// Operands as f32, and results of that type.
/// Attributes too, such as the value of a constant.
void widen(Operation *op) {
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  Type wide = builder.getF32Type();
  for (OpOperand &operand : op->getOpOperands())
    if (isNarrow(operand.get().getType()))
      operand.set(tb.cast(operand.get(), wide));
  for (NamedAttribute attr : op->getAttrs())
    op->setAttr(attr.getName(), widened(attr.getValue()));
  for (OpResult result : op->getResults())
    if (isNarrow(result.getType()))
      result.setType(withElementType(result.getType(), wide));
}

bool isBF16(Value value) { return getElementTypeOrSelf(value.getType()).isBF16(); }

/// Whether the op only moves elements of bf16, in the order in which ops are widened.
bool onlyMoves(Operation *op) {
  return isa<StridedViewOpInterface>(op) && op->getNumOperands() == 1 && isBF16(op->getOperand(0));
}

/// Whether the library multiplies it as it is.
bool isLowProduct(Operation *op) {
  auto product = dyn_cast<ContractionOpInterface>(op);
  return product && product.isPlain() && product.canStoreF32() && isBF16(op->getResult(0));
}

/// Factors of bf16, of which those that are wide by now are rounded; the sums are stored as they
/// are.
void keepProduct(ContractionOpInterface op) {
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  for (OpOperand &factor : op->getOpOperands())
    if (!isBF16(factor.get()))
      factor.set(tb.cast(factor.get(), builder.getBF16Type()));
  Value result = op->getResult(0);
  result.setType(withElementType(result.getType(), builder.getF32Type()));
}

/// Narrow results as f32, for those who read them, of an op whose own types stay.
void castResults(Operation *op) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  TrainBuilder tb(builder, op->getLoc());
  for (OpResult result : op->getResults())
    if (isNarrow(result.getType())) {
      Value wide = tb.cast(result, builder.getF32Type());
      result.replaceAllUsesExcept(wide, wide.getDefiningOp());
    }
}

/// Operands of the types that they were.
void castOperands(Operation *op, ArrayRef<Type> types) {
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  for (auto [operand, type] : llvm::zip_equal(op->getOpOperands(), types))
    if (operand.get().getType() != type)
      operand.set(tb.cast(operand.get(), getElementTypeOrSelf(type)));
}

/// The results of the function in their own types.
/// Rounded once, where the caller expects the type.
void narrowResults(Operation *terminator, ArrayRef<Type> types) {
  OpBuilder builder(terminator);
  TrainBuilder tb(builder, terminator->getLoc());
  for (auto [operand, type] : llvm::zip_equal(terminator->getOpOperands(), types))
    operand.set(tb.cast(operand.get(), type));
}

/// [batch..., m, k] times [batch..., k, n]: all pairs, summed over k.
/// For reference results in f64, which no library multiplies on every target: exact, slow, for
/// small tests.
/// For doubles, which the CPU's library lacks: exact, and slow.
void expandProduct(ContractionOpInterface op) {
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  SmallVector<DimAttr> dims = getDims(op->getResult(0));
  int64_t rank = dims.size(), inner = rank;
  dims.push_back(op.getInnerDim());
  SmallVector<int64_t> left, right;
  for (int64_t axis = 0; axis < rank - 2; ++axis) {
    left.push_back(axis);
    right.push_back(axis);
  }
  // The pairs' axes are m, n and k; broadcast wants ascending ones.
  auto swapped = [&](Value x) {
    // An operand in the other orientation.
    SmallVector<int64_t> permutation(left);
    permutation.append({rank - 1, rank - 2});
    return tb.transpose(x, permutation);
  };
  Value lhs = op.getTransposeLhs() ? swapped(op.getLhs()) : op.getLhs();
  Value rhs = op.getTransposeRhs() ? op.getRhs() : swapped(op.getRhs());
  left.append({rank - 2, inner});
  right.append({rank - 1, inner});
  lhs = tb.broadcast(lhs, dims, left);
  rhs = tb.broadcast(rhs, dims, right);
  op->getResult(0).replaceAllUsesWith(tb.sum(tb.mul(lhs, rhs), {inner}));
  op->erase();
}

struct WidenTypesPass : trainc::impl::WidenTypesPassBase<WidenTypesPass> {
  using WidenTypesPassBase::WidenTypesPassBase;

  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    // Before the operands become wide.
    SmallVector<Type> results(block.getTerminator()->getOperandTypes());
    widenBlock(block);
    narrowResults(block.getTerminator(), results);
  }

private:
  void widenBlock(Block &block) {
    SmallVector<Operation *> narrow, calls;
    SmallVector<std::pair<Operation *, SmallVector<Type>>> fixed;
    SmallVector<ContractionOpInterface> doubles;
    // Collected first: casts that are put in touch narrow types as well.
    for (Operation &op : block.without_terminator()) {
      bool touches = llvm::any_of(op.getOperandTypes(), isNarrow) ||
                     llvm::any_of(op.getResultTypes(), isNarrow);
      // A cast is where the graph asks for rounding.
      if (touches && op.hasTrait<FixedTypes>())
        fixed.emplace_back(&op, llvm::to_vector(op.getOperandTypes()));
      else if (touches && !isa<CastOpInterface>(op))
        narrow.push_back(&op);
      if (auto product = dyn_cast<ContractionOpInterface>(op))
        if (product.isPlain() && getElementType(product->getResult(0)).isF64())
          doubles.push_back(product);
      if (op.getNumRegions())
        calls.push_back(&op);
    }
    for (auto &[op, types] : fixed)
      castResults(op);
    for (Operation *op : narrow)
      if (products && isLowProduct(op))
        keepProduct(cast<ContractionOpInterface>(op));
      else if (!products || !onlyMoves(op))
        widen(op);
    for (auto &[op, types] : fixed)
      castOperands(op, types);
    for (Operation *op : calls)
      for (Region &region : op->getRegions())
        widenBody(region.front());
    llvm::for_each(doubles, expandProduct);
  }

  /// What a body takes and gives is that of its op, which is wide.
  void widenBody(Block &body) {
    Type wide = Float32Type::get(&getContext());
    auto widest = [&](Type type) { return isNarrow(type) ? withElementType(type, wide) : type; };
    for (BlockArgument argument : body.getArguments())
      argument.setType(widest(argument.getType()));
    SmallVector<Type> results;
    for (Type type : body.getTerminator()->getOperandTypes())
      results.push_back(widest(type));
    widenBlock(body);
    narrowResults(body.getTerminator(), results);
  }
};
} // namespace
