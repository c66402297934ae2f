// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatter of elements on the GPU.
//
// Elements along the last axis are added in shared memory, where a warp keeps a line of the result:
// 32 updates at a time, those that meet at one element in turn. Updates that lie across the lines
// are read by the block, in vectors over its lines, and turned there, too. Along another axis, or
// where a line is long or its size not known, they are added one after another by the thread that
// has the line, sums of 16-bit floats in f32, in a temporary buffer; where there are few, by the
// thread that has the result.

#include "Accesses.h"
#include "Scatter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Updates along the axis that every element of the result may look at.
constexpr int64_t kFewUpdates = 32;
/// Bytes of shared memory for the lines that a block keeps.
constexpr int64_t kLineBytes = 32 << 10;
/// Steps of 32 updates whose loads are in flight together.
constexpr int64_t kLineUnroll = 4;
/// Updates of a line that are in a block's tile, and elements between lines there: those that a
/// warp stores at once are in different banks.
constexpr int64_t kTileUpdates = kWarp * kLineUnroll, kTilePitch = kTileUpdates + 4;

} // namespace

/// The number of updates along the axis, if it is known.
static int64_t updatesAlong(ScatterOpInterface scatter, int64_t otherwise) {
  DimAttr count = getDim(scatter.getScatterUpdates().get(), scatter.getScatterAxis());
  return count.getConstant().value_or(otherwise);
}

/// Warps of a block that keep a line of the result each in shared memory; 0: none can.
static int64_t lineWarps(ScatterOpInterface scatter, const Structure &s) {
  std::optional<int64_t> size = s.space.back().getConstant();
  if (scatter.getScatterAxis() + 1 != int64_t(s.space.size()) || !size || *size == 0)
    return 0;
  Type sum = computeType(getElementType(s.standalone->getResult(0)));
  int64_t lines = kLineBytes / (*size * getElementBytes(sum));
  return lines == 0 ? 0 : std::min<int64_t>(llvm::bit_floor(uint64_t(lines)), kTileThreads / kWarp);
}

/// The same choice as ElementScatter::run makes.
void planElementScatter(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  auto scatter = cast<ScatterOpInterface>(s.standalone);
  DimAttr elements = product(fusion.getContext(), s.space);
  if (updatesAlong(scatter, kFewUpdates + 1) <= kFewUpdates) {
    plan.stages = {{"", ceilDim(elements, kTileThreads), kTileThreads}};
    return;
  }
  SmallVector<DimAttr> lines = s.space;
  lines[scatter.getScatterAxis()] = DimAttr::constant(fusion.getContext(), 1);
  if (int64_t warps = lineWarps(scatter, s)) {
    plan.stages = {
        {"", ceilDim(product(fusion.getContext(), lines), warps), int64_t(warps * kWarp)}};
    return;
  }
  // Cleared first, since lines may have no update at all.
  plan.stages = {
      {"_clear", ceilDim(elements, kTileThreads * kCleared), kTileThreads},
      {"_add", ceilDim(product(fusion.getContext(), lines), kTileThreads), kTileThreads}};
  Type element = getElementType(s.standalone->getResult(0)), sum = computeType(element);
  if (sum != element) {
    plan.temporaryBytes = elements * DimAttr::constant(fusion.getContext(), getElementBytes(sum));
    plan.stages.push_back({"_round", ceilDim(elements, kTileThreads), kTileThreads});
  }
}

namespace {

class ElementScatter {
public:
  explicit ElementScatter(GpuKernel &kernel)
      : kernel(kernel), s(kernel.structure), op(s.standalone),
        scatter(cast<ScatterOpInterface>(op)), axis(scatter.getScatterAxis()),
        element(getElementType(op->getResult(0))), sum(computeType(element)) {}

  void run() {
    if (updatesAlong(scatter, kFewUpdates + 1) <= kFewUpdates)
      lookAtAll();
    else if (int64_t warps = lineWarps(scatter, s))
      keepLines(warps);
    else
      addInOrder();
  }

private:
  void lookAtAll();
  void keepLines(int64_t warps);
  /// The axis of a block's lines along which the updates lie in memory, if it is not theirs and a
  /// block has whole vectors of it; -1: none.
  int64_t acrossLines(int64_t warps);
  /// Reads `tile` from updates that begin at `first`: all threads of the block a vector over
  /// neighbouring lines each.
  void turnUpdates(Value tile, int64_t warps, int64_t across, Value first, Value last);
  void addInOrder();
  /// Adds the warp's `updates`, where they are `wanted`, to shared memory at `places`, a lane's
  /// before those of higher lanes.
  void addLanes(Value line, Value place, Value update, Value wanted);
  /// The position of the thread in `sizes`, and whether there is one; threads beyond do the last.
  Index position(ArrayRef<DimAttr> sizes);
  /// Updates that the position's line has: they may cover only a corner of the other axes.
  Value countUpdates(ArrayRef<ElementIndex> index);
  Value add(Value x, Value y) { return arith::AddFOp::create(e->builder(), op->getLoc(), x, y); }

  GpuKernel &kernel;
  const Structure &s;
  Operation *op;
  ScatterOpInterface scatter;
  int64_t axis;
  Type element, sum;
  GpuEmitter *e = nullptr;
  Value active;
};

} // namespace

Index ElementScatter::position(ArrayRef<DimAttr> sizes) {
  Value count = e->productOf(sizes);
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(kTileThreads)), e->thread());
  active = e->lessIndex(number, count);
  return e->delinearize(e->minIndex(number, e->subIndex(count, e->constantIndex(1))), sizes);
}

Value ElementScatter::countUpdates(ArrayRef<ElementIndex> index) {
  SmallVector<DimAttr> sizes = getDims(scatter.getScatterUpdates().get());
  Value none = e->constantIndex(0), count = e->dim(sizes[axis]);
  for (auto [other, size] : llvm::enumerate(sizes))
    if (int64_t(other) != axis && size != s.space[other])
      count = e->selectIndex(e->lessThan(index[other], e->dimIndex(size)), count, none);
  // Threads without a position add nothing.
  return e->selectIndex(active, count, none);
}

/// Each element of the result goes through its line's updates in their order.
void ElementScatter::lookAtAll() {
  e = &kernel.nextStage();
  Index target = position(s.space);
  Value zero = arith::ConstantOp::create(e->builder(), e->loc(),
                                         cast<TypedAttr>(e->builder().getZeroAttr(sum)));
  auto loop = e->openLoop(e->constantIndex(0), countUpdates(target), e->constantIndex(1), zero);
  Index source = target;
  source[axis] = {loop.getInductionVar(), 0, {}};
  Value data = e->evaluate(scatter.getScatterIndices().get(), source);
  Value place = e->checkedIndex(op, data, s.space[axis]).base;
  Value update = e->convertFloat(e->evaluate(scatter.getScatterUpdates().get(), source), sum);
  Value before = loop.getRegionIterArgs()[0];
  Value isHere = arith::CmpIOp::create(e->builder(), e->loc(), arith::CmpIPredicate::eq, place,
                                       target[axis].base);
  Value after =
      arith::SelectOp::create(e->builder(), e->loc(), isHere, add(before, update), before);
  Value total = e->closeLoop(loop, after)[0];
  e->openIf(active);
  e->store(0, target, e->convertFloat(total, element));
  e->closeIf();
  e->finish();
}

void ElementScatter::addLanes(Value line, Value place, Value update, Value wanted) {
  OpBuilder &b = e->builder();
  Location loc = e->loc();
  Type i1 = b.getI1Type(), i32 = b.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  // The barrier makes a lane's sum visible before the next turn.
  auto accumulate = [&](Value condition) {
    e->openIf(condition);
    Value before = e->loadFrom(line, sum, {place, 0, {}});
    e->storeTo(line, sum, {place, 0, {}}, add(before, update));
    e->closeIf();
    e->syncWarp();
  };
  Value lane =
      arith::IndexCastOp::create(b, loc, i32, e->remIndex(e->thread(), e->constantIndex(kWarp)));
  // No other lane has the key of an update that nobody wants.
  Value none = arith::SubIOp::create(b, loc, number(-1), lane);
  Value key =
      arith::SelectOp::create(b, loc, wanted, arith::IndexCastOp::create(b, loc, i32, place), none);

  // Indices that rise or fall, as those of relative positions do, do not meet.
  Value before = e->shuffleUp(key);
  Value isFirst = compare(arith::CmpIPredicate::eq, lane, number(0));
  auto isOrdered = [&](arith::CmpIPredicate order) {
    return e->allOfWarp(arith::OrIOp::create(b, loc, isFirst, compare(order, key, before)));
  };
  Value apart = arith::OrIOp::create(b, loc, isOrdered(arith::CmpIPredicate::sgt),
                                     isOrdered(arith::CmpIPredicate::slt));
  e->openIf(apart);
  accumulate(wanted);
  e->closeIf();

  e->openIf(arith::XOrIOp::create(b, loc, apart, arith::ConstantIntOp::create(b, loc, i1, 1)));
  Value same = e->matchWarp(key);
  Value below =
      arith::SubIOp::create(b, loc, arith::ShLIOp::create(b, loc, number(1), lane), number(1));
  // A lane's turn is the number of lower lanes with its key; the longest row of equal keys decides
  // how many turns there are.
  Value turn = LLVM::CtPopOp::create(b, loc, i32, arith::AndIOp::create(b, loc, same, below));
  Value turns = LLVM::CtPopOp::create(b, loc, i32, same);
  for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
    turns = arith::MaxUIOp::create(b, loc, turns, e->shuffle(turns, mask));
  auto loop =
      e->openLoop(e->constantIndex(0), arith::IndexCastOp::create(b, loc, b.getIndexType(), turns),
                  e->constantIndex(1));
  Value now = arith::IndexCastOp::create(b, loc, i32, loop.getInductionVar());
  accumulate(arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, now, turn), wanted));
  e->closeLoop(loop);
  e->closeIf();
}

/// Lines of a block are neighbours on the axis in front of the scatter's. All of them are there, so
/// that every warp comes by where the block meets, and goes as often around the loop.
int64_t ElementScatter::acrossLines(int64_t warps) {
  Value updates = scatter.getScatterUpdates().get();
  const int64_t across = axis - 1;
  if (across < 0)
    return -1;
  for (auto [other, size] : llvm::enumerate(getDims(updates)))
    if (int64_t(other) != axis && size != s.space[other])
      return -1;
  // Every block has all of its lines, side by side on that axis.
  const std::optional<int64_t> size = s.space[across].getConstant();
  if (warps < kLineUnroll || !size || *size % warps != 0)
    return -1;
  const SmallVector<int64_t> bytes = findBytesAlong(updates);
  return bytes[across] > bytes[axis] ? across : -1;
}

/// The order of the additions is that of a warp that reads its line by itself: no bit changes.
void ElementScatter::turnUpdates(Value tile, int64_t warps, int64_t across, Value first,
                                 Value last) {
  // As many elements of the tile are there for a thread.
  const int64_t lanes = kLineUnroll, vectors = warps / lanes;
  Value vector = e->remIndex(e->thread(), e->constantIndex(vectors)),
        row = e->divIndex(e->thread(), e->constantIndex(vectors));
  // The block's lines begin at a multiple of their number.
  SmallVector<DimAttr> blocks = s.space;
  blocks[axis] = DimAttr::constant(op->getContext(), 1);
  blocks[across] = DimAttr::constant(op->getContext(), *s.space[across].getConstant() / warps);
  Index source = e->delinearize(e->block(), blocks);
  Value line = e->mulIndex(source[across].base, e->constantIndex(warps));
  source[across] = {e->addIndex(line, e->mulIndex(vector, e->constantIndex(lanes))), 1, {}};
  source[axis] = {e->minIndex(e->addIndex(first, row), last), 0, {}};
  e->setLanes(lanes);
  Value updates = e->convertFloat(e->evaluateLanes(scatter.getScatterUpdates().get(), source), sum);
  e->setLanes(1);
  // Nobody may still read what was there before.
  e->syncBlock();
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value element =
        vector::ExtractOp::create(e->builder(), e->loc(), updates, ArrayRef<int64_t>{lane});
    Value number =
        e->addIndex(e->mulIndex(vector, e->constantIndex(lanes)), e->constantIndex(lane));
    Value place = e->addIndex(e->mulIndex(number, e->constantIndex(kTilePitch)), row);
    e->storeTo(tile, sum, {place, 0, {}}, element);
  }
  e->syncBlock();
}

/// Steps of 32 updates in order, and within one the lanes in order: each element gets its additions
/// in the order of the updates.
void ElementScatter::keepLines(int64_t warps) {
  e = &kernel.nextStage();
  int64_t size = *s.space[axis].getConstant();
  SmallVector<DimAttr> lines = s.space;
  lines[axis] = DimAttr::constant(op->getContext(), 1);
  Value warp = e->divIndex(e->thread(), e->constantIndex(kWarp));
  Value lane = e->remIndex(e->thread(), e->constantIndex(kWarp));
  Value count = e->productOf(lines), one = e->constantIndex(1);
  Value number = e->addIndex(e->mulIndex(e->block(), e->constantIndex(warps)), warp);
  active = e->lessIndex(number, count);
  Index target = e->delinearize(e->minIndex(number, e->subIndex(count, one)), lines);
  Value first = e->mulIndex(warp, e->constantIndex(size));
  Value array = e->shared(sum, warps * size);
  const int64_t across = acrossLines(warps);
  Value tile = across < 0 ? Value() : e->shared(sum, warps * kTilePitch);
  // Both ends in vectors.
  int64_t lanes = size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
  auto forEachVector = [&](llvm::function_ref<void(const ElementIndex &)> body) {
    e->setLanes(lanes);
    auto loop = e->openLoop(lane, e->constantIndex(size / lanes), e->constantIndex(kWarp));
    body(vectorAt(*e, loop.getInductionVar(), lanes));
    e->closeLoop(loop);
    e->setLanes(1);
  };
  auto inLine = [&](const ElementIndex &i) { return e->add({first, 0, {}}, i); };
  forEachVector([&](const ElementIndex &i) {
    e->storeTo(array, sum, inLine(i), e->convertFloat(e->zero(element), sum));
  });
  e->syncWarp();

  Value updates = countUpdates(target), last = e->subIndex(updates, one);
  auto loop = e->openLoop(e->constantIndex(0), updates, e->constantIndex(kWarp * kLineUnroll));
  struct Update {
    Value data, value, wanted;
  };
  SmallVector<Update> read;
  if (tile)
    turnUpdates(tile, warps, across, loop.getInductionVar(), last);
  for (int64_t i = 0; i < kLineUnroll; ++i) {
    Value inTile = e->addIndex(lane, e->constantIndex(i * kWarp));
    Value at = e->addIndex(loop.getInductionVar(), inTile);
    Index source = target;
    source[axis] = {e->minIndex(at, last), 0, {}};
    Value data = e->evaluate(scatter.getScatterIndices().get(), source);
    Value place = e->addIndex(e->mulIndex(warp, e->constantIndex(kTilePitch)), inTile);
    Value update = tile ? e->loadFrom(tile, sum, {place, 0, {}})
                        : e->evaluate(scatter.getScatterUpdates().get(), source);
    read.push_back({data, e->convertFloat(update, sum), e->lessIndex(at, updates)});
  }
  // The branches of the checks would keep later loads behind them.
  for (const Update &update : read) {
    e->setActive(update.wanted);
    Value place = e->checkedIndex(op, update.data, s.space[axis]).base;
    e->setActive({});
    addLanes(array, e->addIndex(first, place), update.value, update.wanted);
  }
  e->closeLoop(loop);

  e->openIf(active);
  forEachVector([&](const ElementIndex &i) {
    target[axis] = i;
    e->store(0, target, e->convertFloat(e->loadFrom(array, sum, inLine(i)), element));
  });
  e->closeIf();
  e->finish();
}

/// A thread for a line: no two threads add to one element. Sums are rounded once, behind all
/// additions.
void ElementScatter::addInOrder() {
  const bool isRounded = sum != element;
  auto sums = [&] { return isRounded ? e->temporary() : e->buffer(e->fusion.getInputs().size()); };
  e = &kernel.nextStage();
  clearArray(*e, sums(), sum, e->productOf(s.space), 1);
  e->finish();

  e = &kernel.nextStage();
  SmallVector<DimAttr> lines = s.space;
  lines[axis] = DimAttr::constant(op->getContext(), 1);
  Index target = position(lines), source = target;
  auto loop = e->openLoop(e->constantIndex(0), countUpdates(target), e->constantIndex(1));
  source[axis] = {loop.getInductionVar(), 0, {}};
  Value data = e->evaluate(scatter.getScatterIndices().get(), source);
  target[axis] = e->checkedIndex(op, data, s.space[axis]);
  Value update = e->convertFloat(e->evaluate(scatter.getScatterUpdates().get(), source), sum);
  ElementIndex place = e->linearize(target, s.space);
  Value after = add(e->loadFrom(sums(), sum, place), update);
  if (isRounded)
    e->storeTo(sums(), sum, place, after);
  else
    e->store(0, target, after);
  e->closeLoop(loop);
  e->finish();
  if (!isRounded)
    return;

  e = &kernel.nextStage();
  Index index = position(s.space);
  Value total = e->loadFrom(sums(), sum, e->linearize(index, s.space));
  e->openIf(active);
  e->store(0, index, e->convertFloat(total, element));
  e->closeIf();
  e->finish();
}

void mapElementScatter(GpuKernel &kernel) { ElementScatter(kernel).run(); }

} // namespace trainc::codegen
