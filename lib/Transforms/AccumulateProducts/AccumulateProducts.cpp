// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `accumulate-products`: every sum, in program order, so that a sum of sums finds what its
// parts have become.

#include "lib/Transforms/AccumulateProducts/AccumulateProducts.h"

#include "dialects/Train/RowIdioms.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/Support/Projections.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/DeadOps.h"
#include "trainc/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ACCUMULATEPRODUCTSPASS
#include "lib/Transforms/AccumulateProducts/AccumulateProducts.h.inc"
} // namespace trainc

/// The product of two matrices, or of such with what it is added to, that a sum's operand is, and
/// nothing but the sum reads; else null.
static Operation *productOf(Value value) {
  while (value.hasOneUse()) {
    Operation *def = value.getDefiningOp();
    if (!def)
      return nullptr;
    if (isa<MatmulOp>(def))
      return getRank(value) == 2 ? def : nullptr;
    if (auto fused = dyn_cast<FusedMatmulOp>(def))
      return fused.getEpilogue() == Epilogue::add ? def : nullptr;
    if (!isWidening(def) && !keepsColumns(def))
      return nullptr;
    value = def->getOperand(0);
  }
  return nullptr;
}

namespace {
/// Parameters of branches that are to stay as they are.
class UnfusedBranches {
public:
  explicit UnfusedBranches(func::FuncOp function) {
    auto module = function->getParentOfType<ModuleOp>();
    auto names = module ? module->getAttrOfType<ArrayAttr>(kUnfusedBranchesAttr) : ArrayAttr();
    for (BlockArgument argument : function.getArguments())
      if (names && getArgRole(function, argument.getArgNumber()) == "parameter" &&
          llvm::is_contained(names, StringAttr::get(function.getContext(),
                                                    getArgName(function, argument.getArgNumber()))))
        parameters.insert(argument);
  }
  /// Whether a factor is made of one alone.
  bool isOf(Operation *product) const {
    return !parameters.empty() && llvm::any_of(product->getOperands().take_front(2),
                                               [&](Value factor) { return isMadeOfOne(factor); });
  }

private:
  bool isMadeOfOne(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      Value from;
      for (Value operand : def->getOperands())
        if (Operation *other = operand.getDefiningOp(); !other || other->getNumOperands())
          if (std::exchange(from, operand))
            return false;
      if (!from)
        return false;
      value = from;
    }
    return parameters.contains(value);
  }
  DenseSet<Value> parameters;
};
} // namespace

/// Whether `product` sums over fewer than `other`, as a low-rank branch. Such a one is bound by
/// what it stores, and better stored first: what is then added to it is not read again for its
/// sake, but reads it while it multiplies; and what is rounded in between is the smaller part.
static bool isShallower(Operation *product, Operation *other) {
  std::optional<int64_t> size = getInnerSize(product), otherSize = getInnerSize(other);
  return size && otherSize && *size < *otherSize;
}

/// p + addend, at the builder's place.
static FusedMatmulOp addTo(OpBuilder &builder, Location loc, Value addend, MatmulOp product) {
  return FusedMatmulOp::create(builder, loc, product.getResult().getType(), Type(), Epilogue::add,
                               product.getLhs(), product.getRhs(), addend,
                               product.getTransposeLhs(), product.getTransposeRhs());
}

/// Adds `product` in front of a chain of sums instead of to its end, if its first product is the
/// deeper one.
static bool putInFront(MatmulOp product, FusedMatmulOp chain, AddOp sum) {
  SmallVector<Operation *> links{chain};
  while (auto link = dyn_cast<FusedMatmulOp>(links.back()))
    links.push_back(link.getOperand().getDefiningOp());
  auto root = cast<MatmulOp>(links.pop_back_val());
  if (!isShallower(product, root))
    return false;
  OpBuilder builder(sum);
  FusedMatmulOp first =
      addTo(builder, FusedLoc::get(sum.getContext(), {root.getLoc(), sum.getLoc()}), product, root);
  root.getResult().replaceAllUsesWith(first.getResult());
  for (Operation *link : llvm::reverse(links))
    link->moveBefore(sum);
  return true;
}

static remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("accumulate-products");
}

static void accumulate(AddOp sum, const UnfusedBranches &unfused) {
  Operation *first = productOf(sum.getLhs()), *second = productOf(sum.getRhs());
  if (!first || !second || first == second)
    return;
  auto decline = [&](StringRef reason) {
    remark::missed(sum.getLoc(), options("NotAccumulated"))
        << remark::add("{0} and {1} are stored before they are added", describeOp(first),
                       describeOp(second))
        << remark::reason("{0}", reason);
  };
  if (unfused.isOf(first) || unfused.isOf(second))
    return decline("one is of a low-rank branch that is to stay apart");
  if (first->getResult(0).getType() != second->getResult(0).getType())
    return decline("they are of other types or shapes");
  if (isa<FusedMatmulOp>(second) || (isa<MatmulOp>(first) && second->isBeforeInBlock(first)))
    std::swap(first, second);
  if (isa<MatmulOp>(first) && isShallower(second, first))
    std::swap(first, second);
  auto product = dyn_cast<MatmulOp>(second);
  if (!product)
    return decline("each is the end of a chain of sums");
  OpBuilder builder(sum);
  Location loc = FusedLoc::get(sum.getContext(), {product.getLoc(), sum.getLoc()});
  auto chain = dyn_cast<FusedMatmulOp>(first);
  if (!chain || !putInFront(product, chain, sum))
    chain = addTo(builder, loc, first->getResult(0), product);
  TrainBuilder tb(builder, loc);
  Value result = tb.cast(tb.reshape(chain.getResult(), getDims(sum.getResult())),
                         getElementTypeOrSelf(sum.getResult().getType()));
  remark::passed(sum.getLoc(), options("Accumulated"))
      << remark::add("{0} is added to {1} as it is stored", describeOp(product), describeOp(first));
  sum.getResult().replaceAllUsesWith(result);
  SmallVector<Value> parts(sum->getOperands());
  sum.erase();
  for (Value part : parts)
    for (Operation *def = part.getDefiningOp();
         def->use_empty() && (isWidening(def) || keepsColumns(def)); def = part.getDefiningOp()) {
      part = def->getOperand(0);
      def->erase();
    }
}

namespace {
struct AccumulateProductsPass : trainc::impl::AccumulateProductsPassBase<AccumulateProductsPass> {
  using AccumulateProductsPassBase::AccumulateProductsPassBase;

  void runOnOperation() override {
    SmallVector<AddOp> sums;
    getOperation()->walk([&](AddOp op) { sums.push_back(op); });
    UnfusedBranches unfused(getOperation());
    for (AddOp sum : sums)
      accumulate(sum, unfused);
    eraseDeadOps(getOperation().getBody().front());
  }
};
} // namespace
