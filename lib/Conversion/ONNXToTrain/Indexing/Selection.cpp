// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NonZero and Compress: rows that a mask selects, as `loss(scores[mask], labels[mask])` is
// exported.
//
// No memory can be planned for as many rows as data say, but nearly always they are only summed up
// in the end. So an axis over them has a size symbol of its own while the graph is legalized, and
// then as many rows as the mask has elements: those that are not selected repeat the first one that
// is, so that nothing they compute is worse than what a selected row computes. Ops that work row by
// row stay what they are; sums and extremes over the axis leave those rows out; the number of rows
// is counted. Everything else, such as a softmax over selected rows, depends on more than that and
// is refused.

#include "lib/Conversion/ONNXToTrain/Indexing/Selection.h"

#include "dialects/Train/Interfaces.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using trainc::train::LoopKind;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

//===- Operators ----------------------------------------------------------===//

/// Whether both are made in the same way: graphs compute `labels > 0` once for each use.
/// Up to some depth: what is deeper counts as different, which costs a second selection.
static bool areEquivalent(Value a, Value b, unsigned depth = 16) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || depth == 0 ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber())
    return false;
  return OperationEquivalence::isEquivalentTo(
      x, y, [&](Value left, Value right) { return success(areEquivalent(left, right, depth - 1)); },
      nullptr, OperationEquivalence::IgnoreLocations);
}

/// A cast that only changes the type, until the selection is resolved.
static Value castTo(TrainBuilder &tb, Value x, ArrayRef<DimAttr> dims) {
  Type type = train::getTensorType(dims, train::getElementType(x));
  return UnrealizedConversionCastOp::create(tb.b(), tb.loc(), type, x).getResult(0);
}

/// The selection of the true elements of a mask of one axis.
/// At most one for equivalent masks, so that rows of both can be combined.
static const Selection &select(NodeContext &c, Value mask) {
  for (const Selection &known : c.state.selections)
    if (areEquivalent(known.mask, mask))
      return known;
  TrainBuilder &tb = c.tb;
  Type integer = tb.b().getI64Type();
  // Flat: callers have made one axis of all.
  Dims all = train::getDims(mask);
  Value position = tb.iota(all, integer, 0), size = tb.dim(all[0], integer);
  Value first =
      tb.reduce(train::ReduceKind::min, tb.select(mask, position, tb.splat(size, position)), {0});
  // Without any selected row, which one is read does not matter.
  first = tb.min(first, tb.sub(size, tb.scalarLike(size, 1)));
  Value rows = tb.select(mask, position, tb.splat(first, position));

  // A name that no user's size has: the symbol is gone in the end.
  std::string name = "selected";
  if (!c.state.selections.empty())
    name += std::to_string(c.state.selections.size() + 1);
  while (c.state.bounds.symbols.contains(tb.b().getStringAttr(name)))
    name += "'";
  DimAttr symbol = DimAttr::symbol(c.context(), name);
  // At least 0 rows, at most any number.
  c.state.bounds.symbols.insert({tb.b().getStringAttr(name), SymbolInfo{0, {}, "", 0}});
  std::string node = c.op.getOpType().str();
  if (auto loc = dyn_cast<NameLoc>(c.op.getLoc()))
    node = loc.getName().str();
  // For messages: what selected them.
  node = ("node '" + node + "' (" + c.op.getOpType() + ", opset " + Twine(c.version()) + ")").str();
  c.state.selections.push_back({mask, castTo(tb, rows, {symbol}), symbol, std::move(node)});
  return c.state.selections.back();
}

static Value isNonZero(TrainBuilder &tb, Value x) {
  return train::getElementType(x).isInteger(1) ? x : tb.compare("ne", x, tb.scalarLike(x, 0));
}

/// The coordinates of the elements that are not zero: one row an axis, one column an element.
static LogicalResult nonZero(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(0);
  // A scalar has no coordinates.
  if (dims.empty())
    return c.fail("it is not supported on a scalar");
  DimAttr all = train::product(c.context(), dims);
  // In row-major order, which is NonZero's.
  Value flat = tb.reshape(isNonZero(tb, c.tensor(0)), {all});
  const Selection &selection = select(c, flat);
  Type integer = tb.b().getI64Type();
  SmallVector<Value> coordinates(dims.size());
  Value rest = selection.rows;
  // From the last axis on: the rest of the number counts the axes before.
  for (int64_t axis = dims.size() - 1; axis >= 0; --axis) {
    Value at = rest;
    if (axis > 0) {
      Value size = tb.splat(tb.dim(dims[axis], integer), rest);
      at = train::ModOp::create(tb.b(), tb.loc(), rest.getType(), rest, size);
      rest = tb.div(tb.sub(rest, at), size);
    }
    coordinates[axis] = tb.reshape(at, {c.dim(1), selection.size});
  }
  return c.set(coordinates.size() == 1 ? coordinates[0] : tb.concat(coordinates, 0));
}

/// The slices along an axis, or the elements, whose condition is true.
static LogicalResult compress(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  int64_t at = 0;
  // Without an axis, of the flattened tensor.
  if (c.rawAttr("axis")) {
    std::optional<int64_t> axis = c.axis(c.attr("axis", int64_t(0)), c.rank(0));
    if (!axis)
      return failure();
    at = *axis;
  } else {
    x = tb.reshape(x, {train::product(c.context(), c.dims(0))});
  }
  if (!c.element(1).isInteger(1) || c.rank(1) != 1 || c.dims(1)[0] != train::getDim(x, at))
    return c.fail("it needs one boolean for each slice of its input");
  // Rows that are not selected repeat one that is.
  return c.set(tb.gather(x, select(c, c.tensor(1)).rows, at));
}

//===- Resolution ---------------------------------------------------------===//

/// Also inside of functions of sizes.
bool mentions(DimAttr dim, DimAttr symbol) {
  bool found = false;
  dim.forEachSymbol([&](StringRef name) { found |= name == *symbol.getSymbol(); });
  return found;
}

namespace {

/// In the type of an operand or a result.
bool mentionsInTypes(Operation *op, DimAttr symbol) {
  auto has = [&](Value value) {
    return llvm::any_of(train::getDims(value), [&](DimAttr dim) { return mentions(dim, symbol); });
  };
  return llvm::any_of(op->getOperands(), has) || llvm::any_of(op->getResults(), has);
}

/// Attributes may have sizes, too, such as those of iota and pad.
bool mentionsInAttributes(Operation *op, DimAttr symbol) {
  bool found = false;
  op->getAttrDictionary().walk([&](DimAttr dim) { found |= mentions(dim, symbol); });
  return found;
}

DimAttr replace(DimAttr dim, DimAttr symbol, DimAttr by) {
  return dim.substitute(
      [&](StringRef name) { return name == *symbol.getSymbol() ? by : DimAttr(); });
}

/// One selection, after all nodes were legalized: every op that knows of the symbol is checked or
/// changed.
class Resolver {
public:
  Resolver(func::FuncOp function, const Selection &selection)
      : function(function), symbol(selection.size), mask(selection.mask), rows(selection.rows),
        node(selection.node) {}

  /// In program order: an op is seen before its users.
  LogicalResult run() {
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if (failed(visit(&op)))
        return failure();
    // The axis gets the size of the mask.
    // Only now: until here the symbol tells which axes are such rows.
    DimAttr all = train::getDim(mask, 0);
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](DimAttr dim) -> std::pair<Attribute, WalkResult> {
      return {replace(dim, symbol, all), WalkResult::skip()};
    });
    replacer.addReplacement([&](RankedTensorType type) -> std::pair<Type, WalkResult> {
      SmallVector<DimAttr> dims = train::getDims(type);
      for (DimAttr &dim : dims)
        dim = replace(dim, symbol, all);
      return {train::getTensorType(dims, type.getElementType()), WalkResult::skip()};
    });
    replacer.recursivelyReplaceElementsIn(function, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    // Types agree after the replacement, so that these casts say nothing.
    for (Operation *made : casts) {
      made->getResult(0).replaceAllUsesWith(made->getOperand(0));
      made->erase();
    }
    return success();
  }

private:
  func::FuncOp function;
  DimAttr symbol;
  Value mask, rows;
  const std::string &node;
  SmallVector<Operation *> casts;

  LogicalResult refuse(Operation *op, const Twine &what) {
    StringRef wayOut = "multiply by the mask (or use `where`) instead of selecting with it";
    // Outputs whose number of rows depends on data have no place.
    if (op->hasTrait<OpTrait::IsTerminator>())
      return emitError(rows.getLoc(), node +
                                          ": an output consists of the rows that it selects, "
                                          "whose number depends on data; " +
                                          wayOut);
    std::string name = "the graph";
    if (auto loc = dyn_cast<NameLoc>(op->getLoc()))
      name = "node '" + loc.getName().str() + "'";
    return emitError(op->getLoc(), name + ": " + what + " rows that a mask selected in " + node +
                                       ", whose number depends on data; " + wayOut);
  }

  LogicalResult visit(Operation *op) {
    // The row numbers themselves; they stay.
    if (op == rows.getDefiningOp()) {
      casts.push_back(op);
      return success();
    }
    if (llvm::is_contained(casts, op))
      return success();
    bool inTypes = mentionsInTypes(op, symbol), inAttributes = mentionsInAttributes(op, symbol);
    // A number that is computed from how many there are.
    if (auto dim = dyn_cast<train::DimOp>(op))
      return inAttributes ? number(dim) : success();
    if (inAttributes)
      return refuse(op, "it needs the number of");
    // Where the mask is not at hand to leave rows out, or to count them.
    bool inBody = false;
    for (Region &region : op->getRegions())
      region.walk([&](Operation *inner) {
        inBody |= mentionsInTypes(inner, symbol) || mentionsInAttributes(inner, symbol);
      });
    if (inBody)
      return refuse(op, "its body works on");
    if (!inTypes)
      return success();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return refuse(op, "");
    // Each axis must be rows alone, possibly with a factor.
    for (Value value : llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                           SmallVector<Value>(op->getResults())))
      for (DimAttr dim : train::getDims(value))
        if (mentions(dim, symbol) && !rowsTimes(dim))
          return refuse(op, "it joins other rows with");
    // Cutting rows into parts is fine where it cannot mix them.
    if (auto reshape = dyn_cast<train::ReshapeOp>(op))
      return isOutermost(reshape.getOperand()) && isOutermost(reshape.getResult())
                 ? success()
                 : refuseUnlessParallel(op);
    return isa<train::AxisMapOpInterface>(op) ? leaveOut(op) : refuse(op, "it looks at several of");
  }

  /// k where the size is `symbol` * k.
  std::optional<DimAttr> rowsTimes(DimAttr dim) {
    DimAttr k = train::divideExactly(dim, symbol);
    return k && !mentions(k, symbol) ? std::optional<DimAttr>(k) : std::nullopt;
  }

  /// Nothing but sizes of 1 before the axis of rows: an axis of `symbol` * k elements that such
  /// reshapes make holds k elements of the first row, then k of the second, and so on.
  bool isOutermost(Value value) {
    for (DimAttr dim : train::getDims(value)) {
      if (mentions(dim, symbol))
        return true;
      if (!dim.isConstant(1))
        return false;
    }
    return false;
  }

  /// Rows stay rows, wherever their axis is.
  LogicalResult refuseUnlessParallel(Operation *op) {
    train::AxisMap map = cast<train::AxisMapOpInterface>(op).getAxisMap();
    auto parallel = [&](Value value, ArrayRef<int> loops) {
      for (auto [dim, loop] : llvm::zip_equal(train::getDims(value), loops))
        if (mentions(dim, symbol) && (loop < 0 || map.loops[loop] != LoopKind::Parallel))
          return false;
      return true;
    };
    // A reshape has one operand and one result.
    return parallel(op->getOperand(0), map.operands[0]) &&
                   parallel(op->getResult(0), map.results[0])
               ? success()
               : refuse(op, "it rearranges");
  }

  /// The mask as booleans of an axis that has `dim` = `symbol` * k elements.
  Value maskOf(TrainBuilder &tb, DimAttr dim) {
    // In the types of the rows, until they are replaced.
    Value own = castTo(tb, mask, {symbol});
    casts.push_back(own.getDefiningOp());
    if (dim == symbol)
      return own;
    // k elements of a row share its bit.
    return tb.reshape(tb.broadcast(own, {symbol, *rowsTimes(dim)}, {0}), {dim});
  }

  /// Rows that are not selected become neutral where an op combines rows.
  LogicalResult leaveOut(Operation *op) {
    train::AxisMap map = cast<train::AxisMapOpInterface>(op).getAxisMap();
    // No result may show where rows are; sums and extremes over them are no axis of a result.
    for (auto [result, loops] : llvm::zip_equal(op->getResults(), map.results))
      for (auto [dim, loop] : llvm::zip_equal(train::getDims(result), loops))
        if (mentions(dim, symbol) && (loop < 0 || map.loops[loop] != LoopKind::Parallel))
          return refuse(op, "its result depends on the positions of");
    auto reduction = dyn_cast<train::ReductionOpInterface>(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Value x = operand.get();
      SmallVector<DimAttr> dims = train::getDims(x);
      // An operand may have the axis twice.
      for (auto [axis, dim] : llvm::enumerate(dims)) {
        int loop = map.operands[operand.getOperandNumber()][axis];
        if (!mentions(dim, symbol) || (loop >= 0 && map.loops[loop] == LoopKind::Parallel))
          continue;
        // A reduction that is no ReductionOpInterface is a sum (of products).
        if (loop < 0 || map.loops[loop] != LoopKind::Reduction)
          return refuse(op, "it looks at several of");
        // A sum's neutral element is 0, and products with 0 are.
        double neutral = reduction ? reduction.evaluateIdentity() : 0;
        // What it maps first, such as squares, has to keep the neutral element.
        if (reduction && reduction.evaluateMap(neutral) != neutral)
          return refuse(op, "it combines");
        OpBuilder b(op);
        TrainBuilder tb(b, op->getLoc());
        Value fill = reduction ? tb.splat(scalar(tb, reduction, x), x) : tb.scalarLike(x, 0);
        Value keep = tb.broadcast(maskOf(tb, dim), dims, {int64_t(axis)});
        x = tb.select(keep, x, fill);
      }
      // The same value where no axis is combined.
      operand.set(x);
    }
    return success();
  }

  /// Its identity as a tensor of rank 0.
  static Value scalar(TrainBuilder &tb, train::ReductionOpInterface reduction, Value like) {
    Type element = train::getElementType(like);
    return train::FullOp::create(tb.b(), tb.loc(), train::getTensorType({}, element),
                                 reduction.getIdentity(element));
  }

  /// A size expression, counted: a * rows + b.
  LogicalResult number(train::DimOp op) {
    DimAttr value = op.getValue(), zero = DimAttr::constant(op.getContext(), 0);
    // At 0 and 1 rows: a line through both.
    DimAttr b = replace(value, symbol, zero);
    DimAttr a = replace(value, symbol, DimAttr::constant(op.getContext(), 1)) - b;
    // Products of the number with itself, or calls of it, are no such line.
    if (mentions(a, symbol) || value != a * symbol + b)
      return refuse(op, "it computes with the number of");
    OpBuilder builder(op);
    TrainBuilder tb(builder, op.getLoc());
    Type element = train::getElementType(op.getResult());
    // In 64 bits: sums of ones stay exact.
    Value x = tb.sumAll(tb.cast(mask, builder.getI64Type()));
    if (!a.isConstant(1))
      x = tb.mul(x, tb.dim(a, builder.getI64Type()));
    if (!b.isConstant(0))
      x = tb.add(x, tb.dim(b, builder.getI64Type()));
    op.getResult().replaceAllUsesWith(tb.cast(x, element));
    op.erase();
    return success();
  }
};

} // namespace

/// The function's return holds the rows of all selections meanwhile: where only their number is
/// used, nothing else does, and it is counted in their mask.
SmallVector<DimAttr> eraseUnusedSelections(func::FuncOp function,
                                           std::vector<Selection> &selections,
                                           llvm::function_ref<void()> removeUnused) {
  Operation *end = function.getBody().front().getTerminator();
  const unsigned results = end->getNumOperands();
  for (const Selection &selection : selections)
    end->insertOperands(end->getNumOperands(), selection.rows);
  removeUnused();
  SmallVector<DimAttr> erased;
  // The last one first: its mask may be of rows of another one.
  for (size_t i = selections.size(); i-- > 0;) {
    const Selection &selection = selections[i];
    bool used = false;
    function.walk([&](Operation *op) {
      if (op != end && op != selection.rows.getDefiningOp())
        used |= mentionsInTypes(op, selection.size) || mentionsInAttributes(op, selection.size);
    });
    if (used)
      continue;
    erased.push_back(selection.size);
    end->eraseOperand(results + i);
    selections.erase(selections.begin() + i);
    removeUnused();
  }
  end->eraseOperands(results, selections.size());
  return erased;
}

/// In the order in which they were made: rows of one may be selected from rows of another.
LogicalResult resolveSelections(func::FuncOp function, ArrayRef<Selection> selections) {
  for (const Selection &selection : selections)
    if (failed(Resolver(function, selection).run()))
      return failure();
  return success();
}

void registerSelection(HandlerTable &table) {
  table.add("NonZero", nonZero, 1, 1);
  table.entries["NonZero"].typedAs = -1;
  table.addExact("Compress", compress, 2, 1);
  table.describe({"NonZero"}, HandlerTable::kAll, false);
  table.describe({"Compress"}, HandlerTable::kAll);
}

} // namespace trainc::legalize
