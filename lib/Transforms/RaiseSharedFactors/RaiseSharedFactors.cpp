// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-shared-factors`: finds all values that have samples and heads in one axis, and
// puts heads first. The values are a web: from a matmul up and down through all ops along the axis,
// to where it is made of two and to where it becomes two again. Nothing in between changes: each op
// does for every place of the axis what it did, wherever that place is now.

#include "lib/Transforms/RaiseSharedFactors/RaiseSharedFactors.h"

#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RAISESHAREDFACTORSPASS
#include "lib/Transforms/RaiseSharedFactors/RaiseSharedFactors.h.inc"
} // namespace trainc

namespace {

/// A matmul whose right factor is the same for all samples.
struct SharedFactor {
  MatmulOp product;
  /// What is repeated.
  Value factor;
  DimAttr samples, heads;
};

/// Of matrices [samples x heads, rows, columns], as batched calls want them: a projection for each
/// head that is repeated along samples alone, in front, and then merged with them.
std::optional<SharedFactor> findSharedFactor(MatmulOp product) {
  if (!product.isPlain() || product.getTransposeLhs() || getRank(product.getResult()) != 3)
    return std::nullopt;
  auto merge = product.getRhs().getDefiningOp<ReshapeOp>();
  auto repeat = merge ? merge.getOperand().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!repeat)
    return std::nullopt;
  const SmallVector<DimAttr> repeated = getDims(repeat.getResult()),
                             factor = getDims(repeat.getOperand());
  // Along the first axis alone.
  if (ArrayRef(repeated).drop_front() != ArrayRef(factor) || repeated.front().isConstant(1))
    return std::nullopt;
  for (auto [from, to] : llvm::enumerate(repeat.getAxes()))
    if (to != int64_t(from) + 1)
      return std::nullopt;
  const DimAttr samples = repeated.front(), whole = getDim(product.getRhs(), 0);
  const DimAttr heads = divideExactly(whole, samples);
  if (!heads)
    return std::nullopt;
  return SharedFactor{product, repeat.getOperand(), samples, heads};
}

/// All values that have the merged axis, from one of them.
class MergedAxis {
public:
  MergedAxis(DimAttr samples, DimAttr heads) : samples(samples), heads(heads) {}

  /// Whether the axis may have another order; else `obstacle` is why not.
  bool find(Value value) {
    if (!add(value, 0))
      return false;
    while (!work.empty()) {
      Value next = work.pop_back_val();
      if (!visitMaker(next) || !visitReaders(next))
        return false;
    }
    return true;
  }

  bool contains(Value value) const { return axes.contains(value); }
  StringRef getObstacle() const { return obstacle; }

  /// Heads first, in all of them: both are exchanged before they are merged, and back behind where
  /// they are taken apart. Transposes that stand there already become one with these.
  void reorder(OpBuilder &builder) {
    for (auto &[merge, order] : merges) {
      TrainBuilder tb(builder, merge->getLoc());
      builder.setInsertionPoint(merge);
      Value swapped = tb.transpose(merge->getOperand(0), order);
      merge->replaceAllUsesWith(ValueRange{tb.reshape(swapped, getDims(merge->getResult(0)))});
    }
    for (auto &[part, order] : parts) {
      TrainBuilder tb(builder, part->getLoc());
      builder.setInsertionPoint(part);
      SmallVector<DimAttr> dims;
      for (int64_t axis : order)
        dims.push_back(getDim(part->getResult(0), axis));
      Value swapped = tb.reshape(part->getOperand(0), dims);
      part->replaceAllUsesWith(ValueRange{tb.transpose(swapped, order)});
    }
  }

private:
  bool fail(const Twine &why) {
    obstacle = why.str();
    return false;
  }

  /// Whether it is the same at every place of the axis: then it has no order.
  static bool isSame(Value value, int64_t axis) {
    if (getSplatValue(value))
      return true;
    auto access = value.getDefiningOp<ElementAccessOpInterface>();
    auto mapped =
        access ? dyn_cast<AxisMapOpInterface>(access.getOperation()) : AxisMapOpInterface();
    if (!mapped || !access.onlyMoves())
      return false;
    const AxisMap map = mapped.getAxisMap();
    const int loop = map.results[0][axis];
    return loop >= 0 && map.loops[loop] == LoopKind::Parallel &&
           llvm::none_of(map.operands,
                         [&](ArrayRef<int> loops) { return llvm::is_contained(loops, loop); });
  }

  bool add(Value value, int64_t axis) {
    if (isSame(value, axis))
      return true;
    auto [it, isNew] = axes.try_emplace(value, axis);
    if (isNew)
      work.push_back(value);
    // A value that has it twice is read across it.
    return it->second == axis;
  }

  /// The permutation of `apart` that exchanges samples and heads, where they are what `axis` of
  /// `merged` is; else nothing.
  std::optional<SmallVector<int64_t>> findExchange(Value apart, Value merged, int64_t axis) const {
    auto before = DimAttr::constant(apart.getContext(), 1);
    const SmallVector<DimAttr> from = getDims(apart);
    DimAttr wanted = before;
    for (DimAttr dim : ArrayRef(getDims(merged)).take_front(axis))
      wanted = wanted * dim;
    for (int64_t i = 0; i + 1 < int64_t(from.size()); ++i) {
      if (before == wanted && from[i] == samples && from[i + 1] == heads) {
        auto order = llvm::to_vector(llvm::seq<int64_t>(0, from.size()));
        std::swap(order[i], order[i + 1]);
        return order;
      }
      before = before * from[i];
    }
    return std::nullopt;
  }

  /// What makes the value: a merge ends the web, any other op is part of it.
  bool visitMaker(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def)
      return fail("an argument has samples and heads in one axis");
    const int64_t axis = axes.lookup(value);
    auto reshape = dyn_cast<ReshapeOp>(def);
    if (auto order = reshape ? findExchange(reshape.getOperand(), value, axis) : std::nullopt) {
      if (!isa_and_nonnull<TransposeOp, BroadcastOp>(reshape.getOperand().getDefiningOp()))
        return fail("what is merged is not transposed before");
      merges.try_emplace(def, *order);
      return true;
    }
    auto mapped = dyn_cast<AxisMapOpInterface>(def);
    if (!mapped)
      return fail(describeOp(def) + " does not say what it does along an axis");
    const AxisMap map = mapped.getAxisMap();
    return spread(def, map, map.results[cast<OpResult>(value).getResultNumber()][axis]);
  }

  /// What reads the value: where the axis becomes two again the web ends.
  bool visitReaders(Value value) {
    const int64_t axis = axes.lookup(value);
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      auto reshape = dyn_cast<ReshapeOp>(user);
      if (auto order = reshape ? findExchange(reshape.getResult(), value, axis) : std::nullopt) {
        auto isTranspose = [](Operation *op) { return isa<TransposeOp>(op); };
        if (!llvm::all_of(user->getUsers(), isTranspose))
          return fail("what is taken apart is not transposed behind");
        parts.try_emplace(user, *order);
        continue;
      }
      auto mapped = dyn_cast<AxisMapOpInterface>(user);
      if (!mapped)
        return fail(describeOp(user) + " does not say what it does along an axis");
      const AxisMap map = mapped.getAxisMap();
      if (!spread(user, map, map.operands[use.getOperandNumber()][axis]))
        return false;
    }
    return true;
  }

  /// To all operands and results of an op that have the loop.
  bool spread(Operation *op, const AxisMap &map, int loop) {
    // A library's mask is its own: which head has which part of it is not said.
    const bool mayBePositional = getFusionRole(op) == FusionRole::Library;
    if (loop < 0 || (map.loops[loop] != LoopKind::Parallel &&
                     !(mayBePositional && map.loops[loop] == LoopKind::Positional)))
      return fail(describeOp(op) + " depends on the order");
    // An operand without the loop is the same at every place; a result without it is a sum.
    auto addAll = [&](ValueRange values, ArrayRef<SmallVector<int>> loops, bool needed) {
      return llvm::all_of(llvm::zip_equal(values, loops), [&](auto pair) {
        auto &[value, axesOf] = pair;
        const auto *at = llvm::find(axesOf, loop);
        return at != axesOf.end() ? add(value, at - axesOf.begin()) : !needed;
      });
    };
    return (addAll(op->getOperands(), map.operands, /*needed=*/false) &&
            addAll(op->getResults(), map.results, /*needed=*/true)) ||
           fail(describeOp(op) + " depends on the order");
  }

  const DimAttr samples, heads;
  /// The merged axis of each value of the web, in the order in which they were found.
  llvm::MapVector<Value, int64_t> axes;
  SmallVector<Value> work;
  /// Where they are merged, and where they are taken apart again, with the exchange of both there.
  llvm::MapVector<Operation *, SmallVector<int64_t>> merges, parts;
  std::string obstacle;
};

struct RaiseSharedFactorsPass : trainc::impl::RaiseSharedFactorsPassBase<RaiseSharedFactorsPass> {
  using RaiseSharedFactorsPassBase::RaiseSharedFactorsPassBase;

  void runOnOperation() override {
    SmallVector<SharedFactor> found;
    getOperation()->walk([&](MatmulOp product) {
      if (std::optional<SharedFactor> factor = findSharedFactor(product))
        found.push_back(*factor);
    });
    llvm::DenseSet<Operation *> done;
    for (SharedFactor &factor : found) {
      if (done.contains(factor.product))
        continue;
      MergedAxis axis(factor.samples, factor.heads);
      if (!axis.find(factor.product.getResult())) {
        remark::missed(factor.product.getLoc(), options("NotShared"))
            << remark::add("a factor of {0} is repeated for every sample",
                           describeOp(factor.product))
            << remark::reason("{0}", axis.getObstacle());
        continue;
      }
      // Others of the same axis have the new order as well.
      SmallVector<SharedFactor> shared;
      for (SharedFactor &other : found)
        if (axis.contains(other.product.getResult()) && other.heads == factor.heads)
          shared.push_back(other);
      OpBuilder builder(factor.product);
      axis.reorder(builder);
      for (const SharedFactor &other : shared) {
        done.insert(other.product);
        multiplyOnce(other);
      }
    }
  }

private:
  static remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("raise-shared-factors");
  }

  /// The factor as a matrix for each head. Without axes of size 1 around what was transposed, so
  /// that the matmul of its gradient stores that transposed.
  static Value asMatrices(TrainBuilder &tb, Value factor, ArrayRef<DimAttr> dims) {
    auto reshape = factor.getDefiningOp<ReshapeOp>();
    auto transpose = reshape ? reshape.getOperand().getDefiningOp<TransposeOp>() : TransposeOp();
    if (!transpose)
      return tb.reshape(factor, dims);
    // Of the axes that stay: their numbers among them, their sizes, and their order.
    SmallVector<int64_t> numbers(getRank(transpose.getOperand()), -1), order;
    SmallVector<DimAttr> kept, result;
    for (auto [axis, dim] : llvm::enumerate(getDims(transpose.getOperand())))
      if (!dim.isConstant(1)) {
        numbers[axis] = kept.size();
        kept.push_back(dim);
      }
    for (int64_t axis : transpose.getPermutation())
      if (numbers[axis] >= 0) {
        order.push_back(numbers[axis]);
        result.push_back(kept[numbers[axis]]);
      }
    if (ArrayRef(result) != dims)
      return tb.reshape(factor, dims);
    return tb.transpose(tb.reshape(transpose.getOperand(), kept), order);
  }

  /// Rows of all samples of a head are one matrix.
  static void multiplyOnce(const SharedFactor &shared) {
    MatmulOp product = shared.product;
    OpBuilder builder(product);
    TrainBuilder tb(builder, product.getLoc());
    SmallVector<DimAttr> rows = getDims(product.getLhs()), factor = getDims(product.getRhs());
    rows[0] = factor[0] = shared.heads;
    rows[1] = shared.samples * rows[1];
    Value result =
        tb.matmul(tb.reshape(product.getLhs(), rows), asMatrices(tb, shared.factor, factor),
                  /*transposeLhs=*/false, product.getTransposeRhs());
    remark::passed(product.getLoc(), options("Shared")) << remark::add(
        "{0}: {1} matrices of {2} rows in place of {3} of {4}", describeOp(product), rows[0].str(),
        rows[1].str(), getDim(product.getLhs(), 0).str(), getDim(product.getLhs(), 1).str());
    product.getResult().replaceAllUsesWith(tb.reshape(result, getDims(product.getResult())));
  }
};
} // namespace
