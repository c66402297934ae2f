// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `accumulate-products`: every sum, in program order, so that a sum of sums finds what its
// parts have become.

#include "lib/Transforms/AccumulateProducts/AccumulateProducts.h"

#include "dialects/Train/RowMoves.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ACCUMULATEPRODUCTSPASS
#include "lib/Transforms/AccumulateProducts/AccumulateProducts.h.inc"
} // namespace trainc

/// The matmul, or the last of a chain of such that are added to each other, that a sum's operand
/// is, and nothing but the sum reads; else null.
/// Each link has the sum as its one reader: what else reads it would see the matmul without the
/// addend.
static ContractionOpInterface productOf(Value value) {
  while (value.hasOneUse()) {
    Operation *def = value.getDefiningOp();
    // An addend makes it the last of a chain, which can still be added to something.
    if (auto product = dyn_cast_or_null<ContractionOpInterface>(def))
      return product.takesAddend() || product.getAddend() ? product : nullptr;
    if (!def || (!isWidening(def) && !keepsColumns(def)))
      return nullptr;
    value = def->getOperand(0);
  }
  return nullptr;
}

namespace {
/// Parameters of branches that are to stay as they are.
/// Users may ask for branches apart, to compare or to merge them by themselves: their names are an
/// attribute of the module.
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
  /// Only the two factors: an addend is another matmul's.
  bool isOf(Operation *product) const {
    return !parameters.empty() && llvm::any_of(product->getOperands().take_front(2),
                                               [&](Value factor) { return isMadeOfOne(factor); });
  }

private:
  bool isMadeOfOne(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      Value from;
      // Constants beside it (scales) do not count.
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
static bool isShallower(ContractionOpInterface product, ContractionOpInterface other) {
  std::optional<int64_t> size = product.getInnerDim().getConstant(),
                         otherSize = other.getInnerDim().getConstant();
  return size && otherSize && *size < *otherSize;
}

namespace {
/// Where in the block operations are. The block's own order is made anew after each move, which
/// takes as long as the block has operations.
class Positions {
public:
  explicit Positions(Block &block) {
    for (auto [position, op] : llvm::enumerate(block))
      positions[&op] = position;
  }
  bool isBefore(Operation *first, Operation *second) const {
    return positions.at(first) < positions.at(second);
  }
  /// Before `sum`, which is erased later, so that the moved operation alone has its position.
  void moveBefore(Operation *op, AddOp sum) {
    op->moveBefore(sum);
    positions[op] = positions.at(sum);
  }

private:
  DenseMap<Operation *, size_t> positions;
};
} // namespace

/// `product` + addend, computed where `sum` is.
static void addTo(ContractionOpInterface product, Value addend, AddOp sum, Positions &positions) {
  // Only values before the sum are operands of it, so moving the matmul down to it breaks no
  // order, and up is never needed.
  product.getAddendMutable().assign(addend);
  positions.moveBefore(product, sum);
  product->setLoc(FusedLoc::get(sum.getContext(), {product.getLoc(), sum.getLoc()}));
}

/// Adds `product` in front of a chain of sums instead of to its end, if its first matmul is the
/// deeper one.
/// False if the chain's first matmul takes no addend, or is not deeper. The links move behind the
/// root in their order.
static bool putInFront(ContractionOpInterface product, ContractionOpInterface chain, AddOp sum,
                       Positions &positions) {
  SmallVector<ContractionOpInterface> links{chain};
  // Up to the chain's first matmul, which has no addend.
  while (Value addend = links.back().getAddend()) {
    auto link = addend.getDefiningOp<ContractionOpInterface>();
    // A link that is read elsewhere must stay where it is.
    if (!link || !addend.hasOneUse())
      return false;
    links.push_back(link);
  }
  ContractionOpInterface root = links.pop_back_val();
  if (!root.takesAddend() || !isShallower(product, root))
    return false;
  addTo(root, product->getResult(0), sum, positions);
  for (ContractionOpInterface link : llvm::reverse(links))
    positions.moveBefore(link, sum);
  return true;
}

static remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("accumulate-products");
}

static void accumulate(AddOp sum, const UnfusedBranches &unfused, Positions &positions) {
  ContractionOpInterface first = productOf(sum.getLhs()), second = productOf(sum.getRhs());
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
  // `first` is what is complete before: a chain, else the earlier one in the program.
  if (second.getAddend() || (!first.getAddend() && positions.isBefore(second, first)))
    std::swap(first, second);
  if (first.takesAddend() && isShallower(second, first))
    std::swap(first, second);
  if (!second.takesAddend())
    return decline("each is the end of a chain of sums");
  const Location loc = FusedLoc::get(sum.getContext(), {second.getLoc(), sum.getLoc()});
  remark::passed(sum.getLoc(), options("Accumulated"))
      << remark::add("{0} is added to {1} as it is stored", describeOp(second), describeOp(first));
  assert(second.takesAddend() && "asked before");
  ContractionOpInterface last = first;
  if (!first.getAddend() || !putInFront(second, first, sum, positions)) {
    addTo(second, first->getResult(0), sum, positions);
    last = second;
  }
  OpBuilder builder(sum);
  TrainBuilder tb(builder, loc);
  // Between matmul and sum there may have been views and widening casts: the sum's shape and type
  // come last.
  Value result = tb.cast(tb.reshape(last->getResult(0), getDims(sum.getResult())),
                         getElementTypeOrSelf(sum.getResult().getType()));
  sum.getResult().replaceAllUsesWith(result);
  SmallVector<Value> parts(sum->getOperands());
  sum.erase();
  // Views and casts of the parts that nobody reads any more; the matmuls themselves stay.
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
    // Asked once for the function.
    const UnfusedBranches unfused(getOperation());
    run(getOperation().getBody().front(), unfused);
  }

private:
  /// Of each body by itself: what is added lies in one block.
  static void run(Block &block, const UnfusedBranches &unfused) {
    SmallVector<AddOp> sums;
    for (Operation &op : block) {
      if (auto sum = dyn_cast<AddOp>(op))
        sums.push_back(sum);
      for (Region &region : op.getRegions())
        run(region.front(), unfused);
    }
    Positions positions(block);
    for (AddOp sum : sums)
      accumulate(sum, unfused, positions);
    eraseDeadOps(block);
  }
};
} // namespace
