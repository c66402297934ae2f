// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `widen-products`: from a matmul through views to the casts that read it.

#include "lib/Transforms/WidenProducts/WidenProducts.h"

#include "dialects/Train/RowMoves.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_WIDENPRODUCTSPASS
#include "lib/Transforms/WidenProducts/WidenProducts.h.inc"
} // namespace trainc

/// Whether nothing but casts to f32 reads `value`, views looked through; finds both.
static bool isReadInF32(Value value, SmallVectorImpl<Operation *> &views,
                        SmallVectorImpl<Operation *> &casts) {
  // A value without readers is not worth f32.
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isWidening(user) && getElementType(user->getResult(0)).isF32()) {
      casts.push_back(user);
      return true;
    }
    if (!isa<StridedViewOpInterface>(user) || user->getNumOperands() != 1)
      return false;
    views.push_back(user);
    return isReadInF32(user->getResult(0), views, casts);
  });
}

/// Whether the result is small beside the operands: of known size, and its shorter side is short
/// beside the axis that is summed over, where that is no number of tokens.
static bool isSlim(ContractionOpInterface product, int64_t maxSide) {
  int64_t shorter = std::numeric_limits<int64_t>::max();
  const SmallVector<DimAttr> dims = getDims(product->getResult(0));
  // The last two axes: a batch may be any size.
  for (DimAttr dim : ArrayRef(dims).take_back(2)) {
    std::optional<int64_t> size = dim.getConstant();
    if (!size)
      return false;
    shorter = std::min(shorter, *size);
  }
  // An eighth of the sum at most: storing wide is then little beside reading.
  if (std::optional<int64_t> inner = product.getInnerDim().getConstant())
    maxSide = std::min(maxSide, *inner / 8);
  return shorter <= maxSide;
}

namespace {
struct WidenProductsPass : trainc::impl::WidenProductsPassBase<WidenProductsPass> {
  using WidenProductsPassBase::WidenProductsPassBase;

  void runOnOperation() override {
    SmallVector<Operation *> products;
    getOperation()->walk([&](ContractionOpInterface op) {
      // Only matmuls whose library call can store what it has summed up.
      if (op.canStoreF32() && isSlim(op, maxSide))
        products.push_back(op);
    });
    llvm::for_each(products, widen);
  }

private:
  static remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("widen-products");
  }
  static void widen(Operation *product) {
    SmallVector<Operation *> views, casts;
    if (!isReadInF32(product->getResult(0), views, casts)) {
      if (llvm::any_of(product->getUsers(), [](Operation *user) { return isWidening(user); }))
        remark::missed(product->getLoc(), options("NotWidened"))
            << remark::add("{0} is rounded before it is read", describeOp(product))
            << remark::reason("not only casts to f32 read it");
      return;
    }
    // Views have the type of what they view, so all change together; casts fall away.
    views.push_back(product);
    Type f32 = Float32Type::get(product->getContext());
    for (Operation *op : views) {
      Value result = op->getResult(0);
      result.setType(getTensorType(getDims(result), f32));
    }
    for (Operation *cast : casts) {
      cast->replaceAllUsesWith(cast->getOperands());
      cast->erase();
    }
    remark::passed(product->getLoc(), options("Widened"))
        << remark::add("{0} is stored in f32, as it is read", describeOp(product));
  }
};
} // namespace
