// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products. Leading axes against one matrix are folded into rows, and a transpose of the
// last two axes becomes a flag, so that every product is one plain library call.

#include "NodeContext.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Looks through a transpose of the last two axes; tells whether there was one.
static bool takeTranspose(Value &x) {
  auto transpose = x.getDefiningOp<train::TransposeOp>();
  if (!transpose)
    return false;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  for (int64_t i = 0; i + 2 < rank; ++i)
    if (permutation[i] != i)
      return false;
  if (rank < 2 || permutation[rank - 1] != rank - 2)
    return false;
  x = transpose.getOperand();
  return true;
}

static LogicalResult matmul(NodeContext &c) {
  if (!isa<FloatType>(c.element(0)) || c.element(0) != c.element(1))
    return c.fail("only products of floats of one type are supported");
  if (c.rank(0) == 0 || c.rank(1) == 0)
    return c.fail("its operands need at least one axis");
  TrainBuilder &tb = c.tb;
  Value lhs = c.tensor(0), rhs = c.tensor(1);
  Dims left = c.dims(0), right = c.dims(1);
  bool leftVector = left.size() == 1, rightVector = right.size() == 1;
  if (leftVector)
    left.insert(left.begin(), c.dim(1));
  if (rightVector)
    right.push_back(c.dim(1));
  if (left.back() != right[right.size() - 2])
    return c.fail("its inner sizes '" + left.back().str() + "' and '" +
                  right[right.size() - 2].str() + "' differ");
  lhs = tb.reshape(lhs, left);
  rhs = tb.reshape(rhs, right);
  Dims result(left.begin(), left.end() - 1);
  Value product;
  if (right.size() == 2) {
    // [a, b, k] x [k, n]: rows are all leading axes.
    if (left.size() > 2)
      lhs = tb.reshape(lhs, {train::product(c.context(), result), left.back()});
    bool transposed = takeTranspose(rhs);
    product = tb.matmul(lhs, rhs, false, transposed);
    result.push_back(right.back());
  } else {
    std::optional<Dims> batch =
        c.broadcastDims({Dims(left.begin(), left.end() - 2), Dims(right.begin(), right.end() - 2)});
    if (!batch)
      return failure();
    result = *batch;
    auto grow = [&](Value x, ArrayRef<DimAttr> own) {
      Dims dims = *batch;
      dims.append(own.end() - 2, own.end());
      return c.broadcastTo(x, dims);
    };
    lhs = grow(lhs, left);
    rhs = grow(rhs, right);
    bool transposedLhs = takeTranspose(lhs), transposedRhs = takeTranspose(rhs);
    product = tb.matmul(lhs, rhs, transposedLhs, transposedRhs);
    result.append({left[left.size() - 2], right.back()});
  }
  if (rightVector)
    result.pop_back();
  if (leftVector)
    result.erase(result.end() - (rightVector ? 1 : 2));
  return c.set(tb.reshape(product, result));
}

static LogicalResult gemm(NodeContext &c) {
  if (c.rank(0) != 2 || c.rank(1) != 2 || !isa<FloatType>(c.element(0)) ||
      c.element(1) != c.element(0) || (c.has(2) && c.element(2) != c.element(0)))
    return c.fail("it needs two float matrices, and a bias of their type");
  TrainBuilder &tb = c.tb;
  bool transA = c.attr("transA", int64_t(0)), transB = c.attr("transB", int64_t(0));
  if (c.dims(0)[transA ? 0 : 1] != c.dims(1)[transB ? 1 : 0])
    return c.fail("its inner sizes '" + c.dims(0)[transA ? 0 : 1].str() + "' and '" +
                  c.dims(1)[transB ? 1 : 0].str() + "' differ");
  Value a = c.tensor(0), b = c.tensor(1);
  transA ^= takeTranspose(a);
  transB ^= takeTranspose(b);
  Value y = tb.matmul(a, b, transA, transB);
  double alpha = c.attr("alpha", 1.0), beta = c.attr("beta", 1.0);
  if (alpha != 1)
    y = tb.mul(y, tb.scalarLike(y, alpha));
  if (c.has(2) && beta != 0) {
    Dims dims = train::getDims(y);
    std::optional<Dims> common = c.broadcastDims({dims, c.dims(2)});
    if (!common)
      return failure();
    if (*common != dims)
      return c.fail("its bias does not fit the product");
    Value bias = c.tensor(2);
    if (beta != 1)
      bias = tb.mul(bias, tb.scalarLike(bias, beta));
    y = tb.add(y, c.broadcastTo(bias, dims));
  }
  return c.set(y);
}

void registerLinear(HandlerTable &table) {
  table.add("MatMul", matmul, 2);
  table.add("Gemm", gemm, 2);
}

} // namespace trainc::legalize
