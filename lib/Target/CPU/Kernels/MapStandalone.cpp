// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatter and scan on the CPU. Both are sequential along one axis and parallel over the others, so
// the order of additions is that of the definition whatever the number of threads.
//
// Rows (embedding gradients) are stored one after another, each once: its updates, which a counting
// sort has found, are summed in registers. So what is computed of the sum needs no second buffer.

#include "CpuEmitter.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Work items of a standalone op: a position of all axes of the space but `serial`, where the last
/// axis (if it is not the serial one and `blocked`) is cut into blocks of columns.
struct Items {
  Items(CpuEmitter &e, int64_t serial, bool blocked);

  /// Calls `body` for the lanes of the block, with `index` complete but for the serial axis.
  void forEachColumn(CpuEmitter &e, llvm::function_ref<void()> body);

  /// Coordinates in the space; that of the serial axis is for the template to set.
  Index index;
  int64_t serial, last;
  bool blocked;
  Value lower, upper;
  DimAttr lastSize;
};

} // namespace

/// Opens the loop over items.
Items::Items(CpuEmitter &e, int64_t serial, bool blocked)
    : serial(serial), last(int64_t(e.structure.space.size()) - 1),
      blocked(blocked && serial != last) {
  SmallVector<DimAttr> sizes = e.structure.space;
  lastSize = sizes[last];
  sizes[serial] = DimAttr::constant(lastSize.getContext(), 1);
  if (!this->blocked) {
    Value item = e.openItems();
    index = e.delinearize(item, sizes);
    return;
  }
  sizes[last] = DimAttr::constant(lastSize.getContext(), 1);
  Value size = e.dim(lastSize), block = e.constantIndex(kColumnBlock);
  Value blocks = e.divIndex(e.addIndex(size, e.constantIndex(kColumnBlock - 1)), block);
  Value item = e.openItems();
  index = e.delinearize(e.divIndex(item, blocks), sizes);
  lower = e.mulIndex(e.remIndex(item, blocks), block);
  upper = e.minIndex(e.addIndex(lower, block), size);
}

/// Without blocks `index` is complete, and there are no lanes.
void Items::forEachColumn(CpuEmitter &e, llvm::function_ref<void()> body) {
  if (!blocked)
    return body();
  std::optional<int64_t> size = lastSize.getConstant();
  if (size && *size > kColumnBlock)
    size = *size % kColumnBlock == 0 ? std::optional<int64_t>(kColumnBlock) : std::nullopt;
  forEachVector(e, lower, upper, size, [&](const ElementIndex &i) {
    index[last] = i;
    body();
  });
}

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

namespace {

class ScatterMap {
public:
  /// Two forms: rows by sorting, single elements in place.
  explicit ScatterMap(CpuEmitter &e)
      : e(e), op(e.structure.standalone), scatter(cast<ScatterOpInterface>(op)),
        axis(scatter.getScatterAxis()), indices(scatter.getScatterIndices().get()),
        updates(scatter.getScatterUpdates().get()), resultType(op->getResult(0).getType()),
        integer(IntegerType::get(op->getContext(), 64)) {}

  void run() { scatter.isRowScatter() ? rows() : elements(); }

private:
  void clear(Items &items);
  void rows();
  void sortRows();
  /// Calls `body` with the row and the number of each update.
  void forEachUpdate(llvm::function_ref<void(Value, Value)> body);
  Value number(Value array, Value place) {
    Value loaded = e.loadFrom(array, integer, {place, 0, {}});
    return arith::IndexCastOp::create(e.builder(), e.loc(), e.builder().getIndexType(), loaded);
  }
  void setNumber(Value array, Value place, Value value) {
    value = arith::IndexCastOp::create(e.builder(), e.loc(), integer, value);
    e.storeTo(array, integer, {place, 0, {}}, value);
  }
  void elements();
  /// result[index] += update
  void accumulate(ArrayRef<ElementIndex> index, Value update);

  CpuEmitter &e;
  Operation *op;
  ScatterOpInterface scatter;
  int64_t axis;
  Value indices, updates;
  Type resultType, integer;
  /// In scratch: where the updates of each row end in `order`, and all updates by rows, those of a
  /// row in their order.
  Value ends, order;
};

} // namespace

void ScatterMap::accumulate(ArrayRef<ElementIndex> index, Value update) {
  Value sum = e.load(e.fusion.getInputs().size(), resultType, index);
  // A scatter into a splat row: the update may be uniform while the place is not.
  sum = arith::AddFOp::create(e.builder(), op->getLoc(), sum, update);
  e.store(0, index, sum);
}

/// Zeros in everything that the item adds to.
void ScatterMap::clear(Items &items) {
  Type element = getElementTypeOrSelf(resultType);
  DimAttr size = e.structure.space[axis];
  Value zero = e.constantIndex(0);
  if (axis == items.last) {
    e.setLanes(lanesFor(size));
    forEachVector(e, zero, e.dim(size), size.getConstant(), [&](const ElementIndex &i) {
      items.index[axis] = i;
      e.store(0, items.index, e.zero(element));
    });
    e.setLanes(1);
    return;
  }
  auto loop = e.openLoop(zero, e.dim(size), e.constantIndex(1));
  items.index[axis] = {loop.getInductionVar(), 0, {}};
  items.forEachColumn(e, [&] { e.store(0, items.index, e.zero(element)); });
  e.closeLoop(loop);
}

/// An end for each row, a number for each update.
DimAttr sortedRowsBytes(const Structure &s) {
  auto scatter = cast<ScatterOpInterface>(s.standalone);
  MLIRContext *context = s.standalone->getContext();
  DimAttr count = product(context, getDims(scatter.getScatterIndices().get()));
  return (s.space[scatter.getScatterAxis()] + count) * DimAttr::constant(context, 8);
}

/// In the order of the updates. With unique indices a negative one means "nowhere".
void ScatterMap::forEachUpdate(llvm::function_ref<void(Value, Value)> body) {
  SmallVector<DimAttr> sizes = getDims(indices);
  auto loop = e.openLoop(e.constantIndex(0), e.productOf(sizes), e.constantIndex(1));
  Value chosen = e.evaluate(indices, e.delinearize(loop.getInductionVar(), sizes));
  if (scatter.hasUniqueIndices()) {
    Value zero = arith::ConstantOp::create(
        e.builder(), op->getLoc(), cast<TypedAttr>(e.builder().getZeroAttr(chosen.getType())));
    e.openIf(
        arith::CmpIOp::create(e.builder(), op->getLoc(), arith::CmpIPredicate::sge, chosen, zero));
  }
  body(e.checkedIndex(op, chosen, e.structure.space[axis]).base, loop.getInductionVar());
  if (scatter.hasUniqueIndices())
    e.closeIf();
  e.closeLoop(loop);
}

/// A counting sort, stable: the updates of a row keep their order, and with it the bits of their
/// sum.
void ScatterMap::sortRows() {
  Value zero = e.constantIndex(0), one = e.constantIndex(1), size = e.dim(e.structure.space[axis]);
  ends = e.scratch(zero);
  order = e.scratch(e.mulIndex(size, e.constantIndex(8)));
  auto clear = e.openLoop(zero, size, one);
  setNumber(ends, clear.getInductionVar(), zero);
  e.closeLoop(clear);
  auto increment = [&](Value row) {
    Value before = number(ends, row);
    setNumber(ends, row, arith::AddIOp::create(e.builder(), e.loc(), before, one));
    return before;
  };
  // Counts, then where each row begins, then the places.
  forEachUpdate([&](Value row, Value) { increment(row); });
  // Where they begin, which becomes where they end as they find their places.
  auto rows = e.openLoop(zero, size, one, zero);
  Value begin = rows.getRegionIterArgs()[0], row = rows.getInductionVar();
  Value end = arith::AddIOp::create(e.builder(), e.loc(), begin, number(ends, row));
  setNumber(ends, row, begin);
  e.closeLoop(rows, end);
  forEachUpdate([&](Value row, Value update) { setNumber(order, increment(row), update); });
}

/// Every row is stored once, rows without updates as zeros.
void ScatterMap::rows() {
  bool trailing = axis + 1 < int64_t(e.structure.space.size());
  e.setLanes(trailing ? lanesFor(e.structure.space.back()) : 1);
  Items items(e, axis, /*blocked=*/true);
  sortRows();

  Type element = getElementTypeOrSelf(resultType), sum = computeType(element);
  Value total;
  // What the epilogue reads as the sum.
  e.resident = [&](Value value, ArrayRef<ElementIndex> index) {
    return value == op->getResult(0) && KernelEmitter::same(index, e.spaceIndex) ? total : Value();
  };
  // Rows follow each other in `order`: one ends where the next begins.
  auto loop = e.openLoop(e.constantIndex(0), e.dim(e.structure.space[axis]), e.constantIndex(1),
                         e.constantIndex(0));
  Value begin = loop.getRegionIterArgs()[0], end = number(ends, loop.getInductionVar());
  items.index[axis] = {loop.getInductionVar(), 0, {}};
  items.forEachColumn(e, [&] {
    auto row = e.openLoop(begin, end, e.constantIndex(1), e.zero(sum));
    Index source(ArrayRef<ElementIndex>(items.index).take_front(axis));
    source.append(e.delinearize(number(order, row.getInductionVar()), getDims(indices)));
    source.append(items.index.begin() + axis + 1, items.index.end());
    // Summed in the compute type, rounded once.
    Value update = e.convertFloat(e.evaluateLanes(updates, source), sum);
    Value after =
        arith::AddFOp::create(e.builder(), op->getLoc(), row.getRegionIterArgs()[0], update);
    total = e.convertFloat(e.closeLoop(row, after)[0], element);
    e.spaceIndex = items.index;
    e.storeResults();
  });
  e.closeLoop(loop, end);
  e.closeItems();
}

void ScatterMap::elements() {
  // Lanes could meet in one element along the axis; along the others the gain is small.
  e.setLanes(1);
  Items items(e, axis, /*blocked=*/false);
  clear(items);

  // Updates may cover only a corner of the other axes.
  // Elsewhere nothing is added.
  SmallVector<DimAttr> sizes = getDims(updates);
  Value count = e.dim(sizes[axis]);
  for (auto [other, size] : llvm::enumerate(sizes)) {
    if (int64_t(other) == axis || size == e.structure.space[other])
      continue;
    Value inside = e.lessThan(items.index[other], e.dimIndex(size));
    count = arith::SelectOp::create(e.builder(), op->getLoc(), inside, count, e.constantIndex(0));
  }
  auto loop = e.openLoop(e.constantIndex(0), count, e.constantIndex(1));
  Index source = items.index;
  source[axis] = {loop.getInductionVar(), 0, {}};
  ElementIndex place = e.checkedIndex(op, e.evaluate(indices, source), e.structure.space[axis]);
  Value update = e.evaluate(updates, source);
  Index target = items.index;
  target[axis] = place;
  // Sequential along the axis: two updates of one element are added in their order.
  accumulate(target, update);
  e.closeLoop(loop);
  e.closeItems();
}

void mapScatter(CpuEmitter &emitter) { ScatterMap(emitter).run(); }

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

/// One lane or column after the other in the scan's direction, as the op is defined.
void mapScan(CpuEmitter &e) {
  Operation *op = e.structure.standalone;
  auto scan = cast<ScanOpInterface>(op);
  int64_t axis = scan.getScanAxis();
  DimAttr size = e.structure.space[axis];
  Value operand = op->getOperand(0);
  Type element = getElementType(op->getResult(0));
  bool columns = axis + 1 < int64_t(e.structure.space.size());
  e.setLanes(columns ? lanesFor(e.structure.space.back()) : 1);
  Items items(e, axis, /*blocked=*/true);
  items.forEachColumn(e, [&] {
    Value initial = e.splat(scan.getScanIdentity(element));
    auto loop = e.openLoop(e.constantIndex(0), e.dim(size), e.constantIndex(1), initial);
    Value place = loop.getInductionVar();
    if (scan.isReverse())
      place = e.subIndex(e.subIndex(e.dim(size), e.constantIndex(1)), place);
    items.index[axis] = {place, 0, {}};
    Value before = loop.getRegionIterArgs()[0];
    Value value = e.evaluateLanes(operand, items.index);
    Value after = scan.buildScanCombine(e.builder(), op->getLoc(), before, value);
    // Exclusive: what was there before this element.
    e.store(0, items.index, scan.isExclusive() ? before : after);
    e.closeLoop(loop, after);
  });
  e.closeItems();
}

} // namespace trainc::codegen
