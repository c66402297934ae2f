// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Template selection: asks the ops through their interfaces what the body reduces and in which
// order, and splits the work into passes over the reduced positions.

#include "trainc/Codegen/Structure.h"
#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/RowMoves.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Recomputing a value that costs more than this is slower than a store and a load in the first
/// cache.
constexpr unsigned kStashCost = 12;
/// Scratch for the positions of one work item is kept below this many elements where nothing bounds
/// it.
constexpr int64_t kLargestStash = 65536;

/// Fills the structure step by step: levels, space, passes, stashes. Every step assumes those
/// before it.
class Analysis {
public:
  Analysis(FusionOp fusion, bool columnSums)
      : fusion(fusion), body(fusion.getBody().front()), takesColumnSums(columnSums) {}

  FailureOr<Structure> run();

private:
  void findColumnSums();
  LogicalResult collect();
  LogicalResult chooseStandalone();
  LogicalResult chooseSpace();
  LogicalResult formPasses();
  SmallVector<DimAttr> getPointwiseSpace();
  void formStores();
  bool isStoredByPart(Value value);
  bool isFlat();
  void chooseStashes();
  void chooseKeptStashes();
  unsigned treeCost(Value value, llvm::DenseSet<Value> &seen);
  unsigned accessCost(Operation *op);
  bool isFull(Value value) { return getDims(value) == result.space; }
  bool isKept(Value value) { return getDims(value) == keptDims; }

  FusionOp fusion;
  Block &body;
  const bool takesColumnSums;
  Structure result;
  SmallVector<DimAttr> keptDims;
  SmallVector<Operation *> reductions;
  llvm::DenseMap<Value, unsigned> level;
  /// What is made of sums down the columns.
  llvm::DenseSet<Value> ofColumns;
  llvm::DenseSet<Value> resident;
};

} // namespace

/// By building the formula once in a block of its own: no op has to say it of itself. Vectors, as
/// formulas may look at the type.
bool usesCoordinates(PointwiseOpInterface op) {
  Operation *self = op.getOperation();
  Block block;
  OpBuilder builder(self->getContext());
  builder.setInsertionPointToStart(&block);
  constexpr int64_t lanes = 8;
  SmallVector<Value> elements, index;
  for (Value operand : self->getOperands())
    elements.push_back(
        block.addArgument(VectorType::get(lanes, getElementType(operand)), self->getLoc()));
  for (int64_t i = 0, e = getRank(self->getResult(0)); i < e; ++i)
    index.push_back(
        block.addArgument(VectorType::get(lanes, builder.getIndexType()), self->getLoc()));
  op.buildScalar(builder, self->getLoc(), elements, index);
  return llvm::any_of(index, [](Value i) { return !i.use_empty(); });
}

/// Where some reductions are along the last axis that is longer than 1, and all others over all
/// other axes of the same tensors. Rows of one axis, whose length is known, are held by threads.
void Analysis::findColumnSums() {
  SmallVector<Operation *> along, down;
  for (Operation &op : body.without_terminator()) {
    auto reduction = dyn_cast<ReductionOpInterface>(op);
    if (!reduction)
      continue;
    SmallVector<DimAttr> dims = getDims(op.getOperand(0));
    int64_t last = int64_t(dims.size()) - 1;
    while (last > 0 && dims[last].isConstant(1))
      --last;
    (llvm::is_contained(reduction.getReducedAxes(), last) ? along : down).push_back(&op);
  }
  if (along.empty() || down.empty())
    return;
  SmallVector<DimAttr> space = getDims(along.front()->getOperand(0));
  auto axes = cast<ReductionOpInterface>(along.front()).getReducedAxes();
  auto fits = [&](Operation *op) {
    auto others = cast<ReductionOpInterface>(op).getReducedAxes();
    return getDims(op->getOperand(0)) == space && others.size() + 1 == space.size() &&
           !llvm::is_contained(others, axes.front());
  };
  if (axes.size() == 1 && space[axes.front()].getConstant() && llvm::all_of(down, fits))
    result.columnSums = std::move(down);
}

/// The level of a value is the number of reductions that it waits for, one behind the other: the
/// pass in which it can first be computed. Sums down the columns belong to no pass over a row.
LogicalResult Analysis::collect() {
  for (Value argument : body.getArguments())
    level[argument] = 0;
  for (Operation &op : body.without_terminator()) {
    unsigned deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, level.lookup(operand));
    if (llvm::is_contained(result.columnSums, &op)) {
      ofColumns.insert(op.getResult(0));
    } else if (isa<ReductionOpInterface>(op)) {
      reductions.push_back(&op);
      ++deepest;
    } else if (auto fusion = dyn_cast<FusionOpInterface>(op);
               fusion && fusion.getFusionRole() == FusionRole::Standalone) {
      // Templates have room for one op of their own kind.
      if (result.standalone) {
        InFlightDiagnostic error =
            op.emitOpError("shares a kernel with another scatter, scan or matmul");
        error.attachNote(result.standalone->getLoc()) << "the other one is here";
        return error;
      }
      result.standalone = &op;
    }
    for (Value value : op.getResults())
      level[value] = deepest;
    if (llvm::any_of(op.getOperands(), [&](Value value) { return ofColumns.contains(value); }))
      ofColumns.insert(op.result_begin(), op.result_end());
    if (auto cost = dyn_cast<CostOpInterface>(op))
      result.cost += cost.getElementCost();
    else
      result.cost += 1;
  }
  return success();
}

/// A scatter, scan or matmul decides the kernel's form alone; only a scatter of rows takes results
/// computed of its sums.
LogicalResult Analysis::chooseStandalone() {
  Operation *op = result.standalone;
  Operation *yield = body.getTerminator();
  if (!reductions.empty()) {
    InFlightDiagnostic error =
        reductions.front()->emitOpError("shares a kernel with a scatter, scan or matmul");
    error.attachNote(op->getLoc()) << "which is here: " << op->getName();
    return error;
  }
  auto scatter = dyn_cast<ScatterOpInterface>(op);
  bool takesEpilogue = scatter && scatter.isRowScatter() && !scatter.hasUniqueIndices();
  result.hasEpilogue = yield->getNumOperands() != 1 || yield->getOperand(0) != op->getResult(0);
  auto isOther = [&](Value value) { return getDims(value) != getDims(op->getResult(0)); };
  if (result.hasEpilogue && (!takesEpilogue || llvm::any_of(yield->getOperands(), isOther))) {
    InFlightDiagnostic error = op->emitOpError("must be the only result of its kernel");
    error.attachNote(yield->getLoc()) << "the kernel's results are of " << yield->getOperandTypes();
    return error;
  }
  result.kind = scatter                    ? Template::Scatter
                : isa<ScanOpInterface>(op) ? Template::Scan
                                           : Template::Product;
  result.space = getDims(op->getResult(0));
  return success();
}

/// The shape of the parts where all results are of it or join values of it: what parts share is
/// computed once for all of them. Else that of the results.
SmallVector<DimAttr> Analysis::getPointwiseSpace() {
  Operation *yield = body.getTerminator();
  auto partDims = [](Value value) {
    Operation *join = value.getDefiningOp();
    return getDims(isJoinOfComputedParts(join) ? join->getOperand(0) : value);
  };
  SmallVector<DimAttr> space = partDims(yield->getOperand(0));
  bool fits = llvm::all_of(yield->getOperands(), [&](Value value) {
    return getDims(value) == space || partDims(value) == space;
  });
  return fits ? space : getDims(yield->getOperand(0));
}

/// All reductions of a kernel have one operand shape and the same axes. The vector axis is the last
/// one that is longer than 1.
LogicalResult Analysis::chooseSpace() {
  Operation *yield = body.getTerminator();
  if (!reductions.empty()) {
    Operation *first = reductions.front();
    result.space = getDims(first->getOperand(0));
    result.reduced = cast<ReductionOpInterface>(first).getReducedAxes();
    assert(llvm::is_sorted(result.reduced) && "axes are told in ascending order");
    if (result.reduced.empty())
      return first->emitOpError("reduces no axis");
    for (Operation *op : reductions)
      if (getDims(op->getOperand(0)) != result.space ||
          cast<ReductionOpInterface>(op).getReducedAxes() != result.reduced) {
        InFlightDiagnostic error =
            op->emitOpError("reduces other axes than the first reduction of its kernel");
        error.attachNote(first->getLoc()) << "the first reduction is here";
        return error;
      }
  } else if (yield->getNumOperands() != 0) {
    result.space = getPointwiseSpace();
  }
  for (auto [axis, dim] : llvm::enumerate(result.space)) {
    if (!result.isReduced(axis)) {
      result.kept.push_back(axis);
      keptDims.push_back(dim);
    }
    if (!dim.isConstant(1))
      result.vectorAxis = axis;
  }
  if (!reductions.empty()) {
    // Where everything has size 1 the last reduced axis serves as the row.
    if (result.vectorAxis < 0)
      result.vectorAxis = result.reduced.back();
    result.kind = result.isReduced(result.vectorAxis) ? Template::Row : Template::Column;
  }
  return success();
}

/// A join of values of the space, which has another shape itself.
bool Analysis::isStoredByPart(Value value) {
  Operation *join = value.getDefiningOp();
  return reductions.empty() && !isFull(value) && isJoinOfComputedParts(join) &&
         isFull(join->getOperand(0));
}

/// In the order of the results, parts of one in theirs.
void Analysis::formStores() {
  for (auto [number, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    if (!isStoredByPart(value)) {
      result.stores.push_back({unsigned(number), value, {}});
      continue;
    }
    Operation *join = value.getDefiningOp();
    // A value that is there twice is computed once and stored twice.
    for (auto [part, operand] : llvm::enumerate(join->getOperands()))
      result.stores.push_back({unsigned(number), operand, getJoinStarts(join, part)});
  }
}

/// Reductions of level n are in pass n; results in the pass in which they are known.
LogicalResult Analysis::formPasses() {
  Operation *yield = body.getTerminator();
  auto passAt = [&](unsigned index) -> Pass & {
    if (result.passes.size() <= index)
      result.passes.resize(index + 1);
    return result.passes[index];
  };
  SmallVector<DimAttr> columns;
  for (int64_t axis : result.reduced)
    columns.push_back(result.space[axis]);
  for (Operation *op : reductions)
    passAt(level[op->getOperand(0)]).reductions.push_back(op);
  for (auto [number, value] : llvm::enumerate(yield->getOperands())) {
    // Results of the space are stored in a pass, those of the kept axes once for each work item.
    if (ofColumns.contains(value) && getDims(value) == columns)
      result.columnResults.push_back(number);
    else if ((isFull(value) && !ofColumns.contains(value)) || isStoredByPart(value))
      passAt(level[value]).results.push_back(number);
    else if (!reductions.empty() && isKept(value) && !ofColumns.contains(value))
      result.keptResults.push_back(number);
    else
      return attachNotes(yield->emitOpError("result ")
                             << number << " of shape " << dimsToString(getDims(value))
                             << " belongs neither to the kernel's space "
                             << dimsToString(result.space) << " nor to its kept axes",
                         {{"the result", value}});
  }
  return success();
}

/// Whether every buffer is read at the position that is written, or is a scalar: then one flat loop
/// does, without coordinates.
bool Analysis::isFlat() {
  if (result.space.size() < 1)
    return false;
  auto fits = [&](Value value) { return getRank(value) == 0 || isFull(value); };
  if (!llvm::all_of(body.getArguments(), fits))
    return false;
  for (Operation &op : body.without_terminator()) {
    if (!llvm::all_of(op.getResults(), fits))
      return false;
    if (auto pointwise = dyn_cast<PointwiseOpInterface>(op)) {
      if (getRank(op.getResult(0)) != 0 && usesCoordinates(pointwise))
        return false;
      continue;
    }
    // An access op between the space and itself moves elements; one from rank 0 repeats one value.
    bool uniform = llvm::all_of(op.getOperands(), [](Value v) { return getRank(v) == 0; });
    bool constant = op.hasTrait<OpTrait::ConstantLike>();
    bool scalar = llvm::all_of(op.getResults(), [](Value v) { return getRank(v) == 0; });
    if (!uniform || (op.getNumOperands() == 0 && !constant && !scalar))
      return false;
  }
  return true;
}

/// What reading through an access op costs in lanes along the vector axis.
/// 0: one value for all lanes. 16: by lane through an opaque loop.
unsigned Analysis::accessCost(Operation *op) {
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped || op->getNumOperands() == 0 || result.vectorAxis < 0 ||
      getRank(op->getResult(0)) <= result.vectorAxis)
    return 1;
  AxisMap map = mapped.getAxisMap();
  if (map.results.empty() || map.operands.empty())
    return 1;
  int loop = map.results[0][result.vectorAxis];
  if (loop < 0 || map.loops[loop] == LoopKind::Opaque)
    return 16;
  ArrayRef<int> operand = map.operands[0];
  if (!llvm::is_contained(operand, loop))
    return 0;
  // Along the operand's last axis lanes are neighbours in memory.
  return operand.back() == loop ? 1 : kStashCost + 1;
}

/// Each value once. What is resident is read, not computed.
unsigned Analysis::treeCost(Value value, llvm::DenseSet<Value> &seen) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  if (resident.contains(value) || isa<ReductionOpInterface>(op) || !seen.insert(value).second)
    return 0;
  if (getRank(value) < int64_t(result.space.size()))
    return 0; // Uniform, or computed once for many elements.
  unsigned cost = 0;
  if (isa<PointwiseOpInterface>(op)) {
    if (auto known = dyn_cast<CostOpInterface>(op))
      cost = known.getElementCost();
  } else {
    cost = accessCost(op);
  }
  for (Value operand : op->getOperands())
    cost += treeCost(operand, seen);
  return cost;
}

/// Values that two passes need are kept in scratch (rows) where that is cheaper than making them
/// again; in columns there is no place for them.
void Analysis::chooseStashes() {
  DimAttr positions = product(fusion.getContext(), {});
  for (int64_t axis : result.reduced)
    positions = positions * result.space[axis];
  // One row for the whole tensor and of unknown size would want scratch without bound.
  std::optional<int64_t> size = positions.getConstant();
  bool scratch =
      result.kind == Template::Row && (size ? *size <= kLargestStash : !result.kept.empty());

  Operation *yield = body.getTerminator();
  llvm::DenseMap<Value, unsigned> computedIn;
  for (unsigned index = 0; index < result.passes.size(); ++index) {
    Pass &pass = result.passes[index];
    std::function<void(Value)> visit = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (!op || isa<ReductionOpInterface>(op) || resident.contains(value) || !isFull(value))
        return;
      // The pass that first computes it is the one that keeps it.
      auto [it, isNew] = computedIn.try_emplace(value, index);
      if (!isNew) {
        if (it->second == index)
          return;
        llvm::DenseSet<Value> seen;
        if (scratch && treeCost(value, seen) > kStashCost) {
          result.passes[it->second].stashes.push_back(value);
          resident.insert(value);
          return;
        }
      }
      // Reads by access ops are cheap enough to be looked through only from above.
      if (isa<PointwiseOpInterface>(op))
        for (Value operand : op->getOperands())
          visit(operand);
    };
    for (Operation *op : pass.reductions)
      visit(op->getOperand(0));
    for (unsigned number : pass.results)
      visit(yield->getOperand(number));
    // Later passes read results back instead of computing them again.
    for (unsigned number : pass.results)
      resident.insert(yield->getOperand(number));
  }
}

/// Columns: what is computed of a finished reduction for each column is kept, since all rows of the
/// next pass read it.
void Analysis::chooseKeptStashes() {
  for (Operation &op : body.without_terminator()) {
    if (!isa<PointwiseOpInterface>(op) || !isKept(op.getResult(0)) || !level[op.getResult(0)])
      continue;
    bool feedsSpace = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return user->getNumResults() != 0 && isFull(user->getResult(0));
    });
    assert(level.lookup(op.getResult(0)) > 0 && "asked above");
    unsigned pass = level[op.getResult(0)] - 1;
    if (feedsSpace && pass < result.passes.size())
      result.passes[pass].keptStashes.push_back(op.getResult(0));
  }
}

/// In this order: passes need the space, stashes the passes.
FailureOr<Structure> Analysis::run() {
  assert(llvm::hasSingleElement(fusion.getBody()) && "its verifier has seen to that");
  if (takesColumnSums)
    findColumnSums();
  if (failed(collect()))
    return failure();
  if (result.standalone) {
    if (failed(chooseStandalone()))
      return failure();
    formStores();
    return std::move(result);
  }
  if (failed(chooseSpace()) || failed(formPasses()))
    return failure();
  if (result.kind == Template::Pointwise) {
    result.flat = isFlat();
    formStores();
    if (result.passes.empty())
      result.passes.resize(1);
    return std::move(result);
  }
  chooseStashes();
  if (result.kind == Template::Column)
    chooseKeptStashes();
  return std::move(result);
}

FailureOr<Structure> analyzeFusion(FusionOp fusion, bool columnSums) {
  return Analysis(fusion, columnSums).run();
}

} // namespace trainc::codegen
