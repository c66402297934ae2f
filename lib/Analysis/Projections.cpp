// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A projection is recognised by its loops: one that only the weight has and the result keeps (n),
// one that both operands have and the result sums over (k), and the input's other ones.

#include "trainc/Analysis/Projections.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// Where the two axes of an operand lie in the parameter that it is made of.
struct Origin {
  BlockArgument parameter;
  unsigned axes[2];
};
} // namespace

/// Through ops of one operand that keep its elements or only round them.
/// Both axes are followed at once: transposes swap them, slices keep them. Rank 2 all the way, as
/// adapters and quantization treat matrices only.
static std::optional<Origin> originOf(Value value) {
  Origin origin{{}, {0, 1}};
  while (Operation *def = value.getDefiningOp()) {
    auto mapped = dyn_cast<AxisMapOpInterface>(def);
    const bool moves = isa<PointwiseOpInterface, StridedViewOpInterface>(def);
    if (!mapped || !moves || def->getNumOperands() != 1 || def->getNumResults() != 1 ||
        getRank(def->getOperand(0)) != 2 || getRank(value) != 2)
      return std::nullopt;
    // Any other formula than a cast keeps the type.
    if (isa<PointwiseOpInterface>(def) && def->getOperand(0).getType() == value.getType())
      return std::nullopt;
    AxisMap map = mapped.getAxisMap();
    unsigned axes[2];
    for (unsigned axis : {0u, 1u}) {
      int loop = map.results[0][axis];
      auto found = llvm::find(map.operands[0], loop);
      if (loop < 0 || map.loops[loop] != LoopKind::Parallel || found == map.operands[0].end())
        return std::nullopt;
      axes[axis] = found - map.operands[0].begin();
    }
    // Composes the maps: `axes` leads from this value to its operand, `origin.axes` from the
    // projected value to this one.
    for (unsigned &axis : origin.axes)
      axis = axes[axis];
    value = def->getOperand(0);
  }
  origin.parameter = cast<BlockArgument>(value);
  return origin;
}

static bool isParameter(func::FuncOp function, BlockArgument argument) {
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttr);
  return role && role.getValue() == "parameter";
}

/// result[..., n] = sum over k of input[..., k] * weight[n, k], with the axes of the weight in
/// either order. `weight`: which operand it is.
static std::optional<Projection> asProjection(func::FuncOp function, Operation *op,
                                              unsigned weight) {
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped || op->getNumOperands() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  assert(weight < 2 && "a projection has two operands");
  OpOperand &projected = op->getOpOperand(weight), &input = op->getOpOperand(1 - weight);
  if (getRank(projected.get()) != 2 || !isa<FloatType>(getElementTypeOrSelf(projected.get())))
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  ArrayRef<int> weightLoops = map.operands[weight], inputLoops = map.operands[1 - weight],
                resultLoops = map.results[0];
  // The input's rows in their order, then n in place of k.
  if (inputLoops.empty() || inputLoops.size() != resultLoops.size() ||
      inputLoops.drop_back() != resultLoops.drop_back())
    return std::nullopt;
  // n must be the weight's alone: a batch of matrices has an axis that both have and the result
  // keeps.
  int k = inputLoops.back(), n = resultLoops.back();
  if (k < 0 || n < 0 || map.loops[k] != LoopKind::Reduction || map.loops[n] != LoopKind::Parallel ||
      llvm::is_contained(inputLoops, n))
    return std::nullopt;
  auto nAxis = llvm::find(weightLoops, n), kAxis = llvm::find(weightLoops, k);
  if (nAxis == weightLoops.end() || kAxis == weightLoops.end())
    return std::nullopt;
  std::optional<Origin> origin = originOf(projected.get());
  if (!origin || getRank(origin->parameter) != 2 || !isParameter(function, origin->parameter))
    return std::nullopt;
  return Projection{op,
                    &input,
                    &projected,
                    origin->parameter,
                    origin->axes[nAxis - weightLoops.begin()],
                    origin->axes[kAxis - weightLoops.begin()]};
}

/// In program order. An op whose operands are both parameters counts once, with operand 1 as the
/// weight.
SmallVector<Projection> trainc::findProjections(func::FuncOp function) {
  SmallVector<Projection> found;
  for (Operation &op : function.getBody().front())
    for (unsigned weight : {1u, 0u})
      if (std::optional<Projection> projection = asProjection(function, &op, weight)) {
        found.push_back(*projection);
        break;
      }
  // What a projection is computed from, backwards.
  // The last projections before the loss: what is computed of them is not projected again.
  DenseSet<Value> projectedLater;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    auto at = llvm::find_if(found, [&](const Projection &p) { return p.op == &op; });
    const bool later = llvm::any_of(op.getResults(),
                                    [&](Value result) { return projectedLater.contains(result); });
    if (at != found.end()) {
      at->isHead = !later;
      projectedLater.insert(at->input->get());
    }
    if (later)
      projectedLater.insert(op.operand_begin(), op.operand_end());
  }
  return found;
}
