// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `eliminate-padding`: a copy of @forward in which tokens lie behind each other.

#include "lib/Transforms/EliminatePadding/EliminatePadding.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/EliminatePadding/PaddingFlow.h"
#include "lib/Transforms/EliminatePadding/TokenAxes.h"
#include "lib/Transforms/Support/PackedRows.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Formulas/Sequences.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ELIMINATEPADDINGPASS
#include "lib/Transforms/EliminatePadding/EliminatePadding.h.inc"
} // namespace trainc

/// Where the model reads its mask.
static Location locationOf(BlockArgument mask) {
  return mask.use_empty() ? mask.getLoc() : (*mask.user_begin())->getLoc();
}

namespace {
/// Rewrites one function. Ops stay where they are; packed ones are made beside them, and what they
/// replace is dead in the end.
class Packer {
public:
  /// `symbols`: the module that declares the sizes.
  Packer(func::FuncOp function, const PaddingInputs &inputs, DimAttr tokens, ModuleOp symbols)
      : function(function), mask(inputs.mask.input), padding(inputs.mask.value), tokens(tokens),
        samples(getDim(mask, 0)), positions(getDim(mask, 1)), builder(function.getContext()),
        contents(PaddingFlow(function).findContents(inputs)) {
    // Selections by these counts choose labelled rows, which are tokens.
    for (auto [argument, ignored] : inputs.labels)
      if (auto count = findCountSymbol(symbols, getArgName(function, argument), ignored,
                                       CountKind::elements))
        labelCounts.push_back(*count);
  }

  void run() {
    // Arguments whose first axes are those of the mask hold a row for each token.
    for (BlockArgument argument : function.getArguments()) {
      if (getArgRole(function, argument.getArgNumber()) == "parameter")
        parametric.insert(argument);
      SmallVector<DimAttr> dims = getDims(argument);
      if (dims.size() >= 2 && dims[0] == samples && dims[1] == positions)
        axes[argument].push_back({0, 1});
    }
    Block &block = function.getBody().front();
    builder.setInsertionPointToStart(&block);
    TrainBuilder tb(builder, locationOf(mask));
    Value flat = tb.reshape(mask, {samples * positions});
    rows =
        buildPackedRows(tb, tb.compare("ne", flat, tb.scalarLike(flat, double(padding))), tokens);
    (void)ofTokens(tb, rows.rows); // ahead of all that later passes may move
    SmallVector<Operation *> ops;
    // Collected before anything is made: new ops are not visited.
    for (Operation &op : llvm::make_range(builder.getInsertionPoint(), block.end()))
      ops.push_back(&op);
    for (Operation *op : ops)
      visit(op);
    eraseDeadOps(block);
  }

  /// Why zeros at padding will not do for the values that were put back into their rectangle; empty
  /// if they will.
  /// `real`: positions of every sample that are known to hold a token.
  std::string whyNotZeros(const PaddingInputs &inputs, ArrayRef<int64_t> real) {
    SmallVector<PaddingFlow::Filled> filled;
    std::string why;
    function.walk([&](Operation *op) {
      for (Value result : op->getResults()) {
        auto it = rectangleOf.find(result);
        if (it == rectangleOf.end())
          continue;
        filled.push_back({result, it->second.axes});
        if (why.empty())
          why = it->second.neverZero;
      }
    });
    // The first reason in program order.
    return why.empty() ? PaddingFlow(function).findHazard(inputs, {filled, tokenRows, real}) : why;
  }

  unsigned numPacked() const { return packedOps; }
  ArrayRef<Operation *> getRectangles() const { return rectangles; }

private:
  /// Packs one op, or leaves it in the rectangle with its packed operands put back.
  void visit(Operation *op) {
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return parametric.contains(operand); }))
      parametric.insert(op->result_begin(), op->result_end());
    builder.setInsertionPoint(op);
    TrainBuilder tb(builder, op->getLoc());
    track(op);
    // In this order: selections and views are cheaper forms of what packMapped would do.
    if (packSelection(tb, op) || packView(tb, op) || packMapped(tb, op))
      return;
    if (auto select = dyn_cast<RowSelectionOpInterface>(op))
      selectTokensOnly(tb, select);
    if (mixesTokens(op) || mixesSequences(op))
      mixed.insert(op->result_begin(), op->result_end());
    bool whole = false;
    for (OpOperand &operand : op->getOpOperands())
      if (packed.contains(operand.get())) {
        operand.set(unpack(operand.get()));
        whole = true;
      }
    if (whole)
      rectangles.push_back(op);
  }

  //===--------------------------------------------------------------------===//
  // Which axes hold tokens
  //===--------------------------------------------------------------------===//

  /// Finds which axes of the results hold tokens, from those of the operands: independent of
  /// whether anything is packed.
  void track(Operation *op) {
    if (isView(op)) {
      Value from = op->getOperand(0), to = op->getResult(0);
      for (const TokenAxes &entry : SmallVector<TokenAxes, 1>(axes.lookup(from)))
        if (TokenAxes found = throughView(getDims(from), getDims(to), entry, samples, positions);
            !found.empty())
          add(to, found);
      return;
    }
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped)
      return;
    AxisMap map = mapped.getAxisMap();
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands))
      for (const TokenAxes &tokenAxes : SmallVector<TokenAxes, 1>(axes.lookup(operand))) {
        SmallVector<unsigned> loops = loopsOf(entry, tokenAxes);
        // Also where they are mixed along the axis: weights of tokens for tokens have two pairs.
        if (loops.empty())
          continue;
        for (auto [result, results] : llvm::zip_equal(op->getResults(), map.results))
          if (auto found = findAxes(results, loops); found && !found->empty())
            add(result, TokenAxes(ArrayRef<int64_t>(*found)));
      }
  }
  /// An entry is a pair of axes (samples, positions) or one merged axis.
  void add(Value value, const TokenAxes &entry) {
    auto &known = axes[value];
    // Sizes, not only loops: a part of the positions is not all tokens.
    if (rowsPerItem(getDims(value), entry, samples, positions) && !llvm::is_contained(known, entry))
      known.push_back(entry);
  }

  /// Whether the axes of tokens hold nothing else, or what each token has several of.
  bool isPackable(Value value) {
    const TokenAxes &entry = axes[value].front();
    return entry.size() == 1 ||
           rowsPerItem(getDims(value), entry, samples, positions).isConstant(1);
  }

  /// The size of the last of the axes once `value` is packed.
  DimAttr packedSize(Value value, const TokenAxes &entry) {
    return entry.size() == 1 ? tokens * rowsPerItem(getDims(value), entry, samples, positions)
                             : tokens;
  }

  enum class Move {
    Pack,
    /// Slots left over repeat a token, not any row: at padding there may be zeros that the plain
    /// step does not have.
    PackTokens,
    Unpack
  };
  /// Selects along an axis of all tokens, or of packed ones, each of which may have several rows.
  /// Axes with several rows for each token are split for the selection, and merged again.
  Value selectTokens(TrainBuilder &tb, Value value, int64_t axis, Move move) {
    const bool packs = move != Move::Unpack;
    SmallVector<DimAttr> dims = getDims(value);
    DimAttr from = packs ? samples * positions : tokens, to = packs ? tokens : samples * positions;
    DimAttr several = divideExactly(dims[axis], from);
    auto select = [&](Value v) {
      if (move != Move::PackTokens)
        return packs ? rows.pack(tb, v, axis) : rows.unpack(tb, v, axis);
      Value selected = tb.selectRows(v, ofTokens(tb, rows.rows), rows.slots, axis);
      tokenRows.push_back(selected);
      return selected;
    };
    if (several.isConstant(1))
      return select(value);
    dims[axis] = from;
    dims.insert(dims.begin() + axis + 1, several);
    Value selected = select(tb.reshape(value, dims));
    dims.erase(dims.begin() + axis);
    dims[axis] = to * several;
    return tb.reshape(selected, dims);
  }

  /// Whether the op sums tokens up, so that its result has no axis for them.
  bool mixesTokens(Operation *op) {
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped)
      return false;
    AxisMap map = mapped.getAxisMap();
    auto remains = [&](unsigned loop) {
      return llvm::any_of(
          map.results, [&](ArrayRef<int> entry) { return llvm::is_contained(entry, int(loop)); });
    };
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands))
      for (const TokenAxes &tokenAxes : axes.lookup(operand))
        for (unsigned loop : loopsOf(entry, tokenAxes))
          if (map.loops[loop] == LoopKind::Reduction && !remains(loop))
            return true;
    return false;
  }
  /// Whether all tokens of a sample share an operand, and the others were computed in the
  /// rectangle: weights of tokens for those of another sequence, with these.
  bool mixesSequences(Operation *op) {
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped)
      return false;
    AxisMap map = mapped.getAxisMap();
    bool shares = false;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      if (packed.contains(operand))
        return false;
      for (const TokenAxes &tokenAxes : axes.lookup(operand)) {
        SmallVector<unsigned> loops = loopsOf(entry, tokenAxes);
        shares |= llvm::any_of(map.operands,
                               [&](ArrayRef<int> other) { return !findAxes(other, loops); });
      }
    }
    return shares;
  }
  /// Below reshapes: what made the elements.
  static Value originOf(Value value) {
    while (value.getDefiningOp() && isView(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return value;
  }

  //===--------------------------------------------------------------------===//
  // Packing ops
  //===--------------------------------------------------------------------===//

  /// Rows of packed tokens that are selected: their slots are.
  bool packSelection(TrainBuilder &tb, Operation *op) {
    auto select = dyn_cast<RowSelectionOpInterface>(op);
    if (!select || !packed.contains(select.getData()))
      return false;
    const TokenAxes &tokenAxes = axes[select.getData()].front();
    if (tokenAxes.size() != 1 || tokenAxes[0] != int64_t(select.getAxis()) ||
        packedSize(select.getData(), tokenAxes) != tokens)
      return false;
    // Of a row that is no token the slot is -1, which selects zeros: what the row holds then.
    Value index = gatherSlots(tb, select.getIndex());
    if (selectsLabelled(select))
      index = slotsOf(tb, select.getIndex());
    else if (!contents.holdsZero(select.getData(), tokenAxes))
      return false;
    // Which row each slot was selected for; -1 where none was.
    Value inverse = tb.gather(select.getInverse(), rows.rows, 0), none = tb.scalarLike(inverse, -1);
    Value taken = tb.compare("ge", rows.rowsOrNone, tb.scalarLike(rows.rowsOrNone, 0));
    inverse = tb.select(taken, inverse, none);
    Value result = tb.selectRows(packed.lookup(select.getData()), index, inverse, select.getAxis());
    // Its result is a selection as before, not packed: rows that were chosen.
    select->getResult(0).replaceAllUsesWith(result);
    parametric.insert(result);
    ++packedOps;
    return true;
  }

  /// Whether rows with a label are selected, which all are tokens: but for slots that are left
  /// over.
  bool selectsLabelled(RowSelectionOpInterface select) {
    return llvm::is_contained(labelCounts, getDim(select.getIndex(), 0));
  }

  /// The slots of rows that are selected, -1 of what is no token.
  Value gatherSlots(TrainBuilder &tb, Value index) {
    return tb.gather(rows.slots, tb.max(index, tb.scalarLike(index, 0)), 0);
  }
  /// The same; of what is no token, the first.
  Value slotsOf(TrainBuilder &tb, Value index) {
    return tb.max(gatherSlots(tb, index), tb.scalarLike(index, 0));
  }

  /// The same rows where they are tokens; the first token in place of others.
  Value ofTokens(TrainBuilder &tb, Value index) {
    Value &made = indexOfTokens[index];
    if (!made)
      made = tb.gather(rows.rows, slotsOf(tb, index), 0);
    return made;
  }

  /// Slots that a selection of the rectangle's rows has left over repeat a token's, too.
  /// Padding must not be read through them: the proof knows tokens only.
  void selectTokensOnly(TrainBuilder &tb, RowSelectionOpInterface select) {
    const TokenAxes merged = {int64_t(select.getAxis())};
    if (!llvm::is_contained(axes.lookup(select.getData()), merged) ||
        getDim(select.getData(), select.getAxis()) != samples * positions ||
        !selectsLabelled(select))
      return;
    select.getIndexMutable().set(ofTokens(tb, select.getIndex()));
    tokenRows.push_back(select->getResult(0));
  }

  /// Views that merge or split the two axes, or leave them alone.
  bool packView(TrainBuilder &tb, Operation *op) {
    if (!isView(op) || !packed.contains(op->getOperand(0)) || axes[op->getResult(0)].size() != 1 ||
        !isPackable(op->getResult(0)))
      return false;
    TokenAxes to = axes[op->getResult(0)].front();
    SmallVector<DimAttr> dims = getDims(op->getResult(0));
    for (int64_t axis : to)
      dims[axis] = tb.dimAttr(1);
    dims[to.back()] = packedSize(op->getResult(0), to);
    // Axes between the two would change places.
    TokenAxes from = axes[op->getOperand(0)].front();
    if (from.size() != to.size() && (from.back() != from.front() + int64_t(from.size()) - 1 ||
                                     to.back() != to.front() + int64_t(to.size()) - 1))
      return false;
    packed[op->getResult(0)] = tb.reshape(packed[op->getOperand(0)], dims);
    ++packedOps;
    return true;
  }

  /// An op whose loops over tokens can be restricted to some: it is made again for the packed ones
  /// alone.
  bool packMapped(TrainBuilder &tb, Operation *op) {
    // What no parameter enters costs little, and may be what masks are made of: it stays as it is.
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped || !isPure(op) || op->getNumResults() == 0 ||
        !parametric.contains(op->getResult(0)))
      return false;
    AxisMap map = mapped.getAxisMap();
    // The first operand with one kind of token axis decides the loops.
    SmallVector<unsigned> loops;
    DimAttr extent;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      const auto &known = axes[operand];
      // Scores of tokens for tokens have two pairs of axes: they stay a rectangle.
      if (known.size() != 1 || !isPackable(operand))
        continue;
      loops = loopsOf(entry, known.front());
      extent = packedSize(operand, known.front());
      if (!loops.empty())
        break;
    }
    // Loops that carry values from one token to the next cannot be restricted.
    if (loops.empty() || !whyNotRestricted(mapped, loops, /*isPrefix=*/false).empty())
      return false;
    // Each result must have these axes, and what is known of its padding must allow it.
    for (auto [result, results] : llvm::zip_equal(op->getResults(), map.results)) {
      auto found = findAxes(results, loops);
      if (!found || found->empty() ||
          !llvm::is_contained(axes[result], TokenAxes(ArrayRef<int64_t>(*found))) ||
          axes[result].size() != 1 || !isPackable(result) || !contents.isPackable(result, *found))
        return false;
    }
    // Of the results of ops in the rectangle, those are packed that came of mixing tokens with each
    // other or with another sequence: attention, but not its scores.
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands))
      if (!findAxes(entry, loops)->empty() && parametric.contains(operand) &&
          !packed.contains(operand) && !axes[operand].empty() && !mixed.contains(originOf(operand)))
        return false;
    // Operands without these loops are read as they are.
    SmallVector<Value> operands;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      SmallVector<int64_t> found = *findAxes(entry, loops);
      operands.push_back(found.empty() ? operand
                                       : pack(tb, operand, TokenAxes(ArrayRef<int64_t>(found))));
    }
    auto select = [&](TrainBuilder &b, Value value, int64_t axis) {
      return selectTokens(b, value, axis, Move::Pack);
    };
    Operation *small =
        restrictLoops(tb, mapped, operands, loops, extent, /*isPrefix=*/false, select);
    for (auto [result, made] : llvm::zip_equal(op->getResults(), small->getResults()))
      packed[result] = made;
    ++packedOps;
    return true;
  }

  /// `value` with tokens along `tokenAxes`.
  /// Of the rectangle where `value` is not packed, or along other axes; each form is made once.
  Value pack(TrainBuilder &tb, Value value, const TokenAxes &tokenAxes) {
    auto it = packed.find(value);
    if (it != packed.end() && axes[value].front() == tokenAxes)
      return it->second;
    if (it != packed.end())
      value = unpack(value);
    const bool isComputed = parametric.contains(value);
    Value &made = selected[{value, tokenAxes.front(), tokenAxes.back()}];
    if (std::optional<double> splat = made ? std::nullopt : getSplatValue(value)) {
      // The same wherever it is taken from.
      SmallVector<DimAttr> dims = getDims(value);
      DimAttr size = packedSize(value, tokenAxes);
      for (int64_t axis : tokenAxes)
        dims[axis] = tb.dimAttr(1);
      dims[tokenAxes.back()] = size;
      made = tb.full(dims, getElementType(value), *splat);
    }
    auto select = [&](TrainBuilder &b, Value v, int64_t axis) {
      return selectTokens(b, v, axis, isComputed ? Move::PackTokens : Move::Pack);
    };
    if (!made)
      made = packRepeated(tb, value, tokenAxes, select);
    if (!made)
      made = selectAlong(tb, value, tokenAxes, select);
    return made;
  }

  /// What is repeated for others than tokens, as rotary positions for heads, is packed before that;
  /// null if nothing is.
  Value packRepeated(TrainBuilder &tb, Value value, const TokenAxes &tokenAxes,
                     llvm::function_ref<Value(TrainBuilder &, Value, int64_t)> select) {
    Operation *op = value.getDefiningOp();
    auto mapped = dyn_cast_or_null<AxisMapOpInterface>(op);
    auto access = dyn_cast_or_null<ElementAccessOpInterface>(op);
    if (!mapped || !access || !access.onlyMoves() || isView(op) || isa<SubrangeOpInterface>(op) ||
        op->getNumOperands() != 1 || op->getNumResults() != 1)
      return {};
    AxisMap map = mapped.getAxisMap();
    SmallVector<DimAttr> dims = getDims(value), kept;
    SmallVector<int64_t> keptAxes, sources;
    TokenAxes tokensOfKept;
    // Result axes are read from the operand, repeated for tokens (both kept), or repeated for
    // others (left for later).
    for (auto [axis, loop] : llvm::enumerate(map.results[0])) {
      auto source = llvm::find(map.operands[0], loop);
      const bool isRead = loop >= 0 && source != map.operands[0].end();
      if (loop < 0 || map.loops[loop] != LoopKind::Parallel)
        return {};
      if (!isRead && !llvm::is_contained(tokenAxes, int64_t(axis)))
        continue;
      if (isRead) {
        // In the order of the operand's axes.
        if (source - map.operands[0].begin() != int64_t(sources.size()) ||
            getDim(op->getOperand(0), sources.size()) != dims[axis])
          return {};
        sources.push_back(kept.size());
      }
      if (llvm::is_contained(tokenAxes, int64_t(axis)))
        tokensOfKept.push_back(kept.size());
      keptAxes.push_back(axis);
      kept.push_back(dims[axis]);
    }
    // Nothing is repeated for others, or the operand's axes are not all there.
    if (kept.size() == dims.size() || sources.size() != map.operands[0].size() ||
        !llvm::is_sorted(tokenAxes))
      return {};
    const DimAttr size = packedSize(value, tokenAxes);
    Value small = tb.broadcast(op->getOperand(0), kept, sources);
    small = selectAlong(tb, small, tokensOfKept, select);
    for (int64_t axis : tokenAxes)
      dims[axis] = tb.dimAttr(1);
    dims[tokenAxes.back()] = size;
    return tb.broadcast(small, dims, keptAxes);
  }

  /// A packed value in its rectangle again, zeros at padding.
  Value unpack(Value value) {
    Value &whole = unpacked[value];
    if (whole)
      return whole;
    Value small = packed.lookup(value);
    const TokenAxes &tokenAxes = axes[value].front();
    // Where the packed value is made, so that all readers can use it.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(small);
    TrainBuilder tb(builder, small.getLoc());
    auto expand = [&](TrainBuilder &b, Value v, int64_t axis) {
      return selectTokens(b, v, axis, Move::Unpack);
    };
    SmallVector<DimAttr> sizes;
    for (int64_t axis : tokenAxes)
      sizes.push_back(getDim(value, axis));
    whole = selectAlong(tb, small, tokenAxes, expand, sizes);
    Rectangle &rectangle = rectangleOf[whole];
    rectangle.axes = tokenAxes;
    // The proof takes padding for zeros; a value that is never 0 has to be told.
    if (!contents.holdsZero(value, tokenAxes))
      rectangle.neverZero =
          describeOp(value.getDefiningOp()) + " is never 0, as it would be at padding";
    return whole;
  }

  func::FuncOp function;
  BlockArgument mask;
  int64_t padding;
  DimAttr tokens, samples, positions;
  /// Of inputs of labels: how many are not ignored.
  SmallVector<DimAttr> labelCounts;
  OpBuilder builder;
  PaddingContents contents;
  PackedRows rows;
  /// Axes of tokens; several where tokens meet tokens.
  DenseMap<Value, SmallVector<TokenAxes, 1>> axes;
  /// What depends on a parameter.
  llvm::DenseSet<Value> parametric;
  /// Results of ops that sum up tokens, or weights of tokens for others.
  llvm::DenseSet<Value> mixed;
  /// A value's packed form; that one in the rectangle again; what is packed of other values.
  DenseMap<Value, Value> packed, unpacked;
  /// Values of `unpacked`, some of which nothing reads in the end.
  struct Rectangle {
    TokenAxes axes;
    /// Why zeros at padding are none of what the proof was made for.
    std::string neverZero;
  };
  DenseMap<Value, Rectangle> rectangleOf;
  DenseMap<std::tuple<Value, int64_t, int64_t>, Value> selected;
  /// Indices of rows as `ofTokens` makes them, and what is selected by these.
  DenseMap<Value, Value> indexOfTokens;
  SmallVector<Value> tokenRows;
  unsigned packedOps = 0;
  /// Ops that are computed in the rectangle though an operand is packed.
  SmallVector<Operation *> rectangles;
};

struct EliminatePaddingPass : trainc::impl::EliminatePaddingPassBase<EliminatePaddingPass> {
  using EliminatePaddingPassBase::EliminatePaddingPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    // Independent of padding: documents are counted in any case.
    if (forward)
      countSequences(module, forward);
    auto paddings = forward ? forward->getAttrOfType<ArrayAttr>(kPaddingAttr) : ArrayAttr();
    if (!paddings)
      return;
    forward->removeAttr(kPaddingAttr);
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    // Variants live in a module of their own: names of functions do not collide.
    auto packed = ModuleOp::create(builder, module.getLoc(), kPackedModule);
    auto copy = cast<func::FuncOp>(forward->clone());
    packed.push_back(copy);
    SmallVector<Attribute> conditions;
    // One mask after the other, each upon what the ones before have left; one that fails is undone.
    for (auto padding : paddings.getAsRange<DictionaryAttr>()) {
      func::FuncOp before = copy.clone();
      // Symbols that a failed attempt has declared go, too.
      SmallVector<SymbolOp> symbols(module.getOps<SymbolOp>());
      FailureOr<bool> isPacked = pack(copy, padding);
      if (failed(isPacked)) {
        before.erase();
        return signalPassFailure();
      }
      if (*isPacked) {
        before.erase();
        llvm::append_range(conditions, padding.getAs<ArrayAttr>("conditions"));
        continue;
      }
      copy.erase();
      copy = before;
      packed.push_back(copy);
      for (SymbolOp symbol : llvm::make_early_inc_range(module.getOps<SymbolOp>()))
        if (!llvm::is_contained(symbols, symbol))
          symbol.erase();
    }
    if (conditions.empty())
      packed.erase();
    else
      // All conditions together: a batch must fulfil each.
      packed->setAttr(kConditionsAttr, builder.getArrayAttr(conditions));
  }

private:
  /// For `raise-attention`, which may run between the tokens of documents that positions tell
  /// apart: no batch breaks that, and so it is no variant.
  void countSequences(ModuleOp module, func::FuncOp forward) {
    for (Operation &op : forward.getBody().front()) {
      BlockArgument positions =
          op.getNumResults() == 1 ? findSequences(op.getResult(0)) : BlockArgument();
      if (!positions || getArgRole(forward, positions.getArgNumber()) != "input")
        continue;
      StringRef name = getArgName(forward, positions.getArgNumber());
      for (CountKind kind : {CountKind::sequences, CountKind::longest_sequence})
        getCountSymbol(module, name, 0, bucket, kind);
      remark::passed(
          op.getLoc(),
          remark::RemarkOpts::name("Documents").category("eliminate-padding").function("forward"))
          << remark::add("documents are the sequences of {0} that go up by one", name);
    }
  }

  /// Packs the tokens that one mask tells; false, and a remark, where zeros at padding will not do.
  FailureOr<bool> pack(func::FuncOp function, DictionaryAttr padding) {
    StringRef input = padding.getAs<StringAttr>("input").getValue();
    int64_t value = padding.getAs<IntegerAttr>("value").getInt();
    auto find = [&](StringRef name) -> BlockArgument {
      for (BlockArgument argument : function.getArguments())
        if (getArgRole(function, argument.getArgNumber()) == "input" &&
            getArgName(function, argument.getArgNumber()) == name)
          return argument;
      return {};
    };
    BlockArgument mask = find(input);
    if (!mask) {
      InFlightDiagnostic error = function.emitError("no input ")
                                 << input << ", which train.padding names";
      for (BlockArgument argument : function.getArguments())
        if (getArgRole(function, argument.getArgNumber()) == "input")
          attachNotes(std::move(error), {{"an input", argument}});
      return error;
    }
    DimAttr tokens = getCountSymbol(getOperation(), input, value, bucket);
    // For `raise-attention`, which may run between the tokens of a document.
    if (padding.get("documents"))
      for (CountKind kind : {CountKind::runs, CountKind::longest_run})
        getCountSymbol(getOperation(), input, value, bucket, kind);

    PaddingInputs inputs;
    inputs.mask = padding.get("binary")  ? PaddingMask::binary(mask, value)
                  : padding.get("above") ? PaddingMask::above(mask, value)
                                         : PaddingMask::other(mask, value);
    if (auto beside = padding.getAs<StringAttr>("beside"))
      inputs.mask.beside = find(beside.getValue());
    auto addInputs = [&](StringRef name, DenseMap<unsigned, int64_t> &to) {
      auto values = padding.getAs<DictionaryAttr>(name);
      for (NamedAttribute entry : values ? values : DictionaryAttr::get(&getContext()))
        if (BlockArgument argument = find(entry.getName()))
          to[argument.getArgNumber()] = cast<IntegerAttr>(entry.getValue()).getInt();
    };
    addInputs("labels", inputs.labels);
    addInputs("ids", inputs.ids);
    // The mask's symbols are declared by now.
    Packer packer(function, inputs, tokens, getOperation());
    packer.run();
    auto options = [&](StringRef name) {
      return remark::RemarkOpts::name(name).category("eliminate-padding").function("forward");
    };
    Location here = locationOf(mask);
    // Positions that a condition promises to be tokens.
    SmallVector<int64_t> real;
    for (auto condition : padding.getAs<ArrayAttr>("conditions").getAsRange<DictionaryAttr>())
      if (condition.getAs<StringAttr>("kind").getValue() == "real_at")
        real.push_back(condition.getAs<IntegerAttr>("index").getInt());
    if (std::string why = packer.whyNotZeros(inputs, real); !why.empty()) {
      remark::missed(here, options("Declined"))
          << remark::add("padding is computed like tokens") << remark::reason("{0}", why);
      return false;
    }
    remark::passed(here, options("Packed")) << remark::add(
        "{0} ops compute the {1} tokens that {2} counts", packer.numPacked(), tokens.str(), input);
    // Told after all has been decided: the op itself is fine, it only costs more.
    for (Operation *op : packer.getRectangles())
      if (!op->hasTrait<OpTrait::IsTerminator>())
        remark::missed(op->getLoc(), options("Rectangle"))
            << remark::add("{0} is computed with padding", describeOp(op))
            << remark::reason("it looks across tokens, or has no form of tokens alone");
    return true;
  }
};
} // namespace
