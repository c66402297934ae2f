// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One walk over the backward pass; operands are resolved from their readers upwards.

#include "lib/Schedule/Recompute/Rematerialize.h"

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
class Rematerializer {
public:
  Rematerializer(const StepGraph &graph, const llvm::DenseSet<Operation *> &again)
      : graph(graph), again(again), builder(graph.function.getContext()) {}

  /// The number of ops that were copied. The originals stay for the forward pass; what only they
  /// needed dies with them.
  unsigned run() {
    // Taken down first: copies are inserted before their readers.
    SmallVector<Operation *> readers;
    for (Operation &op : graph.function.getBody().front().without_terminator())
      if (graph.isBackward(&op))
        readers.push_back(&op);
    for (Operation *reader : readers) {
      builder.setInsertionPoint(reader);
      // The first reader of a value has the copy made before it; later ones use the same.
      for (OpOperand &operand : reader->getOpOperands())
        operand.set(resolve(operand.get()));
    }
    return copies;
  }

private:
  /// Whether `value` is computed again, or made of such values by ops that are never kept.
  bool isAgain(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def || !graph.isForward(def) || graph.isAvailable(value))
      return false;
    if (again.contains(def))
      return true;
    return graph.isNeverKept(def) &&
           llvm::any_of(def->getOperands(), [&](Value operand) { return isAgain(operand); });
  }
  /// What the backward pass reads instead of `value`.
  Value resolve(Value value) { return isAgain(value) ? copyOf(value) : value; }

  Value copyOf(Value value) {
    // Made for an earlier reader, which stands before this one: it dominates.
    if (Value copy = replacement.lookup(value))
      return copy;
    Operation *def = value.getDefiningOp();
    assert(def && graph.isForward(def) && "only what the forward pass makes is made again");
    IRMapping mapping;
    bool differs = false;
    for (Value operand : def->getOperands()) {
      mapping.map(operand, operandOf(operand));
      differs |= mapping.lookup(operand) != operand;
    }
    // Else the copy would be the same op.
    // Equal ops on equal operands would be merged again: the barrier makes the operand another
    // value.
    if (!differs)
      for (Value operand : def->getOperands())
        if (getRank(operand) > 0) {
          mapping.map(operand, barrierOf(operand));
          break;
        }
    Operation *copy = builder.clone(*def, mapping);
    copies += again.contains(def);
    for (auto [from, to] : llvm::zip_equal(def->getResults(), copy->getResults()))
      replacement[from] = to;
    return replacement[value];
  }
  /// What a copy reads instead of `value`: a copy, or a kept value behind a barrier.
  Value operandOf(Value value) {
    if (graph.isAvailable(value))
      return value;
    Operation *def = value.getDefiningOp();
    // A widening cast is made where it is read, so that the narrow value is what waits.
    if (again.contains(def) || graph.isNeverKept(def) || StepGraph::widens(def))
      return copyOf(value);
    return barrierOf(value);
  }
  /// One barrier a value; it also keeps kernels of the copy apart from those that made the value.
  Value barrierOf(Value value) {
    Value &kept = replacement[value];
    if (!kept)
      kept = TrainBuilder(builder, value.getLoc()).barrier(value);
    return kept;
  }

  const StepGraph &graph;
  const llvm::DenseSet<Operation *> &again;
  OpBuilder builder;
  DenseMap<Value, Value> replacement;
  unsigned copies = 0;
};
} // namespace

unsigned trainc::rematerialize(const StepGraph &graph, const llvm::DenseSet<Operation *> &again) {
  return Rematerializer(graph, again).run();
}
