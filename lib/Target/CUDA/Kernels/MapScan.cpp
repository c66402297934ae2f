// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scan on the GPU. Along an outer axis, or a short one, a thread does a line from end to end; along
// the innermost axis a block does a line, a piece at a time: each thread some neighbouring
// elements, their totals in log steps through shared memory.

#include "Tiles.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Elements of a line that one thread does though its neighbours' lie far away.
static constexpr int64_t kShortLine = 16;
/// Most elements of a piece that a thread of a block does.
static constexpr int64_t kMostNeighbours = 4;

namespace {

struct ScanShape {
  ScanShape(FusionOp fusion, const Structure &s);

  int64_t axis;
  /// Whether a block does a line.
  bool blocks;
  /// Elements of a piece that a thread does.
  int64_t neighbours;
  /// All axes but the scanned one, which has size 1.
  SmallVector<DimAttr> lineSizes;
};

} // namespace

/// A line of unknown size may be long.
ScanShape::ScanShape(FusionOp fusion, const Structure &s)
    : axis(cast<ScanOpInterface>(s.standalone).getScanAxis()), lineSizes(s.space) {
  auto behind = ArrayRef<DimAttr>(s.space).drop_front(axis + 1);
  bool innermost = llvm::all_of(behind, [](DimAttr size) { return size.isConstant(1); });
  auto size = s.space[axis].getConstant();
  blocks = innermost && (!size || *size > kShortLine);
  lineSizes[axis] = DimAttr::constant(fusion.getContext(), 1);
  neighbours = kMostNeighbours;
  if (size)
    neighbours = std::clamp<int64_t>(llvm::divideCeil(*size, kTileThreads), 1, kMostNeighbours);
}

/// One block for each line, or one thread.
void planScan(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  ScanShape shape(fusion, s);
  DimAttr lines = product(fusion.getContext(), shape.lineSizes);
  plan.stages = {{"", shape.blocks ? lines : ceilDim(lines, kTileThreads), kTileThreads}};
}

namespace {

class ScanMap {
public:
  explicit ScanMap(GpuKernel &kernel)
      : s(kernel.structure), op(s.standalone), scan(cast<ScanOpInterface>(op)),
        shape(kernel.fusion, s), e(kernel.nextStage()), element(getElementType(op->getResult(0))),
        step(computeType(element)) {}

  void run() {
    size = e.dim(s.space[shape.axis]);
    shape.blocks ? lineOfBlock() : linesOfThreads();
    e.finish();
  }

private:
  void lineOfBlock();
  void linesOfThreads();
  /// Coordinate on the axis of the step with this number.
  void setPlace(Value number) {
    if (scan.isReverse())
      number = e.subIndex(e.subIndex(size, e.constantIndex(1)), number);
    index[shape.axis] = {number, 0, {}};
  }
  Value operand() { return e.convertFloat(e.evaluateLanes(op->getOperand(0), index), step); }
  Value combine(Value x, Value y) { return scan.buildScanCombine(e.builder(), op->getLoc(), x, y); }
  void store(Value value) { e.store(0, index, e.convertFloat(value, element)); }

  const Structure &s;
  Operation *op;
  ScanOpInterface scan;
  ScanShape shape;
  GpuEmitter &e;
  Type element, step;
  Value size;
  Index index;
};

} // namespace

/// The line in order, four elements' loads ahead.
void ScanMap::linesOfThreads() {
  Value count = e.productOf(shape.lineSizes), one = e.constantIndex(1);
  Value line = e.addIndex(e.mulIndex(e.block(), e.constantIndex(kTileThreads)), e.thread());
  Value active = e.lessIndex(line, count);
  e.setActive(active);
  // Threads without a line stand at the last one, for no step.
  index = e.delinearize(e.minIndex(line, e.subIndex(count, one)), shape.lineSizes);
  Value zero = e.constantIndex(0), end = e.selectIndex(active, size, zero);
  Value identity = e.splat(scan.getScanIdentity(step));
  auto body = [&](ArrayRef<Value> numbers, ValueRange carried) -> Values {
    Values values;
    for (Value number : numbers) {
      setPlace(number);
      values.push_back(operand());
    }
    Value before = carried[0];
    for (auto [number, value] : llvm::zip_equal(numbers, values)) {
      Value after = combine(before, value);
      setPlace(number);
      store(scan.isExclusive() ? before : after);
      before = after;
    }
    return {before};
  };
  stridedLoop(e, zero, end, 1, 4, identity, body);
}

/// Pieces of the line one after the other; the sum so far is carried from piece to piece, so that
/// the order of additions follows from the size alone.
void ScanMap::lineOfBlock() {
  OpBuilder &b = e.builder();
  index = e.delinearize(e.block(), shape.lineSizes);
  Value zero = e.constantIndex(0), one = e.constantIndex(1);
  Value identity = e.splat(scan.getScanIdentity(step));
  // Two, so that no thread overwrites what another still reads.
  Value arrays[] = {e.shared(step, kTileThreads), e.shared(step, kTileThreads)};
  auto select = [&](Value condition, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, op->getLoc(), condition, x, y);
  };
  /// What the thread `distance` before has left in the array; threads that have none read the
  /// first one's.
  auto earlier = [&](Value array, int64_t distance) {
    Value isFirst = e.lessIndex(e.thread(), e.constantIndex(distance));
    Value from = e.selectIndex(isFirst, zero, e.subIndex(e.thread(), e.constantIndex(distance)));
    return std::make_pair(isFirst, e.loadFrom(array, step, {from, 0, {}}));
  };
  Value neighbours = e.constantIndex(shape.neighbours), last = e.subIndex(size, one);
  auto loop = e.openLoop(zero, size, e.constantIndex(kTileThreads * shape.neighbours), identity);
  Value first = e.addIndex(loop.getInductionVar(), e.mulIndex(e.thread(), neighbours));
  // Of the thread's elements up to each one.
  Values numbers, wanted, sums;
  for (int64_t i = 0; i < shape.neighbours; ++i) {
    Value number = e.addIndex(first, e.constantIndex(i));
    Value isElement = e.lessIndex(number, size);
    numbers.push_back(e.minIndex(number, last));
    wanted.push_back(isElement);
    e.setActive(isElement);
    setPlace(numbers.back());
    // Elements that are not there are neutral.
    Value value = select(isElement, operand(), identity);
    sums.push_back(i == 0 ? value : combine(sums.back(), value));
  }
  e.setActive({});
  // Nobody may still read what the last piece has left.
  e.syncBlock();
  Value total = sums.back();
  unsigned side = 0;
  // In log steps: each thread adds what the one `distance` before has summed.
  for (int64_t distance = 1; distance < kTileThreads; distance *= 2) {
    e.storeTo(arrays[side], step, {e.thread(), 0, {}}, total);
    e.syncBlock();
    auto [isFirst, other] = earlier(arrays[side], distance);
    total = select(isFirst, total, combine(other, total));
    side ^= 1;
  }
  e.storeTo(arrays[side], step, {e.thread(), 0, {}}, total);
  e.syncBlock();
  Value carried = loop.getRegionIterArgs()[0];
  auto [isFirst, other] = earlier(arrays[side], 1);
  Value before = select(isFirst, carried, combine(carried, other));
  Value all = e.loadFrom(arrays[side], step, {e.constantIndex(kTileThreads - 1), 0, {}});
  Value exclusive = before;
  for (auto [number, isElement, sum] : llvm::zip_equal(numbers, wanted, sums)) {
    Value inclusive = combine(before, sum);
    setPlace(number);
    e.openIf(isElement);
    store(scan.isExclusive() ? exclusive : inclusive);
    e.closeIf();
    exclusive = inclusive;
  }
  e.closeLoop(loop, combine(carried, all));
}

void mapScan(GpuKernel &kernel) { ScanMap(kernel).run(); }

} // namespace trainc::codegen
