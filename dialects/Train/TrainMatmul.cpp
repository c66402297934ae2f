// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products, plain and with an epilogue: verifiers, axis maps, gradient, layouts, cost.
// Library calls compute both.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

/// The type of the product of two stored matrices; a failure, reported, if they do not fit.
static FailureOr<Type> productType(Operation *op, Value left, Value right, bool transposeLhs,
                                   bool transposeRhs) {
  SmallVector<DimAttr> lhs = getDims(left), rhs = getDims(right);
  size_t rank = lhs.size();
  if (rank < 2 || rhs.size() != rank)
    return attachNotes(op->emitOpError("expected operands of one rank of at least 2, got ")
                           << rank << " and " << rhs.size(),
                       {{"lhs", left}, {"rhs", right}});
  Type element = getElementType(left);
  if (getElementType(right) != element)
    return attachNotes(op->emitOpError("expected operands of one element type, got ")
                           << element << " and " << getElementType(right),
                       {{"lhs", left}, {"rhs", right}});
  for (size_t axis = 0; axis + 2 < rank; ++axis)
    if (lhs[axis] != rhs[axis])
      return attachNotes(op->emitOpError("expected equal batch axes, got ")
                             << lhs[axis].str() << " and " << rhs[axis].str() << " on axis "
                             << axis,
                         {{"lhs", left}, {"rhs", right}});
  DimAttr m = lhs[rank - 2], k = lhs[rank - 1], otherK = rhs[rank - 2], n = rhs[rank - 1];
  if (transposeLhs)
    std::swap(m, k);
  if (transposeRhs)
    std::swap(otherK, n);
  if (k != otherK)
    return attachNotes(op->emitOpError("expected equal inner axes, got ")
                           << k.str() << " and " << otherK.str(),
                       {{"lhs", left}, {"rhs", right}});
  SmallVector<DimAttr> dims(lhs.begin(), lhs.end() - 2);
  dims.push_back(m);
  dims.push_back(n);
  return getTensorType(dims, element);
}

static LogicalResult verifyType(Operation *op, StringRef what, Value value, Type expected) {
  if (value.getType() == expected)
    return success();
  return op->emitOpError("expected ")
         << what << " of type " << expected << ", got " << value.getType();
}

/// Loops: batch axes, m, n, k.
static AxisMap productAxisMap(int batch, bool transposeLhs, bool transposeRhs) {
  int m = batch, n = batch + 1, k = batch + 2;
  AxisMap map;
  map.loops.assign(batch + 2, LoopKind::Parallel);
  map.loops.push_back(LoopKind::Reduction);
  SmallVector<int> lhs, rhs, result;
  for (int axis = 0; axis < batch; ++axis)
    lhs.push_back(axis);
  rhs = result = lhs;
  auto add = [](SmallVector<int> &to, int a, int b, bool swap) {
    to.push_back(swap ? b : a);
    to.push_back(swap ? a : b);
  };
  add(lhs, m, k, transposeLhs);
  add(rhs, k, n, transposeRhs);
  add(result, m, n, false);
  map.operands = {lhs, rhs};
  map.results.push_back(result);
  return map;
}

/// Libraries want the elements of rows or of columns side by side.
static bool hasUnitStride(Value matrix, const StridedLayout &layout) {
  SmallVector<DimAttr> dims = getDims(matrix);
  bool anyLong = false;
  for (size_t axis : {dims.size() - 2, dims.size() - 1}) {
    if (dims[axis].isConstant(1))
      continue;
    if (layout.strides[axis].isConstant(1))
      return true;
    anyLong = true;
  }
  return !anyLong;
}

static DimAttr productFlops(Value left, bool transposeLhs, Value result) {
  SmallVector<DimAttr> lhs = getDims(left);
  DimAttr k = transposeLhs ? lhs[lhs.size() - 2] : lhs.back();
  return DimAttr::constant(left.getContext(), 2) * k * getNumElements(result.getType());
}

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  FailureOr<Type> expected =
      productType(*this, getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  if (failed(expected))
    return failure();
  // The sums are in f32, and may be stored so.
  if (getElementType(getLhs()).getIntOrFloatBitWidth() == 16 && getElementType(getResult()).isF32())
    expected = getTensorType(getDims(*expected), getElementType(getResult()));
  return verifyType(*this, "a result", getResult(), *expected);
}

AxisMap MatmulOp::getAxisMap() {
  return productAxisMap(getRank(getLhs()) - 2, getTransposeLhs(), getTransposeRhs());
}

void MatmulOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                        MutableArrayRef<Value> gradients) {
  Value g = cotangents[0], lhs = getLhs(), rhs = getRhs();
  bool tl = getTransposeLhs(), tr = getTransposeRhs();
  if (!g)
    return;
  g = tb.cast(g, getElementType(lhs));
  // With A, B the operands as multiplied: dA = g B', dB = A' g, each in the layout it is stored in.
  auto left = [&] {
    if (needed[0])
      gradients[0] = tl ? tb.matmul(rhs, g, tr, true) : tb.matmul(g, rhs, false, !tr);
  };
  // Weights stand on the right. Once dB is there, the activation A need not be kept for it, and dA
  // may take its place; that is more than dB and B's copy in another type, but for a vocabulary.
  constexpr int64_t kVocabulary = 16384;
  std::optional<int64_t> columns = getDims(g).back().getConstant();
  const bool leftFirst = columns && *columns > kVocabulary;
  if (leftFirst)
    left();
  if (needed[1])
    gradients[1] = tr ? tb.matmul(g, lhs, true, tl) : tb.matmul(lhs, g, !tl, false);
  if (!leftFirst)
    left();
}

FusionRole MatmulOp::getFusionRole() { return FusionRole::Library; }
bool MatmulOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  return hasUnitStride(getOperand(operand), layout);
}
bool MatmulOp::acceptsResultLayout(unsigned, const StridedLayout &layout) {
  return hasUnitStride(getResult(), layout);
}
bool MatmulOp::canStoreF32() { return true; }
std::optional<StreamedFactors> MatmulOp::asStreamedProduct() {
  if (getRank(getLhs()) != 2 || getTransposeLhs())
    return std::nullopt;
  return StreamedFactors{getLhs(), getRhs(), Value(), getTransposeRhs()};
}
RecomputeClass MatmulOp::getRecomputeClass() { return RecomputeClass::Costly; }
DimAttr MatmulOp::getFlops() { return productFlops(getLhs(), getTransposeLhs(), getResult()); }

//===----------------------------------------------------------------------===//
// fused_matmul
//===----------------------------------------------------------------------===//

LogicalResult FusedMatmulOp::verify() {
  FailureOr<Type> product =
      productType(*this, getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  if (failed(product))
    return failure();
  if (getRank(getLhs()) != 2)
    return attachNotes(emitOpError("expected operands of rank 2, got ") << getRank(getLhs()),
                       {{"lhs", getLhs()}});
  Type columns = getTensorType({getDim(getResult(), 1)}, getElementType(getLhs()));
  Epilogue epilogue = getEpilogue();
  bool whole =
      epilogue == Epilogue::dgelu || epilogue == Epilogue::dgelu_bgrad || epilogue == Epilogue::add;
  Type operand = whole ? *product : epilogue == Epilogue::gelu_aux ? Type() : columns;
  Type extra =
      epilogue == Epilogue::dgelu_bgrad ? columns
      : epilogue == Epilogue::bias || epilogue == Epilogue::dgelu || epilogue == Epilogue::add
          ? Type()
          : *product;
  if (failed(verifyType(*this, "a result", getResult(), *product)))
    return failure();
  for (auto [what, value, expected] :
       {std::tuple("third operand", getOperand(), operand), {"second result", getExtra(), extra}}) {
    if (bool(value) != bool(expected))
      return emitOpError("epilogue ")
             << stringifyEpilogue(epilogue) << (expected ? " needs a " : " takes no ") << what;
    if (value && failed(verifyType(*this, std::string("a ") + what, value, expected)))
      return failure();
  }
  return success();
}

AxisMap FusedMatmulOp::getAxisMap() {
  AxisMap map = productAxisMap(0, getTransposeLhs(), getTransposeRhs());
  // Nothing but the plain product may be summed in parts; bias gradients take all rows.
  enum { m, n, k };
  map.loops[k] = LoopKind::Opaque;
  if (getEpilogue() == Epilogue::dgelu_bgrad)
    map.loops[m] = LoopKind::Opaque;
  auto loopsOf = [](Value value) -> SmallVector<int> {
    return getRank(value) == 1 ? SmallVector<int>{n} : SmallVector<int>{m, n};
  };
  if (Value operand = getOperand())
    map.operands.push_back(loopsOf(operand));
  if (Value extra = getExtra())
    map.results.push_back(loopsOf(extra));
  return map;
}

FusionRole FusedMatmulOp::getFusionRole() { return FusionRole::Library; }
bool FusedMatmulOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  Value value = getOperation()->getOperand(operand);
  return operand < 2 ? hasUnitStride(value, layout)
                     : trainc::train::detail::isRowMajor(value, layout);
}
bool FusedMatmulOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  return trainc::train::detail::isRowMajor(getOperation()->getResult(result), layout);
}
std::optional<StreamedFactors> FusedMatmulOp::asStreamedProduct() {
  if (getTransposeLhs() || getEpilogue() != Epilogue::add)
    return std::nullopt;
  return StreamedFactors{getLhs(), getRhs(), getOperand(), getTransposeRhs()};
}
RecomputeClass FusedMatmulOp::getRecomputeClass() { return RecomputeClass::Costly; }
DimAttr FusedMatmulOp::getFlops() { return productFlops(getLhs(), getTransposeLhs(), getResult()); }

//===----------------------------------------------------------------------===//
// streamed_matmul
//===----------------------------------------------------------------------===//

LogicalResult StreamedMatmulOp::verify() {
  FailureOr<Type> product = productType(*this, getLhs(), getRhs(), false, getTransposeRhs());
  if (failed(product))
    return failure();
  if (getRank(getLhs()) != 2)
    return attachNotes(emitOpError("expected operands of rank 2, got ") << getRank(getLhs()),
                       {{"lhs", getLhs()}});
  if (std::optional<int64_t> rows = getDim(getLhs(), 0).getConstant();
      getMostRows() < rows.value_or(1))
    return attachNotes(emitOpError("expected room for ")
                           << rows.value_or(1) << " rows, got " << getMostRows(),
                       {{"lhs", getLhs()}});
  if (getAddend() && failed(verifyType(*this, "an addend", getAddend(), *product)))
    return failure();
  return verifyType(*this, "a result", getResult(), *product);
}

AxisMap StreamedMatmulOp::getAxisMap() {
  AxisMap map = productAxisMap(0, false, getTransposeRhs());
  if (getAddend())
    map.operands.push_back(map.results.front());
  return map;
}

FusionRole StreamedMatmulOp::getFusionRole() { return FusionRole::Standalone; }
Value StreamedMatmulOp::getLeftFactor() { return getLhs(); }
Value StreamedMatmulOp::getRightFactor() { return getRhs(); }
bool StreamedMatmulOp::isRightTransposed() { return getTransposeRhs(); }
Value StreamedMatmulOp::getAddedTo() { return getAddend(); }
int64_t StreamedMatmulOp::getRowLimit() { return getMostRows(); }
RecomputeClass StreamedMatmulOp::getRecomputeClass() { return RecomputeClass::Costly; }
DimAttr StreamedMatmulOp::getFlops() { return productFlops(getLhs(), false, getResult()); }
