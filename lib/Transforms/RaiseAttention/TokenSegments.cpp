// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the selections that unpack and pack around an attention, and what the mask is for tokens.

#include "lib/Transforms/RaiseAttention/TokenSegments.h"

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/Support/PackedRows.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Analysis/Roles.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static bool rearranges(Operation *op) { return isa_and_nonnull<ReshapeOp, TransposeOp>(op); }

/// The selection that a value is a view of.
static SelectRowsOp selectionAbove(Value value) {
  while (rearranges(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<SelectRowsOp>();
}

/// The selection that alone reads a value, through views.
static SelectRowsOp selectionBelow(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto select = dyn_cast<SelectRowsOp>(user))
      return select;
    if (!rearranges(user))
      break;
    value = user->getResult(0);
  }
  return {};
}

/// Through ops that repeat and rearrange.
static Value originOf(Value value) {
  while (isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

std::optional<TokenSegments> TokenSegments::find(Value q, Value k, Value v, Value result) {
  SelectRowsOp back = selectionBelow(result);
  TokenSegments found;
  for (Value value : {q, k, v}) {
    SelectRowsOp select = selectionAbove(value);
    if (!back || !select || getRank(value) != 4 || select.getIndex() != back.getInverse() ||
        (found.slots && select.getIndex() != found.slots))
      return std::nullopt;
    found.slots = select.getIndex();
    found.rowsOrNone = select.getInverse();
  }
  found.rows = back.getIndex();
  found.samples = getDim(q, 0);
  found.positions = getDim(q, 2);
  if (getDim(k, 2) != found.positions || getDim(found.slots, 0) != found.samples * found.positions)
    return std::nullopt;

  auto slots = found.slots.getDefiningOp<SelectOp>();
  auto wanted = slots ? slots.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  std::optional<double> padding = wanted ? getSplatValue(wanted.getRhs()) : std::nullopt;
  if (!padding || wanted.getPredicate() != ComparePredicate::ne)
    return std::nullopt;
  found.mask = dyn_cast<BlockArgument>(originOf(wanted.getLhs()));
  found.padding = *padding;
  found.numbers = found.mask;
  if (!found.mask)
    return std::nullopt;
  // What the runtime checks of a batch before it runs this.
  auto function = cast<func::FuncOp>(found.mask.getOwner()->getParentOp());
  StringRef name = getArgName(function, found.mask.getArgNumber());
  auto module = cast<ModuleOp>(function->getParentOp());
  auto conditions = module->getAttrOfType<ArrayAttr>(kConditionsAttr);
  if (!conditions)
    return found;
  for (auto condition : conditions.getAsRange<DictionaryAttr>()) {
    StringRef kind = condition.getAs<StringAttr>("kind").getValue();
    if (kind == "binary" && condition.getAs<StringAttr>("input") == name)
      found.binary = true;
    for (auto [wanted, fact] : {std::pair{"contiguous", &found.documents},
                                {"above", &found.above},
                                {"unbroken", &found.unbroken}})
      *fact |= kind == wanted && condition.getAs<StringAttr>("mask") == name &&
               condition.getAs<IntegerAttr>("padding").getInt() == int64_t(*padding);
  }
  // Where another mask is 0, so is this one: elsewhere that one is 1.
  for (auto condition : conditions.getAsRange<DictionaryAttr>()) {
    if (condition.getAs<StringAttr>("kind") != "fixed_where_padded" ||
        condition.getAs<StringAttr>("input") != name ||
        condition.getAs<IntegerAttr>("shift").getInt() != 0 ||
        condition.getAs<IntegerAttr>("value").getInt() != int64_t(*padding) ||
        condition.getAs<IntegerAttr>("padding").getInt() != 0)
      continue;
    auto other = condition.getAs<StringAttr>("mask");
    bool isBinary = llvm::any_of(conditions.getAsRange<DictionaryAttr>(), [&](DictionaryAttr fact) {
      return fact.getAs<StringAttr>("kind") == "binary" && fact.getAs<StringAttr>("input") == other;
    });
    for (BlockArgument argument : function.getArguments())
      if (isBinary && getArgRole(function, argument.getArgNumber()) == "input" &&
          getArgName(function, argument.getArgNumber()) == other.getValue())
        found.ones = argument;
  }
  auto symbols = module->getParentOfType<ModuleOp>();
  auto count = [&](CountKind kind) {
    return findCountSymbol(symbols, name, int64_t(*padding), kind).value_or(DimAttr());
  };
  if (found.documents && symbols) {
    found.numDocuments = count(CountKind::runs);
    found.longestDocument = count(CountKind::longest_run);
  }
  found.documents &= found.numDocuments && found.longestDocument;
  return found;
}

std::optional<TokenSegments> TokenSegments::ofSequences(Value q, Value k, Value numbers,
                                                        BlockArgument positions) {
  TokenSegments found;
  found.samples = getDim(q, 0);
  found.positions = getDim(q, 2);
  found.numbers = numbers;
  if (getDim(k, 2) != found.positions ||
      getDims(positions) != SmallVector<DimAttr>{found.samples, found.positions})
    return std::nullopt;
  auto function = cast<func::FuncOp>(positions.getOwner()->getParentOp());
  StringRef name = getArgName(function, positions.getArgNumber());
  auto symbols = function->getParentOfType<ModuleOp>();
  std::optional<DimAttr> number = findCountSymbol(symbols, name, 0, CountKind::sequences),
                         longest = findCountSymbol(symbols, name, 0, CountKind::longest_sequence);
  if (!number || !longest)
    return std::nullopt;
  found.numDocuments = *number;
  found.longestDocument = *longest;
  found.documents = found.split = true;
  return found;
}

TokenSegments TokenSegments::ofRows(Value q) {
  TokenSegments rows;
  rows.samples = getDim(q, 0);
  rows.positions = getDim(q, 2);
  return rows;
}

bool TokenSegments::joinsSequences(Value q, Value k) {
  SelectRowsOp rows = selectionAbove(q), columns = selectionAbove(k);
  return rows && columns ? rows.getIndex() != columns.getIndex() : bool(rows) != bool(columns);
}

std::optional<double> TokenSegments::valueAtTokens(Value value) const {
  value = originOf(value);
  if (std::optional<double> splat = getSplatValue(value))
    return splat;
  if (ones && value == ones)
    return 1;
  if (value == mask)
    return binary ? std::optional(padding == 0 ? 1.0 : 0.0) : std::nullopt;
  auto pointwise = value.getDefiningOp<PointwiseOpInterface>();
  if (!isFormula(pointwise))
    return std::nullopt;
  // A comparison with the number that marks padding.
  if (auto compare = dyn_cast<CompareOp>(pointwise.getOperation())) {
    ComparePredicate predicate = compare.getPredicate();
    bool ne = predicate == ComparePredicate::ne;
    std::optional<double> number = getSplatValue(compare.getRhs());
    bool isMask = originOf(compare.getLhs()) == mask && number;
    if (isMask && (ne || predicate == ComparePredicate::eq) && *number == padding)
      return ne ? 1 : 0;
    if (isMask && above &&
        (predicate == ComparePredicate::gt || predicate == ComparePredicate::le) &&
        *number <= padding)
      return predicate == ComparePredicate::gt ? 1 : 0;
    if (isMask && above &&
        (predicate == ComparePredicate::ge || predicate == ComparePredicate::lt) &&
        *number <= padding + 1)
      return predicate == ComparePredicate::ge ? 1 : 0;
  }
  if (isa<CastOp>(pointwise.getOperation()) && getElementType(value).isInteger(1) && padding == 0 &&
      originOf(pointwise->getOperand(0)) == mask)
    return 1;
  SmallVector<double> operands;
  for (Value operand : pointwise->getOperands()) {
    std::optional<double> known = valueAtTokens(operand);
    if (!known)
      return std::nullopt;
    operands.push_back(*known);
  }
  SmallVector<int64_t> index(getRank(value), 0);
  return pointwise.evaluateScalar(operands, index);
}

/// The same value, without what views above it undo of each other.
static Value simplify(TrainBuilder &tb, Value value) {
  Operation *op = value.getDefiningOp();
  if (!rearranges(op))
    return value;
  op->setOperand(0, simplify(tb, op->getOperand(0)));
  SmallVector<OpFoldResult> folded;
  if (succeeded(op->fold(folded)))
    return simplify(tb, folded.empty() ? value : cast<Value>(folded.front()));
  // Transposed there and back, with axes of size 1 put in or left out between.
  auto back = dyn_cast<TransposeOp>(op);
  auto reshape = back ? back.getOperand().getDefiningOp<ReshapeOp>() : ReshapeOp();
  auto there = reshape ? reshape.getOperand().getDefiningOp<TransposeOp>() : TransposeOp();
  if (!there)
    return value;
  auto axesOf = [](Value of) {
    SmallVector<int64_t> axes;
    for (auto [axis, dim] : llvm::enumerate(getDims(of)))
      if (!dim.isConstant(1))
        axes.push_back(axis);
    return axes;
  };
  SmallVector<int64_t> before = axesOf(there.getResult()), after = axesOf(reshape.getResult());
  if (before.size() != after.size())
    return value;
  SmallVector<int64_t> order;
  for (int64_t axis : axesOf(value)) {
    size_t at = llvm::find(after, back.getPermutation()[axis]) - after.begin();
    if (getDim(there.getResult(), before[at]) != getDim(reshape.getResult(), after[at]))
      return value;
    order.push_back(there.getPermutation()[before[at]]);
  }
  return llvm::is_sorted(order) ? simplify(tb, tb.reshape(there.getOperand(), getDims(value)))
                                : value;
}

/// The views of tokens in their rectangle, of packed tokens instead: one sample of so many. Null
/// where that cannot be told.
Value TokenSegments::replayViews(TrainBuilder &tb, Value value) const {
  std::optional<StringRef> sample = samples.getSymbol(), position = positions.getSymbol();
  if (!sample || !position)
    return {};
  SelectRowsOp unpacked = selectionAbove(value);
  DimAttr tokens = getDim(rows, 0);
  auto packedDims = [&](Value of) {
    SmallVector<DimAttr> dims = getDims(of);
    for (DimAttr &dim : dims)
      dim = dim.substitute([&](StringRef name) {
        return name == *sample     ? tb.dimAttr(1)
               : name == *position ? tokens
                                   : DimAttr::symbol(tb.context(), name);
      });
    return dims;
  };
  if (getDims(unpacked.getData()) != packedDims(unpacked.getResult()))
    return {};
  SmallVector<Operation *> views;
  for (Operation *op = value.getDefiningOp(); op != unpacked;
       op = op->getOperand(0).getDefiningOp())
    views.push_back(op);
  Value packed = unpacked.getData();
  for (Operation *op : llvm::reverse(views)) {
    if (auto transpose = dyn_cast<TransposeOp>(op))
      packed = tb.transpose(packed, transpose.getPermutation());
    else
      packed = tb.reshape(packed, packedDims(op->getResult(0)));
  }
  return simplify(tb, packed);
}

Value TokenSegments::pack(TrainBuilder &tb, Value value) const {
  if (isWhole()) {
    Value tokens = tb.transpose(value, {0, 2, 1, 3});
    SmallVector<DimAttr> dims = getDims(tokens);
    dims[1] = samples * positions;
    dims[0] = tb.dimAttr(1);
    return tb.transpose(tb.reshape(tokens, dims), {0, 2, 1, 3});
  }
  if (Value packed = replayViews(tb, value))
    return packed;
  return selectAlong(tb, value, {0, 2}, [&](TrainBuilder &b, Value v, int64_t axis) {
    return b.selectRows(v, rows, slots, axis);
  });
}
Value TokenSegments::unpack(TrainBuilder &tb, Value value) const {
  if (isWhole()) {
    Value tokens = tb.transpose(value, {0, 2, 1, 3});
    SmallVector<DimAttr> dims = getDims(tokens);
    dims[0] = samples;
    dims[1] = positions;
    return tb.transpose(tb.reshape(tokens, dims), {0, 2, 1, 3});
  }
  auto select = [&](TrainBuilder &b, Value v, int64_t axis) {
    return b.selectRows(v, slots, rowsOrNone, axis);
  };
  return selectAlong(tb, value, {0, 2}, select, {samples, positions});
}

static Value buildRunningSum(TrainBuilder &tb, Value value) {
  return CumsumOp::create(tb.b(), tb.loc(), value.getType(), value, /*axis=*/0,
                          /*exclusive=*/false, /*reverse=*/false);
}

Value TokenSegments::buildLengths(TrainBuilder &tb) const {
  Value slot = tb.reshape(slots, {samples, positions});
  Value isToken = tb.cast(tb.compare("ge", slot, tb.scalarLike(slot, 0)), tb.b().getI32Type());
  return tb.sum(isToken, {1});
}

/// Of each slot, which row of all it holds.
Value TokenSegments::buildRows(TrainBuilder &tb) const {
  return isWhole() ? tb.iota({samples * positions}, tb.b().getI32Type(), 0) : rows;
}

/// A document begins where the number or the sample is not that of the token before. More documents
/// than there is room for get an index out of range, which ends the run.
Value TokenSegments::buildDocumentLengths(TrainBuilder &tb) const {
  Type i32 = tb.b().getI32Type(), f64 = tb.b().getF64Type();
  Value row = buildRows(tb);
  DimAttr tokens = getDim(row, 0);
  Value zero = tb.scalarLike(row, 0), slot = tb.iota({tokens}, i32, 0);
  Value before = tb.max(tb.sub(slot, tb.scalarLike(slot, 1)), zero);
  Value length = tb.splat(tb.cast(tb.dim(positions, tb.b().getI64Type()), i32), row);
  Value number = tb.reshape(numbers, {samples * positions});
  if (!isWhole())
    number = tb.gather(number, row, 0);
  Value begins = tb.compare("eq", slot, zero);
  for (Value part : {number, tb.div(row, length)})
    begins = tb.logicalOr(begins, tb.compare("ne", part, tb.gather(part, before, 0)));
  Value isToken = tb.compare("ge", isWhole() ? row : rowsOrNone, zero);
  Value document = buildRunningSum(tb, tb.cast(tb.logicalAnd(begins, isToken), i32));
  document = tb.max(tb.sub(document, tb.scalarLike(document, 1)), zero);
  return tb.cast(
      tb.scatterAdd(document, tb.cast(isToken, f64), 0, getTensorType({numDocuments}, f64)), i32);
}

Value TokenSegments::buildOffsets(TrainBuilder &tb) const {
  if (isWhole() && !split) {
    Value number = tb.iota({samples + tb.dimAttr(1)}, tb.b().getI32Type(), 0);
    Value length = tb.cast(tb.dim(positions, tb.b().getI64Type()), tb.b().getI32Type());
    return tb.mul(number, tb.splat(length, number));
  }
  Value lengths = split ? buildDocumentLengths(tb) : buildLengths(tb);
  Value zero = tb.full({tb.dimAttr(1)}, tb.b().getI32Type(), 0);
  return tb.concat({zero, buildRunningSum(tb, lengths)}, 0);
}

Value TokenSegments::buildPositions(TrainBuilder &tb) const {
  Type i64 = tb.b().getI64Type();
  Value row = tb.cast(buildRows(tb), i64), length = tb.splat(tb.dim(positions, i64), row);
  Value sample = tb.div(row, length), position = tb.sub(row, tb.mul(sample, length));
  const SmallVector<DimAttr> dims = {tb.dimAttr(1), getDim(row, 0)};
  return tb.cast(tb.concat({tb.reshape(sample, dims), tb.reshape(position, dims)}, 0),
                 tb.b().getI32Type());
}
