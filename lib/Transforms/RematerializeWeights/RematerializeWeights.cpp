// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `rematerialize-weights`: one walk finds what is made of frozen parameters only, another
// copies it in front of its readers.

#include "lib/Transforms/RematerializeWeights/RematerializeWeights.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Conversion/QuantizedWeights.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_REMATERIALIZEWEIGHTSPASS
#include "lib/Transforms/RematerializeWeights/RematerializeWeights.h.inc"
} // namespace trainc

namespace {

/// On a barrier: which one it is of those of a value.
constexpr llvm::StringLiteral kPlaceAttr = "train.place";

/// Bytes of a tensor; 0 where its size is not known.
int64_t bytesOf(Value value) { return getBytes(value.getType()).getConstant().value_or(0); }

/// Copies, in front of each reader, of what is made of frozen parameters and is larger than these:
/// in memory only while it is read. The same of what is made of shards.
class RematerializeWeights {
public:
  RematerializeWeights(func::FuncOp function, bool frozen, bool shards)
      : function(function), builder(function.getContext()), takesFrozen(frozen),
        takesShards(shards) {}

  void run() {
    findFrozen();
    SmallVector<Value> exits;
    // Exits are values outside of which the weight is used.
    for (Operation &op : function.getBody().front())
      if (made.contains(&op))
        for (Value result : op.getResults()) {
          // What is smaller than its sources is better kept than made again.
          if (bytesOf(result) > sourceBytes(result))
            exits.push_back(result);
          else if (takesFrozen &&
                   llvm::any_of(result.getUsers(), [&](Operation *user) { return reads(user); }))
            remark::missed(result.getLoc(), options("NotCopied"))
                << remark::add("{0} is made once", describeOp(&op))
                << remark::reason("it takes no more memory than the parameters that it is made of");
        }
    groupReaders(exits);
    for (Value value : exits)
      isOfShards(value) ? gatherFor(value) : copyFor(value);
    eraseDeadOps(function.getBody().front());
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("rematerialize-weights")
        .function(function.getName());
  }
  /// Whether a user of a weight is no part of what makes weights.
  bool reads(Operation *user) const { return !made.contains(user); }

  /// Ops all of whose operands are frozen parameters, constants, or results of such ops.
  /// Also nothing that the function itself updates (running statistics).
  void findFrozen() {
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto updates = function.getResultAttrOfType<StringAttr>(i, kUpdatesAttr);
      if (updates && updates.getValue() == "parameter")
        changedNames.insert(getResultName(function, i));
    }
    // Random numbers and state would differ between copies; and what other functions find by its
    // number is made once.
    for (Operation &op : function.getBody().front().without_terminator())
      if (isMemoryEffectFree(&op) && !op.hasAttr(kBucketAttr) &&
          llvm::all_of(op.getOperands(), [&](Value operand) { return isFrozen(operand); }))
        made.insert(&op);
  }
  /// In program order: what makes an operand has been decided.
  bool isFrozen(Value value) {
    if (Operation *def = value.getDefiningOp())
      return made.contains(def);
    unsigned number = cast<BlockArgument>(value).getArgNumber();
    // A step changes it behind all that reads it.
    if (getArgRole(function, number) == "parameter" && getShard(function, number))
      return takesShards;
    return takesFrozen && getArgRole(function, number) == "parameter" &&
           !function.getArgAttr(number, kTrainableAttr) &&
           !changedNames.contains(getArgName(function, number));
  }

  /// The op of a value and what that is made of.
  static llvm::SetVector<Operation *> makersOf(Value value) {
    llvm::SetVector<Operation *> makers;
    BackwardSliceOptions options;
    options.inclusive = true;
    (void)getBackwardSlice(value, &makers, options);
    return makers;
  }
  /// Bytes of the parameters that a value is made of; the largest number where there are none.
  static int64_t sourceBytes(Value value) {
    llvm::SmallPtrSet<Value, 8> parameters;
    for (Operation *op : makersOf(value))
      for (Value operand : op->getOperands())
        if (isa<BlockArgument>(operand))
          parameters.insert(operand);
    int64_t bytes = 0;
    for (Value parameter : parameters)
      bytes += bytesOf(parameter);
    return parameters.empty() ? std::numeric_limits<int64_t>::max() : bytes;
  }

  bool isOfShards(Value value) const {
    return llvm::any_of(makersOf(value), [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        auto argument = dyn_cast<BlockArgument>(operand);
        return argument && getShard(function, argument.getArgNumber());
      });
    });
  }

  /// Of what is made of shards, the readers of one copy: those with no reader of another such value
  /// between them.
  void groupReaders(ArrayRef<Value> exits) {
    llvm::SmallPtrSet<Value, 8> values;
    for (Value value : exits)
      if (isOfShards(value))
        values.insert(value);
    DenseMap<Value, unsigned> before;
    for (Operation &op : function.getBody().front()) {
      DenseMap<Value, unsigned> here;
      for (Value operand : op.getOperands())
        if (values.contains(operand) && reads(&op) && !here.contains(operand)) {
          auto known = before.find(operand);
          if (known == before.end()) {
            here[operand] = groups[operand].size();
            groups[operand].emplace_back();
          } else {
            here[operand] = known->second;
          }
          groups[operand][here[operand]].push_back(&op);
        }
      if (!here.empty())
        before = std::move(here);
    }
  }

  /// Nothing where an earlier run has done it.
  void gatherFor(Value value) {
    if (isPlaced(value) || !groups.contains(value))
      return;
    for (ArrayRef<Operation *> readers : groups[value]) {
      builder.setInsertionPoint(readers.front());
      IRMapping mapping;
      ++places;
      Value copy = copyOf(value, mapping);
      value.replaceUsesWithIf(
          copy, [&](OpOperand &use) { return llvm::is_contained(readers, use.getOwner()); });
    }
    remark::passed(value.getLoc(), options("Gathered"))
        << remark::add("{0} is made of shards {1} times, for each use",
                       describeOp(value.getDefiningOp()), groups[value].size());
  }

  /// Nothing where the one reader already has the value made behind a barrier.
  void copyFor(Value value) {
    SmallVector<Operation *> readers;
    for (Operation *user : value.getUsers())
      if (reads(user) && !llvm::is_contained(readers, user))
        readers.push_back(user);
    if (readers.empty() || (readers.size() == 1 && isPlaced(value)))
      return;
    // A reader that uses it twice reads one copy.
    for (Operation *reader : readers) {
      builder.setInsertionPoint(reader);
      IRMapping mapping;
      ++places;
      Value copy = copyOf(value, mapping);
      value.replaceUsesWithIf(copy, [&](OpOperand &use) { return use.getOwner() == reader; });
    }
    remark::passed(value.getLoc(), options("Copied")) << remark::add(
        "{0} is made for each of {1} readers", describeOp(value.getDefiningOp()), readers.size());
  }
  /// Whether a barrier holds what makes a value where it is.
  /// Rematerialized by an earlier run of this pass.
  static bool isPlaced(Value value) {
    return llvm::any_of(makersOf(value), [](Operation *op) {
      auto fusion = dyn_cast<FusionOpInterface>(op);
      return fusion && fusion.separatesKernels() && isa<BlockArgument>(op->getOperand(0));
    });
  }
  /// Parameters are read behind a barrier, so that the copy becomes part of no kernel before its
  /// reader.
  Value copyOf(Value value, IRMapping &mapping) {
    if (Value copy = mapping.lookupOrNull(value))
      return copy;
    Operation *def = value.getDefiningOp();
    if (!def) {
      Value behind = value;
      // Scalars take no memory worth keeping apart.
      if (getRank(value) > 0) {
        behind = TrainBuilder(builder, value.getLoc()).barrier(value);
        // Barriers of one value would else be the same to CSE.
        behind.getDefiningOp()->setAttr(kPlaceAttr, builder.getI64IntegerAttr(places));
      }
      mapping.map(value, behind);
      return behind;
    }
    // Constants stay: there is nothing to compute.
    if (def->getNumOperands() == 0)
      return value;
    for (Value operand : def->getOperands())
      copyOf(operand, mapping);
    Operation *copy = builder.clone(*def, mapping);
    return copy->getResult(cast<OpResult>(value).getResultNumber());
  }

  func::FuncOp function;
  OpBuilder builder;
  llvm::SmallPtrSet<Operation *, 32> made;
  llvm::StringSet<> changedNames;
  /// Readers of each value that is made of shards, by copies.
  DenseMap<Value, SmallVector<SmallVector<Operation *, 2>, 2>> groups;
  int64_t places = 0;
  const bool takesFrozen, takesShards;
};

struct RematerializeWeightsPass
    : trainc::impl::RematerializeWeightsPassBase<RematerializeWeightsPass> {
  // After quantization only weights that are dequantized matter.
  using RematerializeWeightsPassBase::RematerializeWeightsPassBase;
  void runOnOperation() override {
    const bool frozen =
        !onlyMarked || getOperation()->getParentOp()->hasAttr(kQuantizedWeightsAttr);
    if (frozen || shards)
      RematerializeWeights(getOperation(), frozen, shards).run();
  }
};
} // namespace
