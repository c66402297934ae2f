// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search goes from a kept value upwards, through ops that may be computed again, to values that
// the backward pass has.

#include "trainc/Schedule/Recompute/Opportunities.h"

#include "lib/Schedule/FormKernels/SmallCost.h"
#include "lib/Schedule/Recompute/Layers.h"

#include "trainc/Analysis/GuessedBytes.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Analysis/StridedViews.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static Value findLoss(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getResultRole(function, i) == "loss")
      return function.getBody().front().getTerminator()->getOperand(i);
  return {};
}

/// A function with a loss that changes something, or leaves gradients: all that recompute is for.
bool StepGraph::isStep(func::FuncOp function) {
  if (!function.getBody().hasOneBlock() || !findLoss(function))
    return false;
  return llvm::any_of(llvm::seq(function.getNumResults()), [&](unsigned i) {
    StringRef role = getResultRole(function, i);
    return role == "update" || role == "gradient";
  });
}

StepGraph::StepGraph(func::FuncOp function) : function(function) {
  // The forward pass is what the loss needs; all else in the block is backward or update.
  Block &block = function.getBody().front();
  SmallVector<Operation *> work;
  auto need = [&](Value value) {
    Operation *def = value.getDefiningOp();
    if (def && forwardSet.insert(def).second)
      work.push_back(def);
  };
  need(findLoss(function));
  while (!work.empty())
    for (Value operand : work.pop_back_val()->getOperands())
      need(operand);
  for (BlockArgument argument : block.getArguments()) {
    StringRef role = getArgRole(function, argument.getArgNumber());
    if (role == "parameter" || role == "derived")
      varied.insert(argument);
    else if (role == "input")
      sampled.insert(argument);
  }
  // In program order every operand has been marked before its readers.
  for (Operation &op : block) {
    if (forwardSet.contains(&op))
      forward.push_back(&op);
    for (llvm::DenseSet<Value> *set : {&varied, &sampled})
      if (llvm::any_of(op.getOperands(), [&](Value value) { return set->contains(value); }))
        set->insert(op.result_begin(), op.result_end());
  }
  for (Operation *op : forward)
    if (findNormalized(op))
      normalized.insert(op);
}

/// Costs no time of its own: index arithmetic or a constant inside of its readers.
bool StepGraph::isFree(Operation *op) {
  FusionRole role = getFusionRole(op);
  auto cost = dyn_cast<CostOpInterface>(op);
  return role == FusionRole::Access || role == FusionRole::View ||
         (cost && cost.getRecomputeClass() == RecomputeClass::Free) ||
         (role == FusionRole::Pointwise && op->getNumOperands() == 0);
}

/// A cast to more bits: what reads it can make it again. Types below 8 bits are stored in bytes.
bool StepGraph::widens(Operation *op) {
  return getFusionRole(op) == FusionRole::Pointwise && op->getNumOperands() == 1 &&
         getDims(op->getOperand(0)) == getDims(op->getResult(0)) &&
         std::max(8u, getElementType(op->getOperand(0)).getIntOrFloatBitWidth()) <
             std::max(8u, getElementType(op->getResult(0)).getIntOrFloatBitWidth());
}

/// Whether a value has few elements beside another one: a table, or the statistics of a batch.
static bool isSmallBeside(Value value, Value other) {
  // Statistics of rows of a named number are not found to be small; they are recomputed with rows.
  std::optional<int64_t> elements = getNumElements(value.getType()).getConstant(),
                         others = getNumElements(other.getType()).getConstant();
  // A count of what has a name is taken to be large: statistics over a batch have a known size.
  return elements && (!others || *elements <= *others / 16);
}

namespace {
/// What an elementwise chain makes a value of.
struct Sources {
  /// The tensors of its size.
  llvm::SmallSetVector<Value, 2> tensors;
  bool statistics = false;
  unsigned cost = 0;
};
} // namespace

/// A library call has its operands in memory.
static bool isReadByLibrary(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    FusionRole role = getFusionRole(user);
    if (role == FusionRole::View || role == FusionRole::Access)
      return llvm::any_of(user->getResults(), isReadByLibrary);
    return role == FusionRole::Library;
  });
}

/// Up through what costs next to nothing. False where that takes more than its readers compute
/// again (`form-kernels`): more arithmetic, or elements that lie where data says.
static bool findSources(const StepGraph &graph, Operation *op, Value value, Sources &sources) {
  auto model = dyn_cast<CostOpInterface>(op);
  sources.cost += model ? model.getElementCost() : 1;
  if (sources.cost > kSmallCost)
    return false;
  for (Value operand : op->getOperands()) {
    // Broadcasts and reshapes are index arithmetic in a reader.
    Operation *def = operand.getDefiningOp();
    while (def && StepGraph::isFree(def) && def->getNumOperands() == 1 &&
           !isa<IndexOperandOpInterface>(def)) {
      operand = def->getOperand(0);
      def = operand.getDefiningOp();
    }
    if (isSmallBeside(operand, value)) {
      sources.statistics |= graph.isActivation(operand);
      continue;
    }
    // Parameters and what only parameters make need no keeping.
    if (graph.isAvailable(operand))
      continue;
    // Joins and gathers.
    if (StepGraph::isFree(def))
      return false;
    // The narrow side of a widening cast is what is stored, and what a library call reads is.
    const bool again = getFusionRole(def) == FusionRole::Pointwise && !StepGraph::widens(def) &&
                       !isReadByLibrary(operand);
    if (!again)
      sources.tensors.insert(operand);
    else if (!findSources(graph, def, value, sources))
      return false;
  }
  return sources.tensors.size() <= 1;
}

bool StepGraph::findNormalized(Operation *op) const {
  if (getFusionRole(op) != FusionRole::Pointwise || op->getNumResults() != 1 || widens(op) ||
      getRank(op->getResult(0)) == 0 || isReadByLibrary(op->getResult(0)))
    return false;
  Sources sources;
  return findSources(*this, op, op->getResult(0), sources) && sources.statistics &&
         sources.tensors.size() == 1;
}

/// At hand in the backward pass without being kept for it.
bool StepGraph::isAvailable(Value value) const {
  // What no parameter enters (masks, positions, random keys) is cheap, or read in both passes
  // already.
  return !value.getDefiningOp() || getRank(value) == 0 || !isVaried(value);
}

/// Read by the backward pass, also through ops that only move elements, or that it computes again
/// where it reads them. As deep as a chain of such ops.
bool StepGraph::isKept(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      return false;
    if (isNeverKept(user))
      return llvm::any_of(user->getResults(), [&](Value result) { return isKept(result); });
    return isBackward(user);
  });
}

SmallVector<Value> StepGraph::keptResults(Operation *op) const {
  SmallVector<Value> kept;
  if (!isForward(op) || isNeverKept(op))
    return kept;
  for (Value result : op->getResults())
    if (!isAvailable(result) && isKept(result))
      kept.push_back(result);
  return kept;
}

/// Whether one of its values is made of a batch, in place of parameters alone.
bool trainc::isActivation(const StepGraph &graph, const Opportunity &opportunity) {
  return llvm::any_of(opportunity.values, [&](Value value) { return graph.isActivation(value); });
}

StringRef trainc::patternName(Operation *op) { return op->getName().stripDialect(); }

static DimAttr sumOf(MLIRContext *context, ArrayRef<Value> values) {
  DimAttr sum = DimAttr::constant(context, 0);
  for (Value value : values)
    sum = sum + getBytes(value.getType());
  return sum;
}

/// What compromises keep in place goes off what is freed.
DimAttr Opportunity::savedBytes() const {
  return sumOf(op->getContext(), held) - sumOf(op->getContext(), smaller);
}

DimAttr Opportunity::flops() const {
  DimAttr sum = DimAttr::constant(op->getContext(), 0);
  for (Operation *part : ops) {
    auto cost = dyn_cast<CostOpInterface>(part);
    sum = sum + (cost ? cost.getFlops() : train::detail::elementCount(part));
  }
  return sum;
}

DimAttr Opportunity::bytesMoved() const {
  DimAttr sum = DimAttr::constant(op->getContext(), 0);
  for (Operation *part : ops) {
    for (Value value : part->getOperands())
      sum = sum + getBytes(value.getType());
    // Results that nobody reads are not written.
    for (Value value : part->getResults())
      if (!value.use_empty())
        sum = sum + getBytes(value.getType());
  }
  return sum;
}

/// As ONNX Runtime prints shapes, with the separator behind each.
std::string Opportunity::shape() const {
  std::string text;
  for (DimAttr dim : getDims(values.front()))
    text += dim.str() + " x ";
  return text;
}

/// Ops outside of kernels and library calls have effects, or no scheduling form: they run once.
/// Random ops count: their bits follow from key and position, and are the same again.
static bool mayRecompute(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return getFusionRole(op) != FusionRole::None || isa<DecomposableOpInterface>(op)
             ? !cost || cost.getRecomputeClass() != RecomputeClass::Never
             : false;
}

namespace {
struct Search {
  const StepGraph &graph;
  const llvm::DenseSet<Operation *> &ends;
  bool compromise;
  llvm::SmallSetVector<Operation *, 8> ops;
  llvm::SmallSetVector<Value, 2> smaller;

  /// False where something above cannot be rematerialized.
  /// Collects what it takes to compute an op again from values that the backward pass has. Each op
  /// once.
  bool visit(Operation *op) {
    if (!mayRecompute(op))
      return false;
    if (!ops.insert(op))
      return true;
    // Stops at the narrow operand, which is kept then.
    if (compromise && StepGraph::widens(op) && !graph.isAvailable(op->getOperand(0))) {
      smaller.insert(op->getOperand(0));
      return true;
    }
    return llvm::all_of(op->getOperands(), [&](Value operand) { return follow(operand); });
  }
  bool follow(Value value) {
    if (graph.isAvailable(value))
      return true;
    Operation *def = value.getDefiningOp();
    if (StepGraph::isFree(def))
      return llvm::all_of(def->getOperands(), [&](Value operand) { return follow(operand); });
    return ends.contains(def) || visit(def);
  }
};
} // namespace

/// What is in memory for kept values: of a widening cast, which every reader makes again, the
/// operand, unless that is kept in any case.
static SmallVector<Value> heldFor(const StepGraph &graph, const llvm::DenseSet<Operation *> &ends,
                                  ArrayRef<Value> kept) {
  SmallVector<Value> held;
  for (Value value : kept) {
    Operation *def = value.getDefiningOp();
    if (!StepGraph::widens(def))
      held.push_back(value);
    else if (Value narrow = def->getOperand(0);
             !graph.isAvailable(narrow) && !ends.contains(narrow.getDefiningOp()))
      held.push_back(narrow);
  }
  return held;
}

/// Whether all that `op` makes is small beside what `ops` sum up for it.
static bool isStatistic(Operation *op, ArrayRef<Operation *> ops) {
  return llvm::any_of(ops, [&](Operation *part) {
    return getFusionRole(part) == FusionRole::Reduction &&
           llvm::any_of(part->getOperands(), [&](Value operand) {
             return llvm::all_of(op->getResults(),
                                 [&](Value value) { return isSmallBeside(value, operand); });
           });
  });
}

/// Whether less lies in memory with a compromise than without it.
static bool keepsLess(const Opportunity &entry) {
  auto guess = [](double sum, Value value) { return sum + guessBytes(value); };
  return std::accumulate(entry.smaller.begin(), entry.smaller.end(), 0.0, guess) <
         std::accumulate(entry.held.begin(), entry.held.end(), 0.0, guess);
}

std::vector<Opportunity> trainc::findOpportunities(const StepGraph &graph) {
  llvm::DenseSet<Operation *> candidates;
  for (Operation *op : graph.forward)
    if (!graph.keptResults(op).empty())
      candidates.insert(op);
  // What a layer passes on is where a chain ends, too, though the backward pass may read it in
  // another type only: else a chain would reach back to the model's input.
  llvm::DenseSet<Operation *> ends = candidates;
  for (const Layer &layer : findLayers(graph))
    for (Value output : layer.outputs)
      if (Operation *def = output.getDefiningOp())
        ends.insert(def);
  std::vector<Opportunity> found;
  for (Operation *op : graph.forward) {
    if (!candidates.contains(op))
      continue;
    // In this order: rows of the table and counts of a configuration are in it.
    for (bool compromise : {false, true}) {
      Search search{graph, ends, compromise, {}, {}};
      // Nothing is gained where what is kept instead is as large.
      if (!search.visit(op) || (compromise && search.smaller.empty()))
        continue;
      // Statistics take next to nothing, and a pass over all that they are of.
      if (isStatistic(op, search.ops.getArrayRef()))
        continue;
      // The search stops at ends, so `ops` are those between what is kept.
      Opportunity entry{op,
                        SmallVector<Operation *>(search.ops.begin(), search.ops.end()),
                        graph.keptResults(op),
                        {},
                        {},
                        SmallVector<Value>(search.smaller.begin(), search.smaller.end())};
      // In program order, for the pattern's name and for cloning.
      llvm::sort(entry.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
      entry.held = heldFor(graph, ends, entry.values);
      // A wide logit is made again of the narrow one anyway; that it then lives on beside its
      // gradient, which takes its memory otherwise, would be all that a compromise changes.
      if (compromise && !keepsLess(entry))
        continue;
      for (Operation *part : entry.ops)
        entry.pattern += patternName(part).str() + "+";
      found.push_back(std::move(entry));
    }
  }
  return found;
}

/// The ops, in program order, that end in `op` and have these names, each reading the one before,
/// moved elements looked through. Takes the first way that fits; names are few.
SmallVector<Operation *> trainc::findChain(const StepGraph &graph, Operation *op,
                                           ArrayRef<std::string> names) {
  if (names.empty() || patternName(op) != names.back() || !mayRecompute(op))
    return {};
  names = names.drop_back();
  if (names.empty())
    return {op};
  SmallVector<Value> above(op->getOperands());
  while (!above.empty()) {
    Value value = above.pop_back_val();
    if (graph.isAvailable(value))
      continue;
    Operation *def = value.getDefiningOp();
    if (StepGraph::isFree(def)) {
      above.append(def->operand_begin(), def->operand_end());
      continue;
    }
    SmallVector<Operation *> chain = findChain(graph, def, names);
    if (!chain.empty()) {
      chain.push_back(op);
      return chain;
    }
  }
  return {};
}
