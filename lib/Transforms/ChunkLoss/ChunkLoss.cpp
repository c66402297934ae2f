// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `chunk-loss`. What is to be chunked is found from the loss upwards, as far as values are
// as wide as its rows; it is then cloned for the rows of each chunk and differentiated there.

#include "lib/Transforms/ChunkLoss/ChunkLoss.h"

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/RowMoves.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/AutoDiff/AutoDiff.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_CHUNKLOSSPASS
#include "lib/Transforms/ChunkLoss/ChunkLoss.h.inc"
} // namespace trainc

namespace {

/// Weights with fewer elements may be trained: their gradients are added up.
constexpr int64_t kSmallWeight = 1 << 22;

class Chunker {
public:
  Chunker(func::FuncOp function, IgnoredRowsOpInterface loss, int64_t chunks, int64_t minRows,
          int64_t minClasses)
      : function(function), loss(loss), chunks(chunks), minRows(minRows), minClasses(minClasses),
        builder(function.getContext()), tb(builder, loss->getLoc()) {}

  /// Why the loss is left as it is; empty where it has been chunked.
  FailureOr<std::string> run() {
    if (std::string reason = analyze(); !reason.empty())
      return reason;
    // Everything is built at the end; what the losses feed moves behind it (emit).
    Operation *terminator = function.getBody().front().getTerminator();
    builder.setInsertionPoint(terminator);
    // The gradient of the losses themselves, of the whole loss: what each chunk's gradients are
    // scaled by.
    FailureOr<SmallVector<Value>> seeds = buildCotangents(
        builder, total, tb.scalar(getElementTypeOrSelf(total.getType()), 1), loss->getResult(0));
    if (failed(seeds))
      return failure();
    Value seed = seeds->front();
    if (!seed)
      return std::string("the loss does not depend on it");
    if (dependsOnLoss(seed)) {
      // What was built for the question.
      eraseDeadOps(function.getBody().front());
      return std::string("its gradient depends on the losses");
    }
    if (failed(emit(seed)))
      return failure();
    return std::string();
  }

private:
  //===--------------------------------------------------------------------===//
  // What is chunked
  //===--------------------------------------------------------------------===//

  /// Fills the members that describe the loss; a reason, if it cannot be chunked. Nothing is
  /// changed.
  std::string analyze() {
    logits = loss->getOperand(0);
    if (loss->getNumOperands() != 2 || !isa<FloatType>(getElementTypeOrSelf(logits.getType())))
      return "it has other operands than rows of numbers and labels";
    // Chunks would have to tell these as well.
    for (OpResult result : loss->getResults())
      if (result.getResultNumber() > 0 && !result.use_empty())
        return "more than its losses is read";
    classes = getDims(logits).back();
    std::optional<int64_t> width = classes.getConstant();
    if (!width || *width < minClasses)
      return "its rows have fewer than " + std::to_string(minClasses) + " numbers";
    rows = getNumElements(loss->getResult(0).getType());
    // A symbolic number of rows may be large.
    if (rows.getConstant().value_or(minRows + 1) <= minRows)
      return "it has no more than " + std::to_string(minRows) + " rows";
    total = {};
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (getResultRole(function, i) == "loss")
        total = function.getBody().front().getTerminator()->getOperand(i);
    if (!total || getRank(total) != 0)
      return "the function returns no loss";
    for (const Projection &projection : findProjections(function))
      projections.insert(projection.op);
    findTrained();
    // From the logits upwards, as far as values are wide.
    if (std::string reason = visit(logits); !reason.empty())
      return reason;
    if (!reachedProjection)
      return "no projection makes its rows";
    // Else all rows would be there after all.
    // A reader outside needs all rows: nothing would be saved.
    for (Operation *op : chunked)
      for (Operation *user : op->getUsers())
        if (!chunked.contains(user) && user != loss)
          return describeOp(op) + " is read by " + describeOp(user) + " too";
    return {};
  }

  /// What depends on trained parameters.
  /// Forwards through the block, in one sweep.
  void findTrained() {
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), kTrainableAttr))
        trained.insert(argument);
    for (Operation &op : function.getBody().front())
      if (llvm::any_of(op.getOperands(), [&](Value value) { return trained.contains(value); }))
        trained.insert(op.result_begin(), op.result_end());
  }

  /// A value of all rows, and of at least as many numbers in each as the loss takes.
  /// Such values are what chunking saves: as many numbers as the logits.
  bool isWide(Value value) {
    if (getRank(value) < 1 || !isa<FloatType>(getElementTypeOrSelf(value.getType())))
      return false;
    SmallVector<DimAttr> dims = getDims(value);
    DimAttr last = dims.pop_back_val();
    std::optional<int64_t> width = last.getConstant();
    return width && *width >= *classes.getConstant() && product(tb.context(), dims) == rows;
  }
  /// The loop over the rows of a matrix; none if the op is something else.
  /// The op can then be computed for some rows alone.
  std::optional<unsigned> rowLoop(Operation *op) {
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped || op->getNumResults() != 1 || getRank(op->getResult(0)) != 2)
      return std::nullopt;
    int loop = mapped.getAxisMap().results[0][0];
    if (loop < 0 || !whyNotRestricted(mapped, {unsigned(loop)}, false).empty() ||
        mapped.getAxisMap().loops[loop] != LoopKind::Parallel)
      return std::nullopt;
    return unsigned(loop);
  }
  /// Elements that do not look at where they are, of any rank.
  /// An op that counts positions would count them from the chunk's beginning.
  static bool isElementwise(Operation *op) {
    auto pointwise = dyn_cast<PointwiseOpInterface>(op);
    return pointwise && op->getNumResults() == 1 && !dependsOnPlace(pointwise);
  }

  /// Takes in what is to be computed in chunks; a reason if something stands in the way. Values
  /// that are not wide are cut by slices.
  std::string visit(Value value) {
    Operation *def = value.getDefiningOp();
    if (!isWide(value) || !def || !chunked.insert(def))
      return {};
    if (keepsColumns(def) || isElementwise(def)) {
      for (Value operand : def->getOperands())
        if (std::string reason = visit(operand); !reason.empty())
          return reason;
      return {};
    }
    if (!rowLoop(def)) {
      // Its result is cut instead.
      chunked.remove(def);
      // Repeated numbers are cut where they are; matmuls would all be there.
      return projections.contains(def) ? describeOp(def) + " does not keep rows apart" : "";
    }
    if (projections.contains(def)) {
      reachedProjection = true;
      // A large weight's gradient would be as large as the weight for each chunk, and added up; a
      // small one's is worth it.
      for (Value operand : def->getOperands())
        if (trained.contains(operand) && !hasRows(def, operand) &&
            getNumElements(operand.getType()).getConstant().value_or(kSmallWeight) >= kSmallWeight)
          return "the weight of " + describeOp(def) + " is trained";
    }
    for (Value operand : def->getOperands())
      if (std::string reason = visit(operand); !reason.empty())
        return reason;
    return {};
  }
  /// Whether an operand is cut with the rows: otherwise all chunks read it whole.
  bool hasRows(Operation *op, Value operand) {
    AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
    for (auto [value, axes] : llvm::zip_equal(op->getOperands(), map.operands))
      if (value == operand && llvm::is_contained(axes, int(*rowLoop(op))))
        return true;
    return false;
  }

  bool dependsOnLoss(Value value) {
    llvm::SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    (void)getBackwardSlice(value, &slice, options);
    return slice.contains(loss);
  }

  //===--------------------------------------------------------------------===//
  // Chunks
  //===--------------------------------------------------------------------===//

  /// Clones, for each chunk of rows, the loss and what makes its logits, and differentiates the
  /// clone right there, so that its wide values live for one chunk only.
  LogicalResult emit(Value seed) {
    // What is made of the losses comes after them.
    Operation *terminator = function.getBody().front().getTerminator();
    llvm::SetVector<Operation *> later;
    for (Operation &op : *loss->getBlock())
      if (&op != terminator && llvm::any_of(op.getOperands(), [&](Value operand) {
            Operation *def = operand.getDefiningOp();
            return def && (def == loss || later.contains(def));
          }))
        later.insert(&op);
    SmallVector<Value> losses;
    const std::optional<int64_t> known = rows.getConstant();
    // Rows for each chunk: rounded up, at least minRows. With symbolic rows later chunks may be
    // empty.
    DimAttr size =
        maxDim(floorDiv(rows + tb.dimAttr(chunks - 1), tb.dimAttr(chunks)), tb.dimAttr(minRows));
    const int64_t count = known ? (*known + *size.getConstant() - 1) / *size.getConstant() : chunks;
    for (int64_t i = 0; i < count; ++i) {
      // Both ends are clamped: an extent is never negative.
      start = i ? minDim(size * tb.dimAttr(i), rows) : tb.dimAttr(0);
      extent = (i + 1 < count ? minDim(size * tb.dimAttr(i + 1), rows) : rows) - start;
      // Clones are of this chunk; gradients collect over all.
      clones.clear();
      leaves.clear();
      Value part = cloneLoss();
      if (failed(differentiate(part, slice(seed))))
        return failure();
      losses.push_back(part);
    }
    // In the order of the rows.
    Value whole = tb.reshape(tb.concat(losses, 0), getDims(loss->getResult(0)));
    loss->getResult(0).replaceAllUsesWith(whole);
    // In their order; they are behind the losses now.
    for (Operation *op : later)
      op->moveBefore(terminator);
    builder.setInsertionPoint(terminator);
    SmallVector<Value> values, sums;
    for (auto &[value, parts] : gradients) {
      values.push_back(value);
      // Gradients of rows lie behind each other; those of whole values add up.
      if (value.getDefiningOp() && parts.rows) {
        sums.push_back(tb.reshape(tb.concat(parts.values, 0), getDims(value)));
        continue;
      }
      Value sum;
      for (Value part : parts.values)
        sum = tb.add(sum, part);
      sums.push_back(sum);
    }
    // The gradient is given with the loss: differentiating does not look inside any more.
    Value result = tb.withGradient(total, values, sums);
    total.replaceUsesWithIf(result, [&](OpOperand &use) { return use.getOwner() == terminator; });
    eraseDeadOps(*terminator->getBlock());
    return success();
  }

  Value flat(Value value) {
    SmallVector<DimAttr> dims = getDims(value);
    DimAttr last = dims.pop_back_val();
    return tb.reshape(value, {product(tb.context(), dims), last});
  }
  /// This chunk's part of rows of one or more axes.
  Value slice(Value value) {
    Value all = getRank(value) > 1 && getNumElements(value.getType()) != rows
                    ? flat(value)
                    : tb.reshape(value, {rows});
    return tb.sliceAxis(all, 0, start, extent);
  }

  Value cloneLoss() {
    IRMapping mapping;
    Value labels = loss->getOperand(1);
    mapping.map(logits, rowsOf(logits));
    mapping.map(labels, slice(labels));
    Operation *copy = builder.clone(*loss.getOperation(), mapping);
    // The clone has its operand's rows; attributes are the loss's own.
    for (OpResult result : copy->getResults())
      result.setType(getTensorType({extent}, getElementTypeOrSelf(result.getType())));
    return copy->getResult(0);
  }

  /// This chunk's rows of a value, as a matrix.
  /// Once for each value and chunk.
  Value rowsOf(Value value) {
    Value &known = clones[value];
    if (known)
      return known;
    Operation *def = value.getDefiningOp();
    Value result;
    // A boundary: cut here. If it is trained, gradients go to it.
    if (!isWide(value) || !def || !chunked.contains(def)) {
      result = slice(value);
      if (trained.contains(value))
        leaves[value] = {result, true};
    } else if (keepsColumns(def)) {
      result = rowsOf(def->getOperand(0));
    } else if (isElementwise(def)) {
      IRMapping mapping;
      // Scalars are shared by all rows.
      for (Value operand : def->getOperands())
        if (getRank(operand) > 0)
          mapping.map(operand, rowsOf(operand));
      Operation *copy = builder.clone(*def, mapping);
      result = copy->getResult(0);
      result.setType(
          getTensorType({extent, getDims(value).back()}, getElementTypeOrSelf(value.getType())));
    } else {
      unsigned loop = *rowLoop(def);
      SmallVector<Value> operands;
      for (Value operand : def->getOperands()) {
        const bool isCut = hasRows(def, operand);
        operands.push_back(isCut ? rowsOf(operand) : operand);
        // Weights that are trained get a gradient from each chunk.
        if (!isCut && trained.contains(operand))
          leaves[operand] = {operand, false};
      }
      auto select = [&](TrainBuilder &, Value part, int64_t) { return slice(part); };
      result =
          restrictLoops(tb, cast<AxisMapOpInterface>(def), operands, {loop}, extent, false, select)
              ->getResult(0);
    }
    return clones[value] = result;
  }

  /// Gradients of this chunk with respect to its leaves. MapVector: the order of insertion, in
  /// every compilation the same.
  LogicalResult differentiate(Value part, Value seed) {
    SmallVector<Value> wanted;
    for (auto &[value, leaf] : leaves)
      wanted.push_back(leaf.value);
    FailureOr<SmallVector<Value>> found = buildCotangents(builder, part, seed, wanted);
    if (failed(found))
      return failure();
    for (auto [entry, gradient] : llvm::zip_equal(leaves, *found))
      if (gradient) {
        Gradient &sum = gradients[entry.first];
        sum.rows = entry.second.rows;
        sum.values.push_back(gradient);
      }
    return success();
  }

  /// A value that gradients go to: of this chunk's rows, or one for all of them.
  struct Leaf {
    Value value;
    bool rows;
  };
  struct Gradient {
    SmallVector<Value> values;
    bool rows = false;
  };

  func::FuncOp function;
  IgnoredRowsOpInterface loss;
  int64_t chunks, minRows, minClasses;
  OpBuilder builder;
  TrainBuilder tb;
  Value logits, total;
  DimAttr classes, rows, start, extent;
  bool reachedProjection = false;
  llvm::DenseSet<Operation *> projections;
  llvm::DenseSet<Value> trained;
  llvm::SetVector<Operation *> chunked;
  DenseMap<Value, Value> clones;
  llvm::MapVector<Value, Leaf> leaves;
  llvm::MapVector<Value, Gradient> gradients;
};

struct ChunkLossPass : trainc::impl::ChunkLossPassBase<ChunkLossPass> {
  using ChunkLossPassBase::ChunkLossPassBase;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!function)
      return;
    SmallVector<IgnoredRowsOpInterface> losses;
    // Collected first: clones are losses, too.
    function.walk([&](IgnoredRowsOpInterface op) { losses.push_back(op); });
    for (IgnoredRowsOpInterface loss : losses) {
      auto options = [](StringRef name) {
        return remark::RemarkOpts::name(name).category("chunk-loss").function("forward");
      };
      Location loc = loss->getLoc();
      std::string what = describeOp(loss);
      FailureOr<std::string> reason = Chunker(function, loss, chunks, minRows, minClasses).run();
      if (failed(reason))
        return signalPassFailure();
      if (reason->empty())
        remark::passed(loc, options("Chunked"))
            << remark::add("{0} is computed in {1} chunks", what, int64_t(chunks));
      else
        remark::missed(loc, options("NotChunked"))
            << remark::add("{0} is computed at once", what) << remark::reason("{0}", *reason);
    }
  }
};
} // namespace
