// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls: verifier, axis maps, gradient, layouts, cost.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

/// The type of the matmul of two stored matrices; a failure, reported, if they do not fit.
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

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

void MatmulOp::build(OpBuilder &builder, OperationState &state, Type result, Value lhs, Value rhs,
                     bool transposeLhs, bool transposeRhs) {
  build(builder, state, result, /*extra=*/Type(), lhs, rhs, /*addend=*/Value(), /*operand=*/Value(),
        transposeLhs, transposeRhs, /*epilogue=*/EpilogueAttr(), /*streamed_rows=*/IntegerAttr());
}

/// One result needs no name.
void MatmulOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (!getExtra())
    return;
  setName(getResult(), "result");
  setName(getExtra(), "extra");
}

/// The types of an epilogue's operand and extra result; null where there is none.
static std::pair<Type, Type> epilogueTypes(Epilogue epilogue, Type product) {
  Type columns = getTensorType({getDims(product).back()}, getElementTypeOrSelf(product));
  switch (epilogue) {
  case Epilogue::bias:
    return {columns, Type()};
  case Epilogue::gelu_aux:
    return {Type(), product};
  case Epilogue::gelu_aux_bias:
    return {columns, product};
  case Epilogue::dgelu:
    return {product, Type()};
  case Epilogue::dgelu_bgrad:
    return {product, columns};
  }
  llvm_unreachable("an epilogue of no kind");
}

LogicalResult MatmulOp::verify() {
  FailureOr<Type> product =
      productType(*this, getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  if (failed(product))
    return failure();
  // The sums are in f32, and may be stored so.
  if (isSum() && !getStreamedRows() && getElementType(getLhs()).getIntOrFloatBitWidth() == 16 &&
      getElementType(getResult()).isF32())
    product = getTensorType(getDims(*product), getElementType(getResult()));
  if (!isPlain() && getRank(getLhs()) != 2) {
    return attachNotes(emitOpError("expected operands of rank 2, got ") << getRank(getLhs()),
                       {{"lhs", getLhs()}});
  }
  if (failed(verifyType(*this, "a result", getResult(), *product)))
    return failure();
  if (getAddend() && failed(verifyType(*this, "an addend", getAddend(), *product)))
    return failure();
  if (getEpilogue() && (getAddend() || getStreamedRows()))
    return emitOpError("expected no ")
           << (getAddend() ? "addend" : "streaming") << " beside an epilogue";
  if (std::optional<uint64_t> most = getStreamedRows()) {
    const int64_t rows = getDim(getLhs(), 0).getConstant().value_or(1);
    if (getTransposeLhs())
      return emitOpError("expected a left factor that is not transposed to be streamed by");
    if (int64_t(*most) < rows)
      return attachNotes(emitOpError("expected room for ")
                             << rows << " rows, got " << int64_t(*most),
                         {{"lhs", getLhs()}});
  }
  const auto [operand, extra] =
      getEpilogue() ? epilogueTypes(*getEpilogue(), *product) : std::pair<Type, Type>();
  for (auto [what, value, expected] :
       {std::tuple("third operand", getOperand(), operand), {"second result", getExtra(), extra}}) {
    if (bool(value) != bool(expected)) {
      InFlightDiagnostic error = emitOpError();
      if (getEpilogue())
        error << "epilogue " << stringifyEpilogue(*getEpilogue());
      else
        error << "without an epilogue";
      return error << (expected ? " needs a " : " takes no ") << what;
    }
    if (value && failed(verifyType(*this, std::string("a ") + what, value, expected)))
      return failure();
  }
  return success();
}

AxisMap MatmulOp::getAxisMap() {
  AxisMap map = productAxisMap(getRank(getLhs()) - 2, getTransposeLhs(), getTransposeRhs());
  const bool isCall = !isPlain() && !getStreamedRows();
  enum { m, n, k };
  // What a call does besides is not done to parts of the sums; bias gradients take all rows.
  if (isCall)
    map.loops[k] = LoopKind::Opaque;
  if (getEpilogue() == Epilogue::dgelu_bgrad)
    map.loops[m] = LoopKind::Opaque;
  auto loopsOf = [](Value value) -> SmallVector<int> {
    return getRank(value) == 1 ? SmallVector<int>{n} : SmallVector<int>{m, n};
  };
  for (Value operand : {Value(getAddend()), Value(getOperand())})
    if (operand)
      map.operands.push_back(loopsOf(operand));
  if (Value extra = getExtra())
    map.results.push_back(loopsOf(extra));
  return map;
}

bool MatmulOp::hasDerivative() { return !getEpilogue() && !getStreamedRows(); }

void MatmulOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                        MutableArrayRef<Value> gradients) {
  Value g = cotangents[0], lhs = getLhs(), rhs = getRhs();
  bool tl = getTransposeLhs(), tr = getTransposeRhs();
  if (!g)
    return;
  if (getAddend() && needed[2])
    gradients[2] = g;
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

FusionRole MatmulOp::getFusionRole() {
  return getStreamedRows() ? FusionRole::Standalone : FusionRole::Library;
}
bool MatmulOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  Value value = getOperation()->getOperand(operand);
  return operand < 2 ? hasUnitStride(value, layout)
                     : trainc::train::detail::isRowMajor(value, layout);
}
bool MatmulOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  return isPlain() ? hasUnitStride(getResult(), layout)
                   : trainc::train::detail::isRowMajor(getOperation()->getResult(result), layout);
}

bool MatmulOp::isSum() { return !getEpilogue(); }
bool MatmulOp::isPlain() { return isSum() && !getAddend() && !getStreamedRows(); }
bool MatmulOp::takesAddend() { return isPlain() && getRank(getLhs()) == 2; }
bool MatmulOp::canStoreF32() { return isPlain(); }
bool MatmulOp::canStream() {
  return isSum() && !getStreamedRows() && getRank(getLhs()) == 2 && !getTransposeLhs();
}

RecomputeClass MatmulOp::getRecomputeClass() { return RecomputeClass::Costly; }
DimAttr MatmulOp::getFlops() {
  return DimAttr::constant(getContext(), 2) * cast<ContractionOpInterface>(**this).getInnerDim() *
         getNumElements(getResult().getType());
}
