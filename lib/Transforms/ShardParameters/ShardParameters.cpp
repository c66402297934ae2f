// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `shard-parameters`: arguments become shards, and their uses gathers of these.

#include "lib/Transforms/ShardParameters/ShardParameters.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Conversion/QuantizedWeights.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_SHARDPARAMETERSPASS
#include "lib/Transforms/ShardParameters/ShardParameters.h.inc"
} // namespace trainc

namespace {
/// The fewest that have a block of optimizer state.
constexpr int64_t kFewestInShards = 4096;

struct ShardParametersPass : trainc::impl::ShardParametersPassBase<ShardParametersPass> {
  using ShardParametersPassBase::ShardParametersPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (from < kFewestInShards) {
      module.emitError("expected shards of parameters of at least ")
          << kFewestInShards << " elements, got " << int64_t(from);
      return signalPassFailure();
    }
    if (!hasRunSymbols(module)) {
      module.emitError("expected the symbols of a run, @world and @rank, for shards");
      return signalPassFailure();
    }
    for (auto function : module.getOps<func::FuncOp>())
      cut(function);
  }

private:
  bool isCut(func::FuncOp function, unsigned argument) const {
    Type type = function.getArgument(argument).getType();
    if (getArgRole(function, argument) != "parameter" || getShard(function, argument) ||
        getNumElements(type).getConstant().value_or(0) < from)
      return false;
    return isa<FloatType>(getElementTypeOrSelf(type)) ||
           function.getArgAttr(argument, kQuantizedAttr) ||
           function.getArgAttr(argument, kPartOfAttr);
  }

  void cut(func::FuncOp function) const {
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    int64_t parameters = 0, bytes = 0;
    for (BlockArgument argument : function.getArguments()) {
      if (!isCut(function, argument.getArgNumber()))
        continue;
      const Shard shard = chooseShard(cast<RankedTensorType>(argument.getType()));
      argument.setType(getTensorType(getShardDims(shard), shard.of.getElementType()));
      function.setArgAttr(argument.getArgNumber(), kShardAttr, shard.toAttr());
      Value whole =
          buildAllGather(builder, argument.getLoc(), {argument}, Type(shard.of), {shard.unit})
              .front();
      argument.replaceAllUsesExcept(whole, whole.getDefiningOp());
      ++parameters;
      bytes += *getBytes(shard.of).getConstant();
    }
    if (!parameters)
      return;
    function.setFunctionType(builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                                                     function.getFunctionType().getResults()));
    if (function.getName() == "eval")
      function->setAttr(kInStepAttr, function.getNameAttr());
    remark::passed(
        function.getLoc(),
        remark::RemarkOpts::name("Sharded").category("distribute").function(function.getName()))
        << remark::add("{0} parameters of {1} bytes are shared out, and gathered where they are "
                       "read",
                       parameters, bytes);
  }
};
} // namespace
