// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-lora`: what kind of projection each branch belongs to, then one matmul for the
// A's of each input.

#include "lib/Transforms/FuseLora/FuseLora.h"

#include "dialects/Train/RowMoves.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FUSELORAPASS
#include "lib/Transforms/FuseLora/FuseLora.h.inc"
} // namespace trainc

static remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("fuse-lora").function("forward");
}

/// Whether one of the loops is missing in the others.
static bool hasAxisThatLacks(ArrayRef<int> axes, ArrayRef<int> others) {
  return llvm::any_of(axes,
                      [&](int loop) { return loop >= 0 && !llvm::is_contained(others, loop); });
}

/// The two operands of a matmul: it sums over an axis of both, and each has an axis of its own,
/// unlike a norm and its weights.
/// Opaque loops (a convolution's window) sum as well.
static std::optional<std::pair<Value, Value>> factorsOf(Operation *op) {
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped)
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  auto sumsOver = [&](int loop) {
    return loop >= 0 &&
           (map.loops[loop] == LoopKind::Reduction || map.loops[loop] == LoopKind::Opaque);
  };
  for (auto [i, left] : llvm::enumerate(map.operands))
    for (auto [j, right] : llvm::enumerate(map.operands))
      if (hasAxisThatLacks(left, right) && hasAxisThatLacks(right, left) &&
          llvm::any_of(left, [&, right = ArrayRef(right)](int loop) {
            return sumsOver(loop) && llvm::is_contained(right, loop);
          }))
        return std::pair(op->getOperand(i), op->getOperand(j));
  return std::nullopt;
}

namespace {

/// Where projections stand to matmuls of activations, which are attention's.
/// Forwards for what is made of attention's matmuls, backwards for what is read on the way to one;
/// projections are boundaries in both.
class Kinds {
public:
  explicit Kinds(func::FuncOp forward) {
    Block &block = forward.getBody().front();
    for (BlockArgument argument : forward.getArguments())
      if (getArgRole(forward, argument.getArgNumber()) == "parameter")
        weights.insert(argument);
    DenseSet<Operation *> projections, products;
    auto isIn = [](const DenseSet<Value> &values) {
      return [&values](Value value) { return values.contains(value); };
    };
    // Operands come first: weights are known when their matmuls are looked at.
    for (Operation &op : block) {
      if (llvm::all_of(op.getOperands(), isIn(weights))) {
        weights.insert(op.result_begin(), op.result_end());
      } else if (auto factors = factorsOf(&op)) {
        const bool projects = weights.contains(factors->first) || weights.contains(factors->second);
        (projects ? projections : products).insert(&op);
      }
      if (!projections.contains(&op) &&
          (products.contains(&op) || llvm::any_of(op.getOperands(), isIn(ofProduct))))
        ofProduct.insert(op.result_begin(), op.result_end());
    }
    for (Operation &op : llvm::reverse(block))
      if (!projections.contains(&op) &&
          (products.contains(&op) || llvm::any_of(op.getResults(), isIn(isFactor))))
        isFactor.insert(op.operand_begin(), op.operand_end());
  }
  /// Not of parameters alone, as for the norm of what weights and branch add up to.
  bool isOfActivations(const Projection &projection) const {
    return !weights.contains(projection.input->get());
  }
  /// In this order: what feeds attention first, what reads it then; all else is of an MLP.
  StringRef of(const Projection &projection) const {
    if (isFactor.contains(projection.op->getResult(0)))
      return "qkv";
    return ofProduct.contains(projection.input->get()) ? "o" : "mlp";
  }

private:
  /// Made of parameters alone.
  DenseSet<Value> weights;
  /// Made of such a matmul, and read on the way to one, with no projection in between.
  DenseSet<Value> ofProduct, isFactor;
};

struct FuseLoraPass : trainc::impl::FuseLoraPassBase<FuseLoraPass> {
  using FuseLoraPassBase::FuseLoraPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    auto lora = getOperation()->getAttrOfType<DictionaryAttr>(kLoraAttr);
    if (!forward || !lora) {
      getOperation().emitError("fuse-lora: expected the function @forward, with branches");
      return signalPassFailure();
    }
    // Checked before anything is changed.
    for (const std::string &kind : kinds)
      if (kind != "mlp" && kind != "qkv" && kind != "o") {
        getOperation().emitError("fuse-lora: '" + kind +
                                 "' is no kind of projection; there are mlp, qkv and o");
        return signalPassFailure();
      }
    Kinds kindOf(forward);
    SmallVector<Projection> projections = findProjections(forward);
    llvm::erase_if(projections, [&](const Projection &projection) {
      return !kindOf.isOfActivations(projection);
    });
    // By the name of the weight, as the module's attribute has it.
    llvm::StringMap<StringRef> kindOfWeight;
    for (const Projection &projection : projections)
      kindOfWeight.try_emplace(nameOf(forward, projection), kindOf.of(projection));

    llvm::StringMap<StringRef> pathOfA;
    SmallVector<StringRef> unfused;
    for (auto module : lora.getAs<ArrayAttr>("modules").getAsRange<DictionaryAttr>()) {
      auto text = [&](StringRef key) { return module.getAs<StringAttr>(key).getValue(); };
      auto kind = kindOfWeight.find(text("weight"));
      if (kind == kindOfWeight.end()) // an embedding
        continue;
      if (llvm::is_contained(kinds, kind->second))
        pathOfA[text("a")] = text("path");
      else
        unfused.append({text("a"), text("b")});
    }
    if (!unfused.empty())
      getOperation()->setAttr(kUnfusedBranchesAttr,
                              Builder(&getContext()).getStrArrayAttr(unfused));

    // Grouped by input: MapVector, in the order of the first reader.
    llvm::MapVector<Value, SmallVector<Projection>> readers;
    // To be put side by side, the A's have rank rows, and their input is one of rows.
    for (const Projection &projection : projections)
      if (auto path = pathOfA.find(nameOf(forward, projection)); path == pathOfA.end())
        continue;
      else if (projection.outAxis == 0 && getRank(projection.input->get()) == 2)
        readers[rowsOf(projection)].push_back(projection);
      else // of the graph's own
        remark::missed(projection.op->getLoc(), options("NotShared"))
            << remark::add("the branch at '{0}' has a matmul of its own", path->second)
            << remark::reason("its matrix is stored transposed, or its input is not one of rows");
    for (auto &[input, group] : readers)
      if (group.size() > 1)
        share(group, forward, pathOfA);
      else
        remark::missed(group.front().op->getLoc(), options("NotShared"))
            << remark::add("the branch at '{0}' has a matmul of its own",
                           pathOfA.lookup(nameOf(forward, group.front())))
            << remark::reason("no other branch reads the same input");
    eraseDeadOps(forward.getBody().front());
  }

private:
  static StringRef nameOf(func::FuncOp forward, const Projection &projection) {
    return getArgName(forward, projection.weight.getArgNumber());
  }
  /// What the projection reads, before rows are put together.
  static Value rowsOf(const Projection &projection) {
    Value input = projection.input->get();
    return keepsColumns(input.getDefiningOp()) ? input.getDefiningOp()->getOperand(0) : input;
  }

  /// One matmul for all A's of an input, whose results are split. Where the first reader stands:
  /// the input is there, and the A's are arguments.
  static void share(ArrayRef<Projection> group, func::FuncOp forward,
                    const llvm::StringMap<StringRef> &paths) {
    const Projection &first = group.front();
    OpBuilder builder(first.op);
    SmallVector<Location> locations;
    std::string names;
    for (const Projection &projection : group) {
      locations.push_back(projection.op->getLoc());
      names +=
          (names.empty() ? "'" : ", '") + paths.lookup(nameOf(forward, projection)).str() + "'";
    }
    TrainBuilder tb(builder, builder.getFusedLoc(locations));
    Value rows = first.input->get();
    Type element = getElementTypeOrSelf(rows.getType());
    SmallVector<Value> matrices;
    SmallVector<DimAttr> ranks;
    for (const Projection &projection : group) {
      matrices.push_back(tb.cast(projection.weight, element));
      ranks.push_back(projection.out());
    }
    // Rows of the A's behind each other: each output column is the sum that it was, in the same
    // order.
    Value low = tb.matmul(rows, tb.concat(matrices, 0), false, true);
    for (auto [projection, part] : llvm::zip_equal(group, tb.split(low, 1, ranks))) {
      Value result = projection.op->getResult(0);
      result.replaceAllUsesWith(tb.reshape(part, getDims(result)));
    }
    remark::passed(first.op->getLoc(), options("Shared"))
        << remark::add("the branches at {0} multiply their input once", names);
  }
};
} // namespace
