// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything is emitted behind what was there, which is dead then.

#include "lib/Schedule/FormKernels/EmitKernels.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

class Emitter {
public:
  Emitter(Block &block, const KernelGroups &groups, const StoredValues &values)
      : block(block), groups(groups), values(values), builder(block.getTerminator()) {}

  /// Groups in `order`: each is behind all that it reads. The old ops are erased at the end, when
  /// nothing uses them any more.
  void run(ArrayRef<int> order) {
    for (int g : order) {
      if (groups[g].isKernel())
        emitKernel(g);
      else
        emitOp(groups[g].members.front());
    }
    // The terminator keeps its place; only its operands change.
    for (OpOperand &operand : block.getTerminator()->getOpOperands())
      operand.set(replacement.lookupOrDefault(operand.get()));
    SmallVector<Operation *> dead;
    for (Operation &op : block.without_terminator())
      if (!emitted.contains(&op))
        dead.push_back(&op);
    // Backwards: users go before what they use.
    for (Operation *op : llvm::reverse(dead)) {
      op->dropAllUses();
      op->erase();
    }
  }

private:
  void emitOp(Operation *op) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, replacement.lookupOrDefault(operand));
    Operation *moved = builder.clone(*op, mapping);
    emitted.insert(moved);
    for (auto [from, to] : llvm::zip_equal(op->getResults(), moved->getResults()))
      replacement.map(from, to);
  }

  /// One fusion op with everything the group's members need inside: constants, index arithmetic and
  /// recomputed values are cloned, once for each kernel.
  void emitKernel(int g) {
    const Group &group = groups[g];
    auto body = std::make_unique<Block>();
    OpBuilder inner(builder.getContext());
    inner.setInsertionPointToEnd(body.get());
    IRMapping mapping;
    SmallVector<Value> inputs;
    // In the order in which it is asked for, so that operands come before users in the body.
    std::function<void(Value)> need = [&](Value value) {
      if (mapping.contains(value))
        return;
      Operation *def = value.getDefiningOp();
      // A recomputed value of the own group is a member, and has its place among these.
      bool clone = def && (groups.isInline(def) ||
                           (values.recomputed.contains(def) && groups.groupOf(value) != g));
      if (!clone) {
        inputs.push_back(replacement.lookupOrDefault(value));
        mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
        return;
      }
      for (Value operand : def->getOperands())
        need(operand);
      inner.clone(*def, mapping);
    };
    SmallVector<Value> results, yielded;
    SmallVector<Location> locations;
    // Members are in program order (merges sort them), or a scatter's before its reader's.
    for (Operation *op : group.members) {
      for (Value operand : op->getOperands())
        need(operand);
      inner.clone(*op, mapping);
      locations.push_back(op->getLoc());
      bool isStored = group.closed || values.stored.contains(op);
      // Results that nobody outside reads have no buffer, though they are computed.
      for (Value result : op->getResults()) {
        bool read = values.promoted.contains(op);
        groups.forEachOutsideReader(result, g, [&](int) { read = true; });
        if (isStored && read) {
          results.push_back(result);
          yielded.push_back(mapping.lookup(result));
        }
      }
    }
    // All of its values are computed again in the kernels that read them.
    if (results.empty())
      return;
    // A bad index is reported at the kernel's first node.
    body->walk(
        [&](IndexOperandOpInterface op) { locations.insert(locations.begin(), op.getLoc()); });
    YieldOp::create(inner, group.members.front()->getLoc(), yielded);
    assert(yielded.size() == results.size() && inputs.size() == body->getNumArguments());
    auto fusion = FusionOp::create(builder, builder.getFusedLoc(locations),
                                   ValueRange(results).getTypes(), inputs);
    fusion.getBody().push_back(body.release());
    emitted.insert(fusion);
    for (auto [from, to] : llvm::zip_equal(results, fusion.getResults()))
      replacement.map(from, to);
  }

  Block &block;
  const KernelGroups &groups;
  const StoredValues &values;
  OpBuilder builder;
  llvm::DenseSet<Operation *> emitted;
  /// Of results that other groups read.
  IRMapping replacement;
};
} // namespace

void trainc::emitKernels(Block &block, const KernelGroups &groups, const StoredValues &values,
                         ArrayRef<int> order) {
  Emitter(block, groups, values).run(order);
}
