// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that move elements: verifiers, folders and axis maps. Gradients are in
// TrainShapeVJP.cpp, generated element accesses in TrainShapeAccess.cpp.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include <numeric>

using namespace mlir;
using namespace trainc::train;

static DimAttr zeroDim(Operation *op) { return DimAttr::constant(op->getContext(), 0); }

/// Loops 0..rank-1, one an axis, for an op that maps axis to axis; `isParallel` tells which are.
static AxisMap sameAxes(Operation *op, llvm::function_ref<bool(int64_t)> isParallel) {
  AxisMap map;
  SmallVector<int> axes;
  for (int64_t axis = 0; axis < getRank(op->getResult(0)); ++axis) {
    map.loops.push_back(isParallel(axis) ? LoopKind::Parallel : LoopKind::Opaque);
    axes.push_back(axis);
  }
  map.operands.assign(op->getNumOperands(), axes);
  map.results.assign(op->getNumResults(), axes);
  return map;
}

static LogicalResult checkAxis(Operation *op, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return op->emitOpError("expected an axis below the rank ") << rank << ", got " << axis;
}
static LogicalResult checkElementType(Operation *op, Value from, Value to) {
  if (getElementType(from) == getElementType(to))
    return success();
  return attachNotes(op->emitOpError("expected the result to have the operand's element type ")
                         << getElementType(from) << ", got " << getElementType(to),
                     {{"the operand", from.getDefiningOp() == op ? Value() : from}});
}
static LogicalResult checkDims(Operation *op, StringRef what, ArrayRef<DimAttr> expected,
                               Value value) {
  if (ArrayRef<DimAttr>(getDims(value)) == expected)
    return success();
  return attachNotes(op->emitOpError("expected ") << what << " of shape " << dimsToString(expected)
                                                  << ", got " << dimsToString(getDims(value)),
                     {{what, value.getDefiningOp() == op ? Value() : value}});
}

//===----------------------------------------------------------------------===//
// constant, dim
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
FusionRole ConstantOp::getFusionRole() {
  // A splat is code; other data is a buffer of its own.
  return isa<SplatElementsAttr>(getValue()) ? FusionRole::Access : FusionRole::View;
}
FusionRole DimOp::getFusionRole() { return FusionRole::Access; }

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  SmallVector<DimAttr> from = getDims(getOperand()), to = getDims(getResult());
  if (from.size() != getAxes().size())
    return attachNotes(emitOpError("expected one axis for each of the operand's ")
                           << from.size() << " axes, got " << getAxes().size(),
                       {{"the operand", getOperand()}});
  int64_t previous = -1;
  for (auto [dim, axis] : llvm::zip_equal(from, getAxes())) {
    if (axis <= previous || axis >= int64_t(to.size()))
      return emitOpError("expected ascending axes below the result's rank ")
             << to.size() << ", got " << axis;
    if (dim != to[axis])
      return attachNotes(emitOpError("expected size ") << dim.str() << " on axis " << axis
                                                       << " of the result, got " << to[axis].str(),
                         {{"the operand", getOperand()}});
    previous = axis;
  }
  return checkElementType(*this, getOperand(), getResult());
}
OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getResult().getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<BroadcastOp>()) {
    SmallVector<int64_t> axes;
    for (int64_t axis : inner.getAxes())
      axes.push_back(getAxes()[axis]);
    setAxes(axes);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  if (auto full = getOperand().getDefiningOp<FullOp>())
    if (cast<RankedTensorType>(getResult().getType()).hasStaticShape())
      return DenseElementsAttr::get(cast<ShapedType>(getResult().getType()),
                                    Attribute(full.getValue()));
  return {};
}
AxisMap BroadcastOp::getAxisMap() {
  AxisMap map = sameAxes(*this, [](int64_t) { return true; });
  map.operands[0].assign(getAxes().begin(), getAxes().end());
  return map;
}

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (getNumElements(getOperand().getType()) != getNumElements(getResult().getType()))
    return attachNotes(emitOpError("expected equal element counts, got ")
                           << getNumElements(getOperand().getType()).str() << " and "
                           << getNumElements(getResult().getType()).str(),
                       {{"the operand", getOperand()}});
  return checkElementType(*this, getOperand(), getResult());
}
OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getResult().getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    if (inner.getOperand().getType() == getResult().getType())
      return inner.getOperand();
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getOperand()))
    if (cast<RankedTensorType>(getResult().getType()).hasStaticShape())
      return dense.reshape(cast<ShapedType>(getResult().getType()));
  return {};
}
/// Whether `value`, in the dims before the reshape, can be had in the dims after it for free.
static bool comesReshaped(ReshapeOp reshape, Value value, const AxisMap &map, unsigned depth) {
  Operation *def = value.getDefiningOp();
  if (!def || depth == 0)
    return false;
  if (auto inner = dyn_cast<ReshapeOp>(def))
    return getDims(inner.getOperand()) == getDims(reshape.getResult());
  if (auto broadcast = dyn_cast<BroadcastOp>(def))
    return llvm::all_of(broadcast.getAxes(), [&](int64_t axis) {
      return llvm::is_contained(map.results[0], map.operands[0][axis]);
    });
  auto pointwise = dyn_cast<PointwiseOpInterface>(def);
  if (!pointwise || def->getNumResults() != 1 || dependsOnPlace(pointwise))
    return false;
  return (def->getNumOperands() == 0 || value.hasOneUse()) &&
         llvm::all_of(def->getOperands(), [&](Value operand) {
           return getRank(operand) == 0 || comesReshaped(reshape, operand, map, depth - 1);
         });
}
static Value buildReshaped(PatternRewriter &rewriter, ReshapeOp reshape, Value value,
                           const AxisMap &map) {
  Operation *def = value.getDefiningOp();
  SmallVector<DimAttr> dims = getDims(reshape.getResult());
  TrainBuilder tb(rewriter, def ? def->getLoc() : reshape.getLoc());
  if (auto inner = dyn_cast<ReshapeOp>(def))
    return inner.getOperand();
  if (auto broadcast = dyn_cast<BroadcastOp>(def)) {
    SmallVector<int64_t> axes;
    for (int64_t axis : broadcast.getAxes())
      axes.push_back(llvm::find(map.results[0], map.operands[0][axis]) - map.results[0].begin());
    return tb.broadcast(broadcast.getOperand(), dims, axes);
  }
  IRMapping mapping;
  for (Value operand : def->getOperands())
    if (getRank(operand) > 0)
      mapping.map(operand, buildReshaped(rewriter, reshape, operand, map));
  Operation *clone = rewriter.clone(*def, mapping);
  clone->getResult(0).setType(getTensorType(dims, getElementType(value)));
  return clone->getResult(0);
}

/// Formulas between a reshape and its inverse are computed in the outer shape, as exporters flatten
/// tokens for a matmul and for the loss, and add a bias in between.
LogicalResult ReshapeOp::canonicalize(ReshapeOp op, PatternRewriter &rewriter) {
  constexpr unsigned kMostSteps = 8;
  Operation *def = op.getOperand().getDefiningOp();
  if (!isa_and_nonnull<PointwiseOpInterface>(def) || def->getNumOperands() == 0 ||
      getRank(op.getOperand()) == 0 || getRank(op.getResult()) == 0)
    return failure();
  AxisMap map = op.getAxisMap();
  // Of axes that correspond one to one.
  for (int &loop : map.operands[0])
    if (loop >= 0 && map.loops[loop] != LoopKind::Parallel)
      loop = -1;
  for (int &loop : map.results[0])
    if (loop < 0 || map.loops[loop] != LoopKind::Parallel)
      loop = -2;
  if (!comesReshaped(op, op.getOperand(), map, kMostSteps))
    return failure();
  rewriter.replaceOp(op, buildReshaped(rewriter, op, op.getOperand(), map));
  return success();
}

AxisMap ReshapeOp::getAxisMap() {
  AxisMap map;
  SmallVector<DimAttr> from = getDims(getOperand()), to = getDims(getResult());
  SmallVector<int> operand(from.size(), -1), result(to.size(), -1);
  // An axis of one corresponds to an axis of the other when as many elements lie before it.
  DimAttr before = DimAttr::constant(getContext(), 1);
  size_t next = 0;
  SmallVector<DimAttr> prefix{before};
  for (DimAttr dim : to)
    prefix.push_back(prefix.back() * dim);
  for (auto [axis, dim] : llvm::enumerate(from)) {
    for (size_t j = next; j < to.size(); ++j)
      if (prefix[j] == before && to[j] == dim) {
        operand[axis] = result[j] = map.loops.size();
        map.loops.push_back(LoopKind::Parallel);
        next = j + 1;
        break;
      }
    before = before * dim;
  }
  for (SmallVector<int> *axes : {&operand, &result})
    for (int &loop : *axes)
      if (loop < 0) {
        loop = map.loops.size();
        map.loops.push_back(LoopKind::Opaque);
      }
  map.operands.push_back(operand);
  map.results.push_back(result);
  return map;
}
FusionRole ReshapeOp::getFusionRole() { return FusionRole::View; }

FusionRole BarrierOp::getFusionRole() { return FusionRole::View; }
bool BarrierOp::separatesKernels() { return true; }

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  SmallVector<DimAttr> from = getDims(getOperand()), expected;
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  bool isPermutation = sorted.size() == from.size();
  for (auto [i, axis] : llvm::enumerate(sorted))
    isPermutation &= axis == int64_t(i);
  if (!isPermutation)
    return attachNotes(emitOpError("expected a permutation of ") << from.size() << " axes",
                       {{"the operand", getOperand()}});
  for (int64_t axis : getPermutation())
    expected.push_back(from[axis]);
  if (failed(checkDims(*this, "a result", expected, getResult())))
    return failure();
  return checkElementType(*this, getOperand(), getResult());
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> permutation;
    for (int64_t axis : getPermutation())
      permutation.push_back(inner.getPermutation()[axis]);
    if (llvm::is_sorted(permutation))
      return inner.getOperand();
    setPermutation(permutation);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}
AxisMap TransposeOp::getAxisMap() {
  AxisMap map = sameAxes(*this, [](int64_t) { return true; });
  for (auto [axis, from] : llvm::enumerate(getPermutation()))
    map.operands[0][from] = axis;
  return map;
}

//===----------------------------------------------------------------------===//
// slice
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  size_t rank = getRank(getOperand());
  if (getStarts().getDims().size() != rank || getSteps().size() != rank ||
      size_t(getRank(getResult())) != rank)
    return attachNotes(emitOpError("expected starts, steps and a result of the operand's rank ")
                           << rank,
                       {{"the operand", getOperand()}});
  if (llvm::is_contained(getSteps(), 0))
    return emitOpError("expected steps other than 0");
  return checkElementType(*this, getOperand(), getResult());
}
static bool takesWholeAxis(SliceOp op, int64_t axis) {
  return op.getStarts().getDims()[axis].isConstant(0) && op.getSteps()[axis] == 1 &&
         getDim(op.getOperand(), axis) == getDim(op.getResult(), axis);
}
OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getResult().getType() &&
      llvm::all_of(llvm::seq<int64_t>(0, getRank(getResult())),
                   [&](int64_t axis) { return takesWholeAxis(*this, axis); }))
    return getOperand();
  return {};
}
AxisMap SliceOp::getAxisMap() {
  return sameAxes(*this, [&](int64_t axis) { return takesWholeAxis(*this, axis); });
}
int64_t SliceOp::getSlicedAxis() {
  int64_t sliced = -1;
  for (int64_t axis = 0; axis < getRank(getResult()); ++axis) {
    if (takesWholeAxis(*this, axis))
      continue;
    if (sliced >= 0)
      return -1;
    sliced = axis;
  }
  return sliced;
}
bool SliceOp::dropsAxis() { return false; }
bool SliceOp::isPrefix() {
  int64_t axis = getSlicedAxis();
  return axis >= 0 && getStarts().getDims()[axis].isConstant(0) && getSteps()[axis] == 1;
}
DimAttr SliceOp::getSlicedExtent() { return getDim(getResult(), getSlicedAxis()); }
Subrange SliceOp::getSubrange(unsigned, unsigned) {
  return {SmallVector<DimAttr>(getStarts().getDims()), SmallVector<int64_t>(getSteps())};
}
Value SliceOp::buildSliced(TrainBuilder &tb, Value value, int64_t axis) {
  int64_t from = getSlicedAxis();
  return tb.sliceAxis(value, axis, getStarts().getDims()[from], getSlicedExtent(),
                      getSteps()[from]);
}

//===----------------------------------------------------------------------===//
// pad, concat, split
//===----------------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  size_t rank = getRank(getOperand());
  if (getLow().getDims().size() != rank || size_t(getRank(getResult())) != rank)
    return attachNotes(emitOpError("expected low and a result of the operand's rank ") << rank,
                       {{"the operand", getOperand()}});
  if (getValue().getType() != getElementType(getOperand()))
    return attachNotes(emitOpError("expected a value of the element type ")
                           << getElementType(getOperand()) << ", got " << getValue().getType(),
                       {{"the operand", getOperand()}});
  return checkElementType(*this, getOperand(), getResult());
}
AxisMap PadOp::getAxisMap() {
  return sameAxes(*this, [&](int64_t axis) {
    return getLow().getDims()[axis].isConstant(0) &&
           getDim(getOperand(), axis) == getDim(getResult(), axis);
  });
}

Subrange PadOp::getSubrange(unsigned, unsigned) {
  Subrange range{{}, SmallVector<int64_t>(getRank(getOperand()), 1)};
  for (DimAttr low : getLow().getDims())
    range.starts.push_back(zeroDim(*this) - low);
  return range;
}
Attribute PadOp::getFill() { return getValue(); }

/// Where the part with this number begins, along `axis`.
static DimAttr partBegin(Operation *op, ValueRange parts, unsigned number, int64_t axis) {
  DimAttr begin = zeroDim(op);
  for (Value part : parts.take_front(number))
    begin = begin + getDim(part, axis);
  return begin;
}
static Subrange shiftedBy(Operation *op, DimAttr start, Value like, int64_t axis) {
  Subrange range{SmallVector<DimAttr>(getRank(like), zeroDim(op)),
                 SmallVector<int64_t>(getRank(like), 1)};
  range.starts[axis] = start;
  return range;
}

/// Sizes of the parts along `axis` add up to the whole, other sizes are equal.
static LogicalResult verifyParts(Operation *op, ValueRange parts, Value whole, int64_t axis) {
  if (parts.empty())
    return op->emitOpError("expected at least one part");
  if (failed(checkAxis(op, axis, getRank(whole))))
    return failure();
  SmallVector<DimAttr> expected = getDims(whole);
  DimAttr sum = zeroDim(op);
  for (Value part : parts) {
    if (getRank(part) != int64_t(expected.size()))
      return attachNotes(op->emitOpError("expected parts of rank ")
                             << expected.size() << ", got " << getRank(part),
                         {{"the part", part.getDefiningOp() == op ? Value() : part}});
    SmallVector<DimAttr> dims = expected;
    dims[axis] = getDim(part, axis);
    if (failed(checkDims(op, "a part", dims, part)) || failed(checkElementType(op, part, whole)))
      return failure();
    sum = sum + dims[axis];
  }
  if (sum != expected[axis])
    return op->emitOpError("expected parts that add up to ")
           << expected[axis].str() << " on axis " << axis << ", got " << sum.str();
  return success();
}
LogicalResult ConcatOp::verify() {
  return verifyParts(*this, getOperands(), getResult(), getAxis());
}
AxisMap ConcatOp::getAxisMap() {
  return sameAxes(*this, [&](int64_t axis) { return axis != int64_t(getAxis()); });
}
Subrange ConcatOp::getSubrange(unsigned operand, unsigned) {
  DimAttr begin = partBegin(*this, getOperands(), operand, getAxis());
  return shiftedBy(*this, zeroDim(*this) - begin, getResult(), getAxis());
}
LogicalResult SplitOp::verify() {
  return verifyParts(*this, getResults(), getOperand(), getAxis());
}
AxisMap SplitOp::getAxisMap() {
  return sameAxes(*this, [&](int64_t axis) { return axis != int64_t(getAxis()); });
}
Subrange SplitOp::getSubrange(unsigned, unsigned result) {
  return shiftedBy(*this, partBegin(*this, getResults(), result, getAxis()), getOperand(),
                   getAxis());
}

//===----------------------------------------------------------------------===//
// gather, gather_elements, gather_nd
//===----------------------------------------------------------------------===//

/// [before axis..., indices..., after axis...]
static SmallVector<DimAttr> gatheredDims(Value data, Value indices, int64_t axis) {
  SmallVector<DimAttr> from = getDims(data), dims(from.begin(), from.begin() + axis);
  llvm::append_range(dims, getDims(indices));
  dims.append(from.begin() + axis + 1, from.end());
  return dims;
}
/// Loops of gather and of scatter_add: `data` is the indexed tensor, `rows` the one with the
/// indices' axes.
static AxisMap gatherAxisMap(int64_t dataRank, int64_t indexRank, int64_t axis, LoopKind indexKind,
                             SmallVector<int> &data, SmallVector<int> &indices,
                             SmallVector<int> &rows) {
  AxisMap map;
  auto loop = [&](LoopKind kind) {
    map.loops.push_back(kind);
    return int(map.loops.size()) - 1;
  };
  for (int64_t a = 0; a < axis; ++a) {
    data.push_back(loop(LoopKind::Parallel));
    rows.push_back(data.back());
  }
  data.push_back(loop(LoopKind::Opaque));
  for (int64_t i = 0; i < indexRank; ++i) {
    indices.push_back(loop(indexKind));
    rows.push_back(indices.back());
  }
  for (int64_t a = axis + 1; a < dataRank; ++a) {
    data.push_back(loop(LoopKind::Parallel));
    rows.push_back(data.back());
  }
  return map;
}

LogicalResult GatherOp::verify() {
  if (failed(checkAxis(*this, getAxis(), getRank(getData()))))
    return failure();
  if (failed(checkDims(*this, "a result", gatheredDims(getData(), getIndices(), getAxis()),
                       getResult())))
    return failure();
  return checkElementType(*this, getData(), getResult());
}
AxisMap GatherOp::getAxisMap() {
  SmallVector<int> data, indices, rows;
  AxisMap map = gatherAxisMap(getRank(getData()), getRank(getIndices()), getAxis(),
                              LoopKind::Parallel, data, indices, rows);
  map.operands = {data, indices};
  map.results = {rows};
  return map;
}
int64_t GatherOp::getSlicedAxis() { return getRank(getIndices()) <= 1 ? int64_t(getAxis()) : -1; }
bool GatherOp::dropsAxis() { return getRank(getIndices()) == 0; }
bool GatherOp::isPrefix() {
  // The one index 0; longer constant ranges are slices.
  Value indices = getIndices();
  if (!getSlicedExtent().isConstant(1))
    return false;
  while (auto reshape = indices.getDefiningOp<ReshapeOp>())
    indices = reshape.getOperand();
  if (auto full = indices.getDefiningOp<FullOp>())
    return full.getValue() == IntegerAttr::get(getElementType(indices), 0);
  DenseElementsAttr value;
  return matchPattern(indices, m_Constant(&value)) && value.isSplat() &&
         value.getSplatValue<APInt>().isZero();
}
DimAttr GatherOp::getSlicedExtent() {
  return dropsAxis() ? DimAttr::constant(getContext(), 1) : getDim(getIndices(), 0);
}
Value GatherOp::buildSliced(TrainBuilder &tb, Value value, int64_t axis) {
  Value indices = getIndices();
  if (dropsAxis())
    indices = tb.reshape(indices, {tb.dimAttr(1)});
  return tb.gather(value, indices, axis);
}

LogicalResult SelectRowsOp::verify() {
  if (failed(checkAxis(*this, getAxis(), getRank(getData()))))
    return failure();
  for (Value index : {getIndex(), getInverse()})
    if (getRank(index) != 1 || !getElementType(index).isInteger(32))
      return attachNotes(emitOpError("expected indices of rank 1 and type i32, got ")
                             << index.getType(),
                         {{"indices", index}});
  if (getDim(getInverse(), 0) != getDim(getData(), getAxis()))
    return attachNotes(emitOpError("expected an inverse of size ")
                           << getDim(getData(), getAxis()).str() << ", got "
                           << getDim(getInverse(), 0).str(),
                       {{"inverse", getInverse()}, {"data", getData()}});
  SmallVector<DimAttr> dims = getDims(getData());
  dims[getAxis()] = getSlicedExtent();
  if (failed(checkDims(*this, "a result", dims, getResult())))
    return failure();
  return checkElementType(*this, getData(), getResult());
}
AxisMap SelectRowsOp::getAxisMap() {
  // Any element of the data may be read along the selected axis. A part of the result would need
  // another inverse, so that the axis is no parallel loop of the index.
  AxisMap map;
  SmallVector<int> axes(getRank(getResult()));
  std::iota(axes.begin(), axes.end(), 0);
  SmallVector<int> data = axes;
  map.loops.assign(axes.size(), LoopKind::Parallel);
  map.loops[getAxis()] = LoopKind::Opaque;
  data[getAxis()] = -1;
  map.operands = {data, {int(getAxis())}, {-1}};
  map.results = {axes};
  return map;
}
OpFoldResult SelectRowsOp::fold(FoldAdaptor) {
  // Put back and packed again. Slots that are left over may hold anything.
  auto inner = getData().getDefiningOp<SelectRowsOp>();
  if (inner && inner.getAxis() == getAxis() && inner.getIndex() == getInverse() &&
      inner.getData().getType() == getType())
    return inner.getData();
  return {};
}
int64_t SelectRowsOp::getSlicedAxis() { return getAxis(); }
bool SelectRowsOp::dropsAxis() { return false; }
DimAttr SelectRowsOp::getSlicedExtent() { return getDim(getIndex(), 0); }
Value SelectRowsOp::buildSliced(TrainBuilder &tb, Value value, int64_t axis) {
  return tb.selectRows(value, getIndex(), getInverse(), axis);
}

LogicalResult GatherElementsOp::verify() {
  if (failed(checkAxis(*this, getAxis(), getRank(getData()))))
    return failure();
  if (getRank(getIndices()) != getRank(getData()))
    return attachNotes(emitOpError("expected indices of the data's rank ")
                           << getRank(getData()) << ", got " << getRank(getIndices()),
                       {{"indices", getIndices()}, {"data", getData()}});
  if (failed(checkDims(*this, "a result", getDims(getIndices()), getResult())))
    return failure();
  return checkElementType(*this, getData(), getResult());
}
AxisMap GatherElementsOp::getAxisMap() {
  AxisMap map = sameAxes(*this, [&](int64_t axis) {
    return axis != int64_t(getAxis()) && getDim(getData(), axis) == getDim(getIndices(), axis);
  });
  // Along the gathered axis results follow their indices, and any element of the data may be read.
  map.loops[getAxis()] = LoopKind::Parallel;
  map.operands[0][getAxis()] = map.loops.size();
  map.loops.push_back(LoopKind::Opaque);
  return map;
}

LogicalResult GatherNdOp::verify() {
  SmallVector<DimAttr> data = getDims(getData()), indices = getDims(getIndices());
  int64_t batch = getBatchDims();
  std::optional<int64_t> depth;
  if (!indices.empty())
    depth = indices.back().getConstant();
  if (!depth || *depth < 1)
    return attachNotes(emitOpError("expected indices with a constant last axis"),
                       {{"indices", getIndices()}});
  if (batch < 0 || batch >= int64_t(indices.size()) || batch + *depth > int64_t(data.size()))
    return attachNotes(emitOpError("expected batch_dims + index depth of at most the data's rank ")
                           << data.size() << ", got " << batch << " + " << *depth,
                       {{"indices", getIndices()}, {"data", getData()}});
  SmallVector<DimAttr> expected(indices.begin(), indices.end() - 1);
  expected.append(data.begin() + batch + *depth, data.end());
  for (int64_t axis = 0; axis < batch; ++axis)
    if (data[axis] != indices[axis])
      return attachNotes(emitOpError("expected equal batch sizes on axis ")
                             << axis << ", got " << data[axis].str() << " and "
                             << indices[axis].str(),
                         {{"indices", getIndices()}, {"data", getData()}});
  if (failed(checkDims(*this, "a result", expected, getResult())))
    return failure();
  return checkElementType(*this, getData(), getResult());
}
AxisMap GatherNdOp::getAxisMap() {
  AxisMap map;
  int64_t batch = getBatchDims(), indexRank = getRank(getIndices());
  int64_t depth = *getDims(getIndices()).back().getConstant();
  SmallVector<int> data, indices, result;
  auto loop = [&](LoopKind kind) {
    map.loops.push_back(kind);
    return int(map.loops.size()) - 1;
  };
  for (int64_t axis = 0; axis + 1 < indexRank; ++axis) {
    indices.push_back(loop(LoopKind::Parallel));
    result.push_back(indices.back());
    if (axis < batch)
      data.push_back(indices.back());
  }
  indices.push_back(loop(LoopKind::Opaque));
  for (int64_t i = 0; i < depth; ++i)
    data.push_back(loop(LoopKind::Opaque));
  for (int64_t axis = batch + depth; axis < getRank(getData()); ++axis) {
    data.push_back(loop(LoopKind::Parallel));
    result.push_back(data.back());
  }
  map.operands = {data, indices};
  map.results = {result};
  return map;
}

//===----------------------------------------------------------------------===//
// scatter_add, scatter_elements_add, cumsum
//===----------------------------------------------------------------------===//

LogicalResult ScatterAddOp::verify() {
  if (getUnique() && getRank(getIndices()) != 1)
    return attachNotes(emitOpError("has unique indices of ")
                           << getRank(getIndices()) << " axes, needs one",
                       {{"indices", getIndices()}});
  if (failed(checkAxis(*this, getAxis(), getRank(getResult()))))
    return failure();
  if (failed(checkDims(*this, "updates", gatheredDims(getResult(), getIndices(), getAxis()),
                       getUpdates())))
    return failure();
  return checkElementType(*this, getUpdates(), getResult());
}
AxisMap ScatterAddOp::getAxisMap() {
  SmallVector<int> data, indices, rows;
  AxisMap map = gatherAxisMap(getRank(getResult()), getRank(getIndices()), getAxis(),
                              LoopKind::Reduction, data, indices, rows);
  map.operands = {indices, rows};
  map.results = {data};
  return map;
}
OpOperand &ScatterAddOp::getScatterIndices() { return getIndicesMutable(); }
OpOperand &ScatterAddOp::getScatterUpdates() { return getUpdatesMutable(); }
int64_t ScatterAddOp::getScatterAxis() { return getAxis(); }
bool ScatterAddOp::isRowScatter() { return true; }
bool ScatterAddOp::hasUniqueIndices() { return getUnique(); }

LogicalResult ScatterElementsAddOp::verify() {
  if (failed(checkAxis(*this, getAxis(), getRank(getResult()))))
    return failure();
  if (getRank(getUpdates()) != getRank(getResult()))
    return attachNotes(emitOpError("expected updates of the result's rank ")
                           << getRank(getResult()) << ", got " << getRank(getUpdates()),
                       {{"updates", getUpdates()}});
  if (failed(checkDims(*this, "updates", getDims(getIndices()), getUpdates())))
    return failure();
  return checkElementType(*this, getUpdates(), getResult());
}
AxisMap ScatterElementsAddOp::getAxisMap() {
  AxisMap map;
  SmallVector<int> updates, result;
  for (int64_t axis = 0; axis < getRank(getResult()); ++axis) {
    bool same =
        axis != int64_t(getAxis()) && getDim(getUpdates(), axis) == getDim(getResult(), axis);
    map.loops.push_back(same ? LoopKind::Parallel : LoopKind::Reduction);
    updates.push_back(axis);
    result.push_back(axis);
  }
  for (int64_t axis = 0; axis < getRank(getResult()); ++axis)
    if (map.loops[axis] == LoopKind::Reduction) {
      result[axis] = map.loops.size();
      map.loops.push_back(LoopKind::Opaque);
    }
  map.operands = {updates, updates};
  map.results = {result};
  return map;
}
OpOperand &ScatterElementsAddOp::getScatterIndices() { return getIndicesMutable(); }
OpOperand &ScatterElementsAddOp::getScatterUpdates() { return getUpdatesMutable(); }
int64_t ScatterElementsAddOp::getScatterAxis() { return getAxis(); }
bool ScatterElementsAddOp::isRowScatter() { return false; }
bool ScatterElementsAddOp::hasUniqueIndices() { return false; }

LogicalResult CumsumOp::verify() { return checkAxis(*this, getAxis(), getRank(getResult())); }
AxisMap CumsumOp::getAxisMap() {
  return sameAxes(*this, [&](int64_t axis) { return axis != int64_t(getAxis()); });
}
int64_t CumsumOp::getScanAxis() { return getAxis(); }
bool CumsumOp::isExclusive() { return getExclusive(); }
bool CumsumOp::isReverse() { return getReverse(); }
TypedAttr CumsumOp::getScanIdentity(Type elementType) {
  return cast<TypedAttr>(Builder(getContext()).getZeroAttr(elementType));
}
Value CumsumOp::buildScanCombine(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  if (isa<FloatType>(getElementTypeOrSelf(lhs.getType())))
    return arith::AddFOp::create(builder, loc, lhs, rhs);
  return arith::AddIOp::create(builder, loc, lhs, rhs);
}
