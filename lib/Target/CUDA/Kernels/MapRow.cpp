// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The row template on the GPU. Threads of a warp, or the block, share a row. Where the row is short
// enough, a thread's part of it is straight-line code: what one pass has read or computed is in
// registers in the next. Longer rows are loops, and later passes read again.
//
// Where a pass reads the row again, the sum of a softmax is part of the pass that finds the
// maximum.
//
// The order of a reduction: the thread's vectors one after the other, lanes, threads of a warp,
// warps; a function of the row's length and of how many tensors the kernel reads, in which types.
//
// Where sums down the columns go with the rows, a block does many of them (ColumnSums.h), each
// thread with sums of its own columns: the rows one after the other, then the rows that the block
// does at once, in a tree.

#include "ColumnSums.h"
#include "RowPasses.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Vectors of a thread that are kept in registers, at most.
static constexpr int64_t kLargestVectors = 8;
/// Elements of all inputs that a thread keeps in registers.
static constexpr int64_t kRegisterElements = 32;
/// Cost of a thread's straight-line code, at most: long formulas in many copies take long to
/// compile.
static constexpr int64_t kLargestCost = 6144;
/// Rows that leave no processor idle where each is a small block's.
static constexpr int64_t kManyRows = 2048;
static constexpr unsigned kInsideLanes = 8, kInsideUnroll = 4;
static constexpr int64_t kLargestBlock = 1024, kRowBlock = 128;

/// Chooses threads a row, vectors a thread (0: loops) and rows a block, from the row's length, the
/// inputs and the cost of the formulas.
void planRow(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  MLIRContext *context = fusion.getContext();
  DimAttr rows = productOf(context, s.space, s.kept);
  DimAttr length = productOf(context, s.space, s.reduced);
  plan.lanes = chooseLanes(fusion, s, s.space[s.vectorAxis]);
  int64_t lanes = plan.lanes;
  // Sums of columns are held as well.
  int64_t inputs = std::max<int64_t>(1, countSpaceInputs(fusion, s) + s.columnSums.size());
  int64_t limit = std::clamp<int64_t>(kRegisterElements / (lanes * inputs), 1, kLargestVectors);
  // Rows of unknown size have loops of vectors and of scalars, with what is left over of each.
  int64_t copies = length.getConstant() ? 1 : 4;
  while (limit > 1 && copies * limit * lanes * std::max(1u, s.cost) > kLargestCost)
    --limit;
  if (auto known = length.getConstant()) {
    // As many threads as there are vectors, up to a warp.
    int64_t count = *known / lanes, threads = 1;
    while (threads < kWarp && threads < count)
      threads *= 2;
    // Rather more rows in a warp than idle threads. A warp alone, without barriers, may hold half
    // as much again.
    auto fits = [&](int64_t fewer) {
      return count % fewer == 0 && 2 * (count / fewer) <= (fewer == kWarp ? 3 : 2) * limit;
    };
    for (int64_t fewer = threads; fewer >= 8; fewer /= 2)
      if (fits(fewer)) {
        threads = fewer;
        break;
      }
    auto vectors = [&] { return (count + threads - 1) / threads; };
    while (threads < kLargestBlock && vectors() > limit && !fits(threads))
      threads *= 2;
    plan.rowThreads = threads;
    if (vectors() <= limit || fits(threads) || !s.columnSums.empty()) {
      plan.vectors = vectors();
    } else {
      auto count = rows.getConstant();
      // Of many rows some always read while others come to their end.
      plan.rowThreads = count && *count < kManyRows ? 512 : 256;
    }
  } else {
    plan.rowThreads = 256;
  }
  if (plan.vectors == 0)
    plan.unroll = std::min<int64_t>(4, limit);
  // Rows inside of longer ones may begin where a vector does, though their size is none's multiple
  // (logits of a vocabulary that was padded for the matmul).
  bool inside = llvm::none_of(fusion.getInputs().getTypes(),
                              [&](Type type) { return getDims(type) == s.space; });
  if (plan.vectors == 0 && length.getConstant() && lanes < 4 && inside &&
      length == s.space[s.vectorAxis])
    plan.reducingLanes = kInsideLanes;
  plan.blockRows = std::max<int64_t>(1, plan.rowThreads > kWarp ? 1 : kRowBlock / plan.rowThreads);
  if (s.columnSums.empty())
    plan.stages = {{"", ceilDim(rows, plan.blockRows), plan.rowThreads * plan.blockRows}};
  else
    planColumnSums(fusion, s, plan);
}

namespace {

class RowMap {
public:
  explicit RowMap(GpuKernel &kernel);
  void run();

private:
  /// A thread's vector of the row.
  struct Place {
    Index space;
    std::optional<ElementIndex> offset;
    /// Null: always.
    Value active;
  };
  Place place(Value vector, unsigned lanes);
  void moveTo(const Place &place) {
    e.spaceIndex = place.space;
    e.spaceOffset = place.offset;
    e.setActive(both(activeRow, place.active));
  }
  /// Null is "always".
  Value both(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return e.selectIndex(x, y, x);
  }
  /// One pass at some places: the reductions' operands combined place after place into
  /// `accumulators` (empty: there are none yet); stores the pass's results.
  void visit(const RowPass &pass, ArrayRef<Place> places, Values &accumulators);
  Values loops(const RowPass &pass, Value count, unsigned lanes, unsigned unroll,
               int64_t begin = 0);
  Values sweep(const RowPass &pass);
  // Rescaled sums. A part of one is a maximum and the sum of exponentials below it.
  Value reference(Value maximum);
  Value exponential(Value x, Value reference);
  void rescaleInto(const RescaledSum &pair, ArrayRef<Place> places, Value &maximum, Value &sum);
  Values combineParts(const RowPass &pass, ValueRange x, ValueRange y);
  Values meet(const RowPass &pass, ValueRange parts, int64_t width);
  void setTotals(const RowPass &pass, ValueRange values);
  Value lookUp(Value value, ArrayRef<ElementIndex> index);
  Value evaluatePick(Operation *op, const Pick &pick);
  void storeKept();
  /// Goes to the block's rows of a round.
  void setRows(Value round);
  void runPasses();
  Value placeNumber(int64_t k, Value &active);
  void addToColumns(const RowPass &pass, ArrayRef<Place> places);
  void runWithColumns();
  void storeColumns(const ColumnSums &sums);

  GpuEmitter &e;
  const Structure &s;
  const GpuPlan &plan;
  RowPasses order;
  Operation *yield;
  SmallVector<int64_t> outerReduced;
  SmallVector<DimAttr> outerReducedSizes;
  bool oneSegment = false, contiguous = false;
  Value row, lane, activeRow, outerCount;
  llvm::DenseMap<Value, Value> totals;
  llvm::DenseMap<Value, std::pair<unsigned, unsigned>> storedIn;
  SmallVector<DimAttr> keptSizes;
  /// Of each sum down the columns: what the thread has of each of its vectors so far.
  llvm::MapVector<Operation *, Values> columns;
};

} // namespace

RowMap::RowMap(GpuKernel &kernel)
    : e(kernel.nextStage()), s(kernel.structure), plan(kernel.plan),
      order(kernel.fusion, s, /*rescale=*/plan.vectors == 0),
      yield(kernel.fusion.getBody().front().getTerminator()) {
  for (int64_t axis : s.reduced)
    if (axis != s.vectorAxis) {
      outerReduced.push_back(axis);
      outerReducedSizes.push_back(s.space[axis]);
    }
  for (int64_t axis : s.kept)
    keptSizes.push_back(s.space[axis]);
  oneSegment = product(e.fusion.getContext(), outerReducedSizes).isConstant(1);
  outerCount = e.productOf(outerReducedSizes);
  // Whether the row is one piece of the space.
  int64_t firstReduced = s.space.size();
  for (int64_t axis : llvm::reverse(s.reduced))
    if (!s.space[axis].isConstant(1))
      firstReduced = axis;
  contiguous = llvm::all_of(
      s.kept, [&](int64_t axis) { return axis < firstReduced || s.space[axis].isConstant(1); });
  for (auto [number, pass] : llvm::enumerate(order.passes))
    for (unsigned result : pass.results)
      storedIn.try_emplace(yield->getOperand(result), unsigned(number), result);
}

/// What is known of a row: totals, picked elements, results that an earlier pass has stored.
Value RowMap::lookUp(Value value, ArrayRef<ElementIndex> index) {
  if (Value total = totals.lookup(value); total && KernelEmitter::same(index, e.keptIndex))
    return total;
  if (auto pick = order.picks.find(value);
      pick != order.picks.end() && KernelEmitter::same(index, e.keptIndex))
    return evaluatePick(value.getDefiningOp(), pick->second);
  // Registers have what straight-line code has stored.
  auto stored = storedIn.find(value);
  if (plan.vectors != 0 || stored == storedIn.end() || stored->second.first >= e.pass ||
      isa<BlockArgument>(value) || !KernelEmitter::same(index, e.spaceIndex))
    return {};
  return e.load(e.fusion.getInputs().size() + stored->second.second, value.getType(), index);
}

/// Looks only where the index says.
Value RowMap::evaluatePick(Operation *op, const Pick &pick) {
  OpBuilder &b = e.builder();
  Location loc = op->getLoc();
  Index place(s.space.size(), e.constant(0));
  for (auto [axis, index] : llvm::zip_equal(s.kept, e.keptIndex))
    place[axis] = index;
  Value column =
      arith::IndexCastOp::create(b, loc, b.getIndexType(), e.element(*pick.index, place));
  // As unsigned: a negative index is outside, too.
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, column,
                                       e.dim(s.space[s.vectorAxis]));
  place[s.vectorAxis] = {column, 0, {}};
  Value none = e.identity(op, 1);
  // As the sum with zeros has it.
  return e.combine(op, none, e.elementIf(*pick.element, place, inside, none));
}

/// The place of the row's vector `vector`, counted over all reduced axes.
RowMap::Place RowMap::place(Value vector, unsigned lanes) {
  Value width = e.constantIndex(lanes);
  Value axisVectors = wholeVectors(e, s.space[s.vectorAxis], lanes);
  Place result;
  Value column = vector;
  Index outer(outerReduced.size(), e.constant(0));
  if (!oneSegment) {
    column = e.remIndex(vector, axisVectors);
    outer = e.delinearize(e.divIndex(vector, axisVectors), outerReducedSizes);
  }
  result.space.assign(s.space.size(), e.constant(0));
  for (auto [axis, index] : llvm::zip_equal(s.kept, e.keptIndex))
    result.space[axis] = index;
  for (auto [axis, index] : llvm::zip_equal(outerReduced, outer))
    result.space[axis] = index;
  int64_t stride = lanes == 1 ? 0 : 1;
  result.space[s.vectorAxis] = {e.mulIndex(column, width), stride, {}};
  // Known without multiplying coordinates.
  if (contiguous) {
    Value length = e.mulIndex(outerCount, e.dim(s.space[s.vectorAxis]));
    result.offset =
        ElementIndex{e.addIndex(e.mulIndex(row, length), e.mulIndex(vector, width)), stride, {}};
  }
  return result;
}

/// Reads of all places come first, stores last: nothing is stored over an input that another place
/// still reads.
void RowMap::visit(const RowPass &pass, ArrayRef<Place> places, Values &accumulators) {
  SmallVector<Values> results;
  OpBuilder &b = e.builder();
  for (const Place &place : places) {
    moveTo(place);
    Values mapped;
    for (Operation *op : pass.reductions) {
      Value value = e.mappedOperand(op, e.spaceIndex);
      // A place that is not there counts as nothing.
      if (place.active)
        value = arith::SelectOp::create(b, op->getLoc(), place.active, value,
                                        e.identity(op, e.getLanes()));
      mapped.push_back(value);
    }
    if (accumulators.empty())
      accumulators = mapped;
    else
      for (auto [op, sum, value] : llvm::zip_equal(pass.reductions, accumulators, mapped))
        sum = e.combine(op, sum, value);
    Values &values = results.emplace_back();
    for (unsigned number : pass.results)
      values.push_back(e.evaluateLanes(yield->getOperand(number), e.spaceIndex));
  }
  addToColumns(pass, places);
  for (auto [place, values] : llvm::zip_equal(places, results)) {
    if (values.empty())
      continue;
    moveTo(place);
    Value condition = both(activeRow, place.active);
    if (condition)
      e.openIf(condition);
    for (auto [number, value] : llvm::zip_equal(pass.results, values))
      e.store(number, e.spaceIndex, value);
    if (condition)
      e.closeIf();
  }
  e.setActive({});
}

//===----------------------------------------------------------------------===//
// Rescaled sums
//===----------------------------------------------------------------------===//

/// What exponents are relative to: while nothing but -infinity was seen, 0, so that there is no
/// infinity - infinity.
Value RowMap::reference(Value maximum) {
  OpBuilder &b = e.builder();
  Location loc = e.loc();
  auto constant = [&](double x) -> Value {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(x)));
  };
  Value nothing =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, constant(-INFINITY));
  return arith::SelectOp::create(b, loc, nothing, constant(0), maximum);
}

/// e^(x - reference) beside the 1 that the maximum contributes: the absolute error counts.
Value RowMap::exponential(Value x, Value reference) {
  OpBuilder &b = e.builder();
  if (auto type = dyn_cast<VectorType>(x.getType()))
    reference = vector::BroadcastOp::create(b, e.loc(), type, reference);
  Value difference = arith::SubFOp::create(b, e.loc(), x, reference);
  return math::ExpOp::create(b, e.loc(), difference, arith::FastMathFlags::afn);
}

/// The places' maximum first, then everything relative to it: the sum so far is scaled down once.
void RowMap::rescaleInto(const RescaledSum &pair, ArrayRef<Place> places, Value &maximum,
                         Value &sum) {
  OpBuilder &b = e.builder();
  Values elements, tops, terms;
  for (const Place &place : places) {
    moveTo(place);
    elements.push_back(e.mappedOperand(pair.maximum, e.spaceIndex));
  }
  auto inTree = [&](Operation *op, Values values) {
    while (values.size() > 1) {
      size_t half = (values.size() + 1) / 2;
      for (size_t i = half; i < values.size(); ++i)
        values[i - half] = e.combine(op, values[i - half], values[i]);
      values.truncate(half);
    }
    return values.front();
  };
  Value top = e.combineLanes(pair.maximum, inTree(pair.maximum, elements));
  top = e.combine(pair.maximum, maximum, top);
  // Before anything was seen the factor is 0, and so is the sum.
  Value base = reference(top), factor = exponential(maximum, base);
  for (Value x : elements)
    terms.push_back(exponential(x, base));
  if (auto type = dyn_cast<VectorType>(sum.getType()))
    factor = vector::BroadcastOp::create(b, e.loc(), type, factor);
  sum = arith::MulFOp::create(b, e.loc(), sum, factor);
  sum = e.combine(pair.sum, sum, inTree(pair.sum, terms));
  maximum = top;
}

/// Of two parts of the row: scalars.
Values RowMap::combineParts(const RowPass &pass, ValueRange x, ValueRange y) {
  OpBuilder &b = e.builder();
  Values result;
  for (Operation *op : pass.reductions)
    result.push_back(e.combine(op, x[result.size()], y[result.size()]));
  for (const RescaledSum &pair : pass.rescaled) {
    size_t i = result.size();
    Value top = e.combine(pair.maximum, x[i], y[i]), base = reference(top);
    auto scaled = [&](Value maximum, Value sum) -> Value {
      return arith::MulFOp::create(b, e.loc(), sum, exponential(maximum, base));
    };
    result.append({top, e.combine(pair.sum, scaled(x[i], x[i + 1]), scaled(y[i], y[i + 1]))});
  }
  return result;
}

/// The same over neighbouring threads: sums meet when they have the maximum of all.
Values RowMap::meet(const RowPass &pass, ValueRange parts, int64_t width) {
  Values result;
  for (Operation *op : pass.reductions)
    result.push_back(e.combineWarp(op, parts[result.size()], width));
  for (const RescaledSum &pair : pass.rescaled) {
    size_t i = result.size();
    Value top = e.combineWarp(pair.maximum, parts[i], width);
    Value factor = exponential(parts[i], reference(top));
    Value sum = arith::MulFOp::create(e.builder(), e.loc(), parts[i + 1], factor);
    result.append({top, e.combineWarp(pair.sum, sum, width)});
  }
  return result;
}

/// Values are in the order in which the passes make them: reductions, then maximum and sum of each
/// pair.
void RowMap::setTotals(const RowPass &pass, ValueRange values) {
  OpBuilder &b = e.builder();
  size_t i = 0;
  for (Operation *op : pass.reductions)
    totals[op->getResult(0)] = e.finishReduction(op, values[i++]);
  for (const RescaledSum &pair : pass.rescaled) {
    Value top = values[i++], sum = values[i++];
    // An infinite maximum makes it NaN, as exp(infinity - infinity) does; an empty row has none.
    Value rest = arith::SubFOp::create(b, e.loc(), top, top);
    Value total = arith::AddFOp::create(b, e.loc(), sum, rest);
    Value length = e.mulIndex(outerCount, e.dim(s.space[s.vectorAxis]));
    total = e.selectIndex(e.lessIndex(e.constantIndex(0), length), total, sum);
    totals[pair.maximum->getResult(0)] = e.finishReduction(pair.maximum, top);
    totals[pair.sum->getResult(0)] = e.finishReduction(pair.sum, total);
  }
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

/// A pass over the vectors [begin, begin + count) of the row in loops; one scalar a reduction.
Values RowMap::loops(const RowPass &pass, Value count, unsigned lanes, unsigned unroll,
                     int64_t begin) {
  e.setLanes(lanes);
  int64_t threads = plan.rowThreads;
  Value chunk = e.constantIndex(threads * unroll), zero = e.constantIndex(0);
  // Whole chunks first, then what is left.
  Value whole = e.subIndex(count, e.remIndex(count, chunk));
  size_t reductions = pass.reductions.size(), plain = reductions * unroll;
  // One sum for each of the loads in flight.
  Values sums;
  for (unsigned u = 0; u < unroll; ++u)
    for (Operation *op : pass.reductions)
      sums.push_back(e.identity(op, lanes));
  for (const RescaledSum &pair : pass.rescaled)
    sums.append({e.identity(pair.maximum, 1), e.identity(pair.sum, lanes)});
  auto rescale = [&](ArrayRef<Place> places, MutableArrayRef<Value> parts) {
    for (auto [i, pair] : llvm::enumerate(pass.rescaled))
      rescaleInto(pair, places, parts[2 * i], parts[2 * i + 1]);
  };
  auto main = e.openLoop(zero, whole, chunk, sums);
  SmallVector<Place> places;
  for (unsigned u = 0; u < unroll; ++u) {
    Value first = e.addIndex(lane, e.constantIndex(u * threads));
    Value number = e.addIndex(main.getInductionVar(), first);
    places.push_back(place(e.addIndex(number, e.constantIndex(begin)), lanes));
  }
  Values next;
  // Reads of all places come before the sums that wait for them.
  for (const Place &each : places) {
    moveTo(each);
    for (Operation *op : pass.reductions)
      e.evaluateLanes(op->getOperand(0), e.spaceIndex);
  }
  // Sums of a round's places are accumulators of their own; results are stored together.
  RowPass reductionsOnly = pass;
  reductionsOnly.results.clear();
  for (unsigned u = 0; u < unroll; ++u) {
    Values part(main.getRegionIterArgs().slice(u * reductions, reductions));
    if (reductions != 0)
      visit(reductionsOnly, places[u], part);
    next.append(part);
  }
  for (Value argument : main.getRegionIterArgs().drop_front(plain))
    next.push_back(argument);
  rescale(places, MutableArrayRef<Value>(next).drop_front(plain));
  if (!pass.results.empty()) {
    RowPass resultsOnly;
    resultsOnly.results = pass.results;
    Values none;
    visit(resultsOnly, places, none);
  }
  Values all = e.closeLoop(main, next);
  Values total(ArrayRef<Value>(all).take_front(reductions));
  for (unsigned u = 1; u < unroll; ++u)
    for (auto [i, op] : llvm::enumerate(pass.reductions))
      total[i] = e.combine(op, total[i], all[u * reductions + i]);
  total.append(all.begin() + plain, all.end());

  auto rest = e.openLoop(e.addIndex(whole, lane), count, e.constantIndex(threads), total);
  Place last = place(e.addIndex(rest.getInductionVar(), e.constantIndex(begin)), lanes);
  Values parts(rest.getRegionIterArgs()), sumsOfRest(ArrayRef<Value>(parts).take_front(reductions));
  rescale(last, MutableArrayRef<Value>(parts).drop_front(reductions));
  visit(pass, last, sumsOfRest);
  llvm::copy(sumsOfRest, parts.begin());
  total = e.closeLoop(rest, parts);
  for (auto [i, op] : llvm::enumerate(pass.reductions))
    total[i] = e.combineLanes(op, total[i]);
  for (auto [i, pair] : llvm::enumerate(pass.rescaled)) {
    Value &sum = total[reductions + 2 * i + 1];
    sum = e.combineLanes(pair.sum, sum);
  }
  return total;
}

/// The thread's vector `k` of those in registers. Beyond the end it reads the last one once more,
/// inactive.
Value RowMap::placeNumber(int64_t k, Value &active) {
  int64_t count =
      *productOf(e.fusion.getContext(), s.space, s.reduced).getConstant() / int64_t(plan.lanes);
  Value vector = e.addIndex(lane, e.constantIndex(k * plan.rowThreads));
  if ((k + 1) * plan.rowThreads <= count)
    return vector;
  active = e.lessIndex(vector, e.constantIndex(count));
  return e.minIndex(vector, e.constantIndex(count - 1));
}

/// All of a pass; what the thread's part of the reductions comes to.
Values RowMap::sweep(const RowPass &pass) {
  unsigned lanes = plan.lanes;
  DimAttr axis = s.space[s.vectorAxis];
  Value width = e.constantIndex(lanes), size = e.dim(axis);
  if (plan.vectors != 0) {
    e.setLanes(lanes);
    SmallVector<Place> places;
    for (int64_t k = 0; k < plan.vectors; ++k) {
      Value active, vector = placeNumber(k, active);
      places.push_back(place(vector, lanes));
      places.back().active = active;
    }
    Values values;
    visit(pass, places, values);
    for (auto [op, value] : llvm::zip_equal(pass.reductions, values))
      value = e.combineLanes(op, value);
    return values;
  }
  if (plan.reducingLanes != 0 && pass.results.empty()) {
    // The rest of a row that is no multiple: by single elements, behind the vectors.
    int64_t wide = plan.reducingLanes, length = *axis.getConstant(), vectors = length / wide;
    Values sums = loops(pass, e.constantIndex(vectors), wide, kInsideUnroll);
    Values rest = loops(pass, e.constantIndex(length % wide), 1, 1, vectors * wide);
    return combineParts(pass, sums, rest);
  }
  Value vectors = e.mulIndex(outerCount, e.divIndex(size, width));
  if (axis.getConstant() || lanes == 1)
    return loops(pass, vectors, lanes, plan.unroll);
  // One of the two loops is empty.
  Value one = e.constantIndex(1), zero = e.constantIndex(0);
  Value divides = e.lessIndex(e.remIndex(size, width), one);
  e.assumeMultiple(size, lanes);
  Values wide = loops(pass, e.selectIndex(divides, vectors, zero), lanes, plan.unroll);
  e.assumeMultiple(size, 1);
  Value scalars = e.selectIndex(divides, zero, e.mulIndex(outerCount, size));
  Values narrow = loops(pass, scalars, 1, plan.unroll);
  return combineParts(pass, wide, narrow);
}

void RowMap::storeKept() {
  if (s.keptResults.empty())
    return;
  e.pass = order.passes.size();
  e.setLanes(1);
  e.spaceIndex.clear();
  e.spaceOffset.reset();
  e.setActive(activeRow);
  Values values;
  for (unsigned number : s.keptResults)
    values.push_back(e.evaluate(yield->getOperand(number), e.keptIndex));
  e.setActive({});
  // All threads of the row have read an input that a result may replace.
  bool replaces = llvm::any_of(s.keptResults, [&](unsigned number) {
    return llvm::is_contained(e.fusion.getInputs().getTypes(),
                              e.fusion.getResult(number).getType());
  });
  if (replaces && plan.rowThreads > kWarp)
    e.syncBlock();
  else if (replaces)
    e.syncWarp();
  e.openIf(both(activeRow, e.lessIndex(lane, e.constantIndex(1))));
  for (auto [number, value] : llvm::zip_equal(s.keptResults, values))
    e.store(number, e.keptIndex, value);
  e.closeIf();
}

void RowMap::setRows(Value round) {
  row = round;
  lane = e.thread();
  if (plan.blockRows > 1) {
    Value threads = e.constantIndex(plan.rowThreads), rows = e.productOf(keptSizes);
    lane = e.remIndex(e.thread(), threads);
    row = e.addIndex(e.mulIndex(round, e.constantIndex(plan.blockRows)),
                     e.divIndex(e.thread(), threads));
    std::optional<int64_t> known = product(e.fusion.getContext(), keptSizes).getConstant();
    // Rows beyond the last are done once more and not stored.
    if (!known || *known % plan.blockRows != 0) {
      activeRow = e.lessIndex(row, rows);
      row = e.minIndex(row, e.subIndex(rows, e.constantIndex(1)));
    }
  }
  e.keptIndex = e.delinearize(row, keptSizes);
}

/// Every pass sees the totals of those before it.
void RowMap::runPasses() {
  for (auto [number, pass] : llvm::enumerate(order.passes)) {
    e.pass = number;
    Values values = sweep(pass);
    if (!pass.reduces())
      continue;
    auto combine = [&](ValueRange parts, int64_t width) { return meet(pass, parts, width); };
    if (plan.rowThreads > kWarp)
      values = e.combineBlock(values, combine);
    else
      values = combine(values, plan.rowThreads);
    setTotals(pass, values);
  }
  storeKept();
}

//===----------------------------------------------------------------------===//
// Sums down the columns
//===----------------------------------------------------------------------===//

/// Before the pass stores anything: a result may replace what is summed up.
void RowMap::addToColumns(const RowPass &pass, ArrayRef<Place> places) {
  for (Operation *op : pass.columnSums)
    for (auto [place, sum] : llvm::zip_equal(places, columns[op])) {
      moveTo(place);
      Value value = e.mappedOperand(op, e.spaceIndex);
      if (Value active = both(activeRow, place.active))
        value = arith::SelectOp::create(e.builder(), op->getLoc(), active, value,
                                        e.identity(op, e.getLanes()));
      sum = e.combine(op, sum, value);
    }
}

/// A loop over rounds of rows, which carries the sums of the thread's columns.
void RowMap::runWithColumns() {
  assert(plan.vectors != 0 && "the whole row is in registers");
  // The same number of rounds for all threads of a block, which meet in each.
  ColumnSums sums(e.fusion, s, plan);
  e.setLanes(plan.lanes);
  Values carried;
  for (Operation *op : s.columnSums)
    carried.append(plan.vectors, e.identity(op, plan.lanes));
  auto loop = e.openLoop(e.block(), e.dim(sums.rounds), e.dim(sums.parts), carried);
  e.repeatWork();
  for (auto [i, op] : llvm::enumerate(s.columnSums))
    columns[op] = Values(loop.getRegionIterArgs().slice(i * plan.vectors, plan.vectors));
  setRows(loop.getInductionVar());
  runPasses();
  // What addToColumns has left is the next round's beginning.
  carried.clear();
  for (auto &[op, values] : columns)
    carried.append(values);
  carried = e.closeLoop(loop, carried);
  for (auto [i, op] : llvm::enumerate(s.columnSums))
    columns[op] = Values(ArrayRef<Value>(carried).slice(i * plan.vectors, plan.vectors));
  storeColumns(sums);
}

/// Rows that the block does at once meet through shared memory, one vector of a sum at a time.
void RowMap::storeColumns(const ColumnSums &sums) {
  e.setLanes(plan.lanes);
  Tile tile;
  tile.columns = plan.rowThreads;
  tile.rows = plan.blockRows;
  llvm::DenseMap<Type, Value> arrays;
  Value first = e.lessIndex(e.thread(), e.constantIndex(plan.rowThreads));
  for (auto &[op, values] : columns) {
    Type type = ColumnSums::stepType(op);
    Value &array = arrays[type];
    if (!array && plan.blockRows > 1)
      array = e.shared(type, e.threads() * plan.lanes);
    for (auto [k, value] : llvm::enumerate(values)) {
      auto combine = [this, op = op](Value x, Value y) { return e.combine(op, x, y); };
      Value total = combineRows(e, tile, TileValue{array, type, value, combine}).front();
      Value active, vector = placeNumber(k, active);
      e.openIf(both(first, active));
      e.storeTo(temporaryAt(e, sums.partials.lookup(op)), type,
                sums.partialOffset(e, e.block(), vector), total);
      e.closeIf();
    }
  }
}

void RowMap::run() {
  e.resident = [this](Value value, ArrayRef<ElementIndex> index) { return lookUp(value, index); };
  if (s.columnSums.empty()) {
    setRows(e.block());
    runPasses();
  } else {
    runWithColumns();
  }
  e.finish();
}

void mapRow(GpuKernel &kernel) {
  RowMap(kernel).run();
  if (!kernel.structure.columnSums.empty())
    mapColumnTotals(kernel);
}

} // namespace trainc::codegen
