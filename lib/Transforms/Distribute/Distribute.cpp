// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `distribute`: gradients of a rank become those of all ranks.

#include "lib/Transforms/Distribute/Distribute.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "dialects/Train/RowMoves.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Transforms/Support/StepBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_DISTRIBUTEPASS
#include "lib/Transforms/Distribute/Distribute.h.inc"
} // namespace trainc

namespace {
/// What travels together.
struct Bucket {
  bool isCut;
  Type element; ///< or that in which it is made
  SmallVector<Value> values;
  SmallVector<Type> results;
  SmallVector<int64_t> units;
  SmallVector<unsigned> arguments; ///< of @update
  int64_t bytes = 0;
};

struct DistributePass : trainc::impl::DistributePassBase<DistributePass> {
  using DistributePassBase::DistributePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto update = module.lookupSymbol<func::FuncOp>("update");
    if (!update) {
      module.emitError("expected the function @update: run attach-optimizer first");
      return signalPassFailure();
    }
    if (bucket < 1) {
      module.emitError("expected buckets of at least a byte, got ") << int64_t(bucket);
      return signalPassFailure();
    }
    if (auto gradients = module.lookupSymbol<func::FuncOp>("gradients"))
      for (unsigned i = 0; i < gradients.getNumResults(); ++i)
        if (getResultRole(gradients, i) == "update") {
          gradients.emitError("the forward pass changes '")
              << getResultName(gradients, i) << "', which each rank would do in its own way";
          return signalPassFailure();
        }
    build(module, update);
  }

private:
  /// Adds a value to the last bucket of its kind, or to a new one: that of an argument of @update,
  /// which may be a shard.
  void add(std::vector<Bucket> &buckets, unsigned argument, Value value, Type element, Type result,
           const std::optional<Shard> &shard, Type travels) {
    const bool isCut = shard.has_value();
    auto open = llvm::find_if(buckets, [&](const Bucket &one) {
      return one.isCut == isCut && one.element == element && one.bytes < bucket;
    });
    if (open == buckets.end())
      open = buckets.insert(open, {isCut, element, {}, {}, {}, {}});
    Bucket &last = *open;
    last.values.push_back(value);
    last.results.push_back(result);
    if (shard)
      last.units.push_back(shard->unit);
    last.arguments.push_back(argument);
    // Of parameters, whose sizes are known.
    last.bytes += *getBytes(travels).getConstant();
  }

  /// The type by which a gradient's bucket is chosen.
  Type typeOf(func::FuncOp gradients, StringRef name, Type accumulator) const {
    for (unsigned i = 0; narrowApart && gradients && i < gradients.getNumResults(); ++i)
      if (getResultRole(gradients, i) == "gradient" && getResultName(gradients, i) == name) {
        Value made = gradients.getBody().front().getTerminator()->getOperand(i);
        if (Operation *def = made.getDefiningOp(); isWidening(def))
          made = def->getOperand(0);
        return getElementType(made);
      }
    return getElementTypeOrSelf(accumulator);
  }

  static void addResult(StepBuilder &step, func::FuncOp update, unsigned argument, Value value) {
    Builder b(update.getContext());
    step.result(value,
                b.getDictionaryAttr(
                    {b.getNamedAttr(kRoleAttr, b.getStringAttr(getArgRole(update, argument))),
                     b.getNamedAttr(kNameAttr, b.getStringAttr(getArgName(update, argument)))}));
  }

  void build(ModuleOp module, func::FuncOp update) {
    StepBuilder step(module, "exchange", update.getLoc());
    std::vector<Bucket> buckets;
    int64_t parameters = 0;
    SmallVector<unsigned> order;
    auto gradients = module.lookupSymbol<func::FuncOp>("gradients");
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "gradient")
        order.push_back(i);
    // Sums in the place of accumulators, of which none has shards.
    const bool leavesLast = !eachMicro && llvm::none_of(order, [&](unsigned i) {
      return getShard(update, i).has_value();
    });
    // What comes last in the forward is ready first in the backward.
    std::reverse(order.begin(), order.end());
    for (unsigned i : order) {
      BlockArgument like = update.getArgument(i);
      const std::optional<Shard> shard = getShard(update, i);
      Type result = accumulatorType(like.getType());
      Type whole = shard ? accumulatorType(shard->of) : result;
      Value gradient = step.argument("gradient", getArgName(update, i), whole, like.getLoc());
      add(buckets, i, gradient, typeOf(gradients, getArgName(update, i), whole), result, shard,
          whole);
      ++parameters;
    }
    DenseMap<unsigned, Value> sums;
    int64_t bytes = 0;
    for (const Bucket &one : buckets) {
      SmallVector<Value> made = one.isCut
                                    ? buildReduceScatter(step.builder(), update.getLoc(),
                                                         one.values, one.results, one.units)
                                    : buildAllReduce(step.builder(), update.getLoc(), one.values);
      for (auto [argument, sum] : llvm::zip_equal(one.arguments, made))
        sums[argument] = sum;
      // Equal ones, of the zeros of @absent, must not become one, and each has its place there.
      made.front().getDefiningOp()->setAttr(
          kBucketAttr, step.builder().getI64IntegerAttr(&one - buckets.data()));
      bytes += one.bytes;
    }
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (Value sum = sums.lookup(i))
        addResult(step, update, i, sum);
    func::FuncOp exchange = step.finish();
    if (eachMicro)
      exchange->setAttr(kInStepAttr, step.builder().getStringAttr("micro"));
    else if (leavesLast)
      exchange->setAttr(kWithLastAttr, step.builder().getUnitAttr());
    remark::passed(update.getLoc(),
                   remark::RemarkOpts::name("Exchanged").category("distribute").function("update"))
        << remark::add("{0} bytes of gradients are summed up over all ranks: of {1} parameters, in "
                       "{2} buckets",
                       bytes, parameters, buckets.size());
    // Where each rank has shards of parameters alone, nothing is to be made of them.
    if (!holdsShards(module.lookupSymbol<func::FuncOp>("gradients")))
      publish(module, update);
  }

  /// Whether parameters are shards already.
  static bool holdsShards(func::FuncOp gradients) {
    return gradients && llvm::any_of(llvm::seq(gradients.getNumArguments()), [&](unsigned i) {
             return getShard(gradients, i).has_value();
           });
  }

  void takeShards(ModuleOp module, func::FuncOp update, ArrayRef<unsigned> shards) {
    StepBuilder step(module, "shards", update.getLoc());
    for (unsigned i : shards) {
      const Shard shard = *getShard(update, i);
      NamedAttrList attributes(update.getArgAttrDict(i));
      attributes.erase(kShardAttr);
      BlockArgument like = update.getArgument(i);
      Value whole = step.argument("parameter", getArgName(update, i), shard.of, like.getLoc(),
                                  attributes.getDictionary(update.getContext()));
      TrainBuilder tb = step.at(like.getLoc());
      addResult(step, update, i, takeShard(tb, whole, shard, getDims(like.getType())));
    }
    step.finish();
  }

  /// @shards and @publish: the parameters whose new values are in shards, before and behind the
  /// update.
  void publish(ModuleOp module, func::FuncOp update) {
    SmallVector<unsigned> shards;
    int64_t whole = 0;
    for (unsigned i = 0; i < update.getNumArguments(); ++i)
      if (getArgRole(update, i) == "parameter")
        getShard(update, i) ? shards.push_back(i) : void(++whole);
    if (shards.empty())
      return;
    takeShards(module, update, shards);
    StepBuilder step(module, "publish", update.getLoc());
    std::vector<Bucket> buckets;
    for (unsigned i : shards) {
      BlockArgument like = update.getArgument(i);
      const Shard shard = *getShard(update, i);
      Value value = step.argument("parameter", getArgName(update, i), like.getType(), like.getLoc(),
                                  update.getArgAttrDict(i));
      add(buckets, i, value, getElementType(value), shard.of, shard, shard.of);
    }
    int64_t bytes = 0;
    for (const Bucket &one : buckets) {
      for (auto [argument, value] :
           llvm::zip_equal(one.arguments, buildAllGather(step.builder(), update.getLoc(),
                                                         one.values, one.results, one.units)))
        addResult(step, update, argument, value);
      bytes += one.bytes;
    }
    step.finish();
    remark::passed(update.getLoc(),
                   remark::RemarkOpts::name("Published").category("distribute").function("update"))
        << remark::add("{0} bytes of new values are gathered from the shards of all ranks: of {1} "
                       "parameters, in {2} buckets; {3} parameters are small and stay whole",
                       bytes, shards.size(), buckets.size(), whole);
  }
};
} // namespace
