// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks the body from the roots of the space with the axes that each value's axes are, or with
// those that depend on one of the space.

#include "Accesses.h"
#include "trainc/Codegen/KernelEmitter.h"
#include <set>

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// -1: the axis is no axis of the space.
using Axes = SmallVector<int64_t>;

/// The axes of an operand, where those of a result with these loops are `axes`.
Axes followAxes(const AxisMap &map, ArrayRef<int> loops, ArrayRef<int> operandLoops,
                const Axes &axes) {
  Axes operandAxes;
  for (int loop : operandLoops) {
    auto axis = llvm::find(loops, loop);
    bool known = loop >= 0 && map.loops[loop] == LoopKind::Parallel && axis != loops.end();
    operandAxes.push_back(known ? axes[axis - loops.begin()] : -1);
  }
  return operandAxes;
}

/// Follows values to the inputs that they are made of, with the axis of the value that each of
/// theirs is. Each value once for each way of its axes: the same input may be read in several.
class InputSearch {
public:
  virtual ~InputSearch() = default;

protected:
  virtual void note(BlockArgument argument, const Axes &axes) = 0;
  /// Whether what the op reads is not asked for.
  virtual bool isEnd(Operation *op) const { return false; }

  void visit(Value value, const Axes &axes) {
    std::vector<int64_t> key(axes.begin(), axes.end());
    key.push_back(reinterpret_cast<intptr_t>(value.getAsOpaquePointer()));
    if (axes.empty() || !visited.insert(std::move(key)).second)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return note(argument, axes);
    Operation *op = value.getDefiningOp();
    if (isEnd(op))
      return;
    if (isa<PointwiseOpInterface>(op)) {
      for (Value operand : op->getOperands())
        if (getRank(operand) != 0)
          visit(operand, axes);
      return;
    }
    // An op without a map reads somewhere.
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped)
      return;
    AxisMap map = mapped.getAxisMap();
    ArrayRef<int> loops = map.results[cast<OpResult>(value).getResultNumber()];
    for (auto [operand, operandLoops] : llvm::zip_equal(op->getOperands(), map.operands))
      visit(operand, followAxes(map, loops, operandLoops, axes));
  }

private:
  std::set<std::vector<int64_t>> visited;
};

class AccessSearch : InputSearch {
public:
  AccessSearch(FusionOp fusion, const Structure &s) : fusion(fusion), s(s) {}

  SmallVector<InputAccess> run() {
    Axes all = llvm::to_vector(llvm::seq<int64_t>(0, s.space.size()));
    for (const Pass &pass : s.passes)
      for (Operation *op : pass.reductions)
        visit(op->getOperand(0), all);
    for (Value value : fusion.getBody().front().getTerminator()->getOperands())
      if (getDims(value) == s.space)
        visit(value, all);
    for (const Store &part : s.stores)
      if (!part.starts.empty())
        visit(part.value, all);
    return std::move(found);
  }

private:
  /// Behind a reduction axes are no longer those of the space.
  bool isEnd(Operation *op) const override { return isa<ReductionOpInterface>(op); }

  /// An access is noted if each of its axes is a whole axis of the space; then its stride along
  /// that axis is known.
  void note(BlockArgument argument, const Axes &axes) override {
    SmallVector<DimAttr> sizes = getDims(argument);
    InputAccess access{argument.getArgNumber(), axes, -1, getElementBytes(getElementType(argument)),
                       true};
    // A part of an axis, or an axis of another size, says nothing.
    for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
      if (axis < 0 || size != s.space[axis])
        return;
      if (!size.isConstant(1))
        access.inner = axis;
    }
    // isFull: every axis of the space is one of the input's.
    for (auto [axis, size] : llvm::enumerate(s.space))
      access.isFull &= size.isConstant(1) || llvm::is_contained(axes, int64_t(axis));
    if (access.inner >= 0)
      found.push_back(std::move(access));
  }

  FusionOp fusion;
  const Structure &s;
  SmallVector<InputAccess> found;
};

/// The bytes of inputs that lie along each axis of a value.
class LayoutSearch : InputSearch {
public:
  explicit LayoutSearch(Value value) : size(getRank(value)), bytes(size) {
    visit(value, llvm::to_vector(llvm::seq<int64_t>(0, size)));
  }
  SmallVector<int64_t> take() { return std::move(bytes); }

private:
  /// What has fewer axes is small, and read again and again.
  void note(BlockArgument argument, const Axes &axes) override {
    int64_t inner = -1;
    for (auto [axis, extent] : llvm::zip_equal(axes, getDims(argument)))
      if (!extent.isConstant(1))
        inner = axis;
    if (inner >= 0 && int64_t(axes.size()) == size)
      bytes[inner] += getElementBytes(getElementType(argument));
  }

  const int64_t size;
  SmallVector<int64_t> bytes;
};

/// Follows the axes of a value whose coordinates depend on one of the space.
class AxisSearch {
public:
  /// Whether an input is read by one of `axes`.
  bool reads(Value value, const std::set<int> &axes) {
    if (axes.empty() || !visited.insert({value.getAsOpaquePointer(), axes}).second)
      return false;
    Operation *op = value.getDefiningOp();
    if (!op)
      return true;
    if (isa<PointwiseOpInterface>(op))
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        return getRank(operand) != 0 && reads(operand, axes);
      });
    // Coordinates alone make the value.
    if (op->getNumOperands() == 0)
      return false;
    // Without a map anything may be read.
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped)
      return true;
    AxisMap map = mapped.getAxisMap();
    ArrayRef<int> loops = map.results[cast<OpResult>(value).getResultNumber()];
    std::set<int> followed;
    // A coordinate that enters the value may enter those of all axes that are not parallel.
    bool enters = false;
    for (int axis : axes) {
      followed.insert(loops[axis]);
      enters |= loops[axis] < 0 || map.loops[loops[axis]] != LoopKind::Parallel;
    }
    for (auto [operand, operandLoops] : llvm::zip_equal(op->getOperands(), map.operands)) {
      std::set<int> operandAxes;
      for (auto [axis, loop] : llvm::enumerate(operandLoops))
        if (followed.count(loop) || (enters && (loop < 0 || map.loops[loop] == LoopKind::Opaque)))
          operandAxes.insert(int(axis));
      if (reads(operand, operandAxes))
        return true;
    }
    return false;
  }

private:
  std::set<std::pair<const void *, std::set<int>>> visited;
};

} // namespace

bool readsAlong(const Structure &structure, int64_t axis) {
  assert(!structure.isReduced(axis) && "asked of kept axes");
  AxisSearch search;
  for (const Pass &pass : structure.passes)
    for (Operation *op : pass.reductions)
      if (search.reads(op->getOperand(0), {int(axis)}))
        return true;
  return false;
}

SmallVector<int64_t> findBytesAlong(Value value) { return LayoutSearch(value).take(); }

/// In the order in which they are met, from the first reduction's operand on.
SmallVector<InputAccess> findAccesses(FusionOp fusion, const Structure &structure) {
  return AccessSearch(fusion, structure).run();
}

} // namespace trainc::codegen
