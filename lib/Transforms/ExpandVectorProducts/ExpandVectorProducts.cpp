// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `expand-vector-products`: which matmuls are products of vectors, and their parts.

#include "lib/Transforms/ExpandVectorProducts/ExpandVectorProducts.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_EXPANDVECTORPRODUCTSPASS
#include "lib/Transforms/ExpandVectorProducts/ExpandVectorProducts.h.inc"
} // namespace trainc

namespace {

/// A factor as it is written: [batch..., a, b], and which of the two is summed over.
struct Factor {
  Value value;
  int64_t summed, kept;

  DimAttr size(int64_t axis) const { return getDim(value, axis); }
};

} // namespace

static Factor getFactor(Value value, bool isTransposed, bool isLeft) {
  const int64_t rank = getRank(value);
  // [m, k] and [k, n]; transposed the other way round.
  const bool isSummedLast = isLeft != isTransposed;
  return {value, rank - (isSummedLast ? 1 : 2), rank - (isSummedLast ? 2 : 1)};
}

static bool isOne(DimAttr dim) { return dim.getConstant() == 1; }

/// Whether neighbours along `axis` lie beside each other in memory, views looked through.
static bool isInnermost(Value value, int64_t axis) {
  std::optional<StridedLayout> layout = getLayout(value, [](Operation *) { return false; });
  return layout ? layout->strides[axis].isConstant(1) : axis == getRank(value) - 1;
}

/// [batch..., its one axis that is longer than 1], where the other one is dropped.
static Value dropAxis(TrainBuilder &tb, Value value, int64_t axis) {
  SmallVector<DimAttr> dims = getDims(value);
  dims.erase(dims.begin() + axis);
  return tb.reshape(value, dims);
}

/// The product of a vector and a matrix for each of the batch, [batch..., kept of the matrix].
static Value multiplyVector(TrainBuilder &tb, const Factor &vector, Factor matrix, Type sums) {
  const int64_t last = getRank(matrix.value) - 1;
  SmallVector<int64_t> batch = llvm::to_vector(llvm::seq<int64_t>(last - 1));
  // Rows of what is summed up where they lie in one piece, else sums down the columns.
  const int64_t summed = isInnermost(matrix.value, matrix.summed) ? last : last - 1;
  if (matrix.summed != summed) {
    SmallVector<int64_t> swapped = batch;
    swapped.append({last, last - 1});
    matrix.value = tb.transpose(matrix.value, swapped);
  }
  Value wide = tb.cast(matrix.value, sums);
  SmallVector<int64_t> axes = batch;
  axes.push_back(summed);
  Value factor = tb.cast(dropAxis(tb, vector.value, vector.kept), sums);
  return tb.sum(tb.mul(tb.broadcast(factor, getDims(wide), axes), wide), {summed});
}

/// Every element of one with every element of the other: nothing is summed up.
static Value multiplyOuter(TrainBuilder &tb, const Factor &lhs, const Factor &rhs,
                           ArrayRef<DimAttr> dims, Type sums) {
  const int64_t last = int64_t(dims.size()) - 1;
  auto spread = [&](const Factor &factor, int64_t axis) {
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(last - 1));
    axes.push_back(axis);
    return tb.broadcast(tb.cast(dropAxis(tb, factor.value, factor.summed), sums), dims, axes);
  };
  return tb.mul(spread(lhs, last - 1), spread(rhs, last));
}

/// Null where both factors are matrices.
static Value expand(TrainBuilder &tb, ContractionOpInterface product) {
  Value result = product->getResult(0);
  const SmallVector<DimAttr> dims = getDims(result);
  const Factor lhs = getFactor(product.getLhs(), product.getTransposeLhs(), /*isLeft=*/true);
  const Factor rhs = getFactor(product.getRhs(), product.getTransposeRhs(), /*isLeft=*/false);
  Type type = getElementType(lhs.value);
  Type sums = type.isF64() ? type : tb.b().getF32Type();
  Value parts;
  if (isOne(lhs.size(lhs.summed)))
    parts = multiplyOuter(tb, lhs, rhs, dims, sums);
  else if (isOne(lhs.size(lhs.kept)))
    parts = multiplyVector(tb, lhs, rhs, sums);
  else if (isOne(rhs.size(rhs.kept)))
    parts = multiplyVector(tb, rhs, lhs, sums);
  else
    return {};
  return tb.reshape(tb.cast(parts, getElementType(result)), dims);
}

namespace {
struct ExpandVectorProductsPass
    : trainc::impl::ExpandVectorProductsPassBase<ExpandVectorProductsPass> {
  using ExpandVectorProductsPassBase::ExpandVectorProductsPassBase;

  void runOnOperation() override {
    SmallVector<ContractionOpInterface> products;
    getOperation()->walk([&](ContractionOpInterface op) {
      // Of a matrix alone libraries make something.
      if (op.isPlain() && getRank(op.getLhs()) > 2)
        products.push_back(op);
    });
    for (ContractionOpInterface product : products) {
      OpBuilder builder(product);
      TrainBuilder tb(builder, product->getLoc());
      Value parts = expand(tb, product);
      if (!parts)
        continue;
      remark::passed(product->getLoc(),
                     remark::RemarkOpts::name("Expanded").category("expand-vector-products"))
          << remark::add("{0} of vectors is made of multiplications and sums", describeOp(product));
      product->getResult(0).replaceAllUsesWith(parts);
      product->erase();
    }
  }
};
} // namespace
